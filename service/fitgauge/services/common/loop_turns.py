"""Work on the event loop that takes some milliseconds: one piece at a time, and after a long one
what else is ready first, so that callers who ask much at once delay others by one piece and not by
all of them."""

import asyncio
from collections import deque
from time import monotonic

_LONG_SECONDS = 0.002
"""From so much on, work lets others be answered before the next [s]."""

_PASSES = 8
"""Passes of the event loop from a connection to the end of a cached answer."""


class LoopTurns:
    """Lets one piece of work compute in a pass of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False
        self._begun = 0.0

    async def take(self) -> None:
        """Wait for the turn; the caller may then compute until it awaits something."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # one that ended passes no turn on
            self._loop, self._is_taken = loop, False
            self._waiting.clear()
        if self._is_taken:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._is_taken = True
            self._begin(loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note when work begins, which ends before the next callback of the event loop."""
        self._begun = monotonic()
        loop.call_soon(self._end, loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass the turn on, after long work later."""
        is_long = monotonic() - self._begun > _LONG_SECONDS
        self._pass_on(loop, _PASSES if is_long else 0)

    def _pass_on(self, loop: asyncio.AbstractEventLoop, passes: int) -> None:
        """Give the turn to the first that still waits, after so many passes of the event loop."""
        if passes:
            loop.call_soon(self._pass_on, loop, passes - 1)
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                self._begin(loop)
                return
        self._is_taken = False
