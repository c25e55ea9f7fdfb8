"""How many resolves are under way: those that callers wait for, and a few slow ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """At most `limit` turns at once; a resolve that outlasts `seconds` gives its turn to the next.

    It goes on as one of at most `slow` in the background, until `longest_seconds`. Where there are
    more of these, the oldest is ended: repositories that hang never hold up the others.
    """

    def __init__(self, limit: int, slow: int, seconds: float, longest_seconds: float) -> None:
        self._free = asyncio.Semaphore(limit)
        self._most_slow = slow
        self._seconds = seconds
        self._longest_seconds = longest_seconds
        self._slow: dict[asyncio.Timeout, None] = {}

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raise TimeoutError where the work inside takes too long."""
        await self._free.acquire()
        timeout = asyncio.timeout(self._longest_seconds)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._pass_on, timeout)
        try:
            async with timeout:
                yield
        finally:
            timer.cancel()
            if timeout in self._slow:
                del self._slow[timeout]
            else:
                self._free.release()

    def _pass_on(self, timeout: asyncio.Timeout) -> None:
        self._slow[timeout] = None
        self._free.release()
        for oldest in list(self._slow)[: max(len(self._slow) - self._most_slow, 0)]:
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())
