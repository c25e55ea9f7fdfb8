"""Work that takes longer than the event loop may be held: in threads, one at a time, bounded and
cancellable."""

import asyncio
from bisect import bisect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Lock
from time import monotonic, thread_time
from typing import TypeVar

from fitgauge.errors import QuestionTooLargeError, QueueFullError

Answer = TypeVar("Answer")

Checkpoint = Callable[[], None]
"""What long work calls at least every few milliseconds. It lets shorter work go first, and raises
where the answer is no longer wanted or the time is up."""

MOST_QUESTIONS = 16
"""Questions that are computed or wait at once; a further one is refused."""

QUESTION_SECONDS = 20.0
"""Processor time that a question may take [s]: the same on a busy machine as on an idle one."""
_WAIT_SECONDS = 20.0
"""How much longer a question may take by the clock, while others have the processor [s]."""
RETRY_SECONDS = 5.0
_THREADS = 32
"""For MOST_QUESTIONS, for what continues an answer that has begun, and for what is just
cancelled."""

_LEVELS = (0.1, 0.5, 2.0)
"""Processor time [s] after which work gives way to work that has computed for less. Large work
gives way to all other from the start."""

_SLICE_SECONDS = 0.005
"""How often a checkpoint looks at the clock's consequences."""


_STALLED_SECONDS = 1.0
"""Without a checkpoint for so long, work loses its turn to others and runs alongside them."""


def no_checkpoint() -> None:
    """Do nothing: the Checkpoint of work that blocks no other request."""


class AbandonedError(Exception):
    """The caller has gone: raised inside the work, seen by no caller."""


class _Turn:
    """The right to compute, held by one piece of work at a time.

    Of those that wait, what has computed for less time goes first, by _LEVELS; within a level
    what came first. Long work is so finished one by one, and short work waits only for the
    levels below it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._waiting: set[_Work] = set()
        self._holder: _Work | None = None

    def take(self, work: "_Work") -> None:
        """Wait for the turn. Raise what `work.stop_if_over` raises where that comes first."""
        with self.lock:
            self._waiting.add(work)
            try:
                while self._is_held() or self._first() is not work:
                    work.stop_if_over()
                    work.woken.wait(min(max(0.0, work.until - monotonic()), _STALLED_SECONDS))
                work.stop_if_over()
                work.looked = monotonic()
                self._holder = work
            finally:
                self._waiting.discard(work)
                self._wake_first()

    def give_back(self, work: "_Work") -> None:
        """Let the next one take the turn, if `work` holds it: what is stopped while it waits
        does not."""
        with self.lock:
            if self._holder is work:
                self._holder = None
                self._wake_first()

    def is_due(self, work: "_Work") -> bool:
        """Return whether another should compute in the place of `work`, or does already."""
        with self.lock:
            return self._holder is not work or (
                bool(self._waiting) and self._first().rank < work.rank
            )

    def wake(self, work: "_Work") -> None:
        """Make `work` look whether it is over, where it waits."""
        with self.lock:
            work.woken.notify()

    def _wake_first(self) -> None:
        """Wake the next one alone: each thread that wakes takes the interpreter from the event
        loop."""
        if self._waiting and not self._is_held():
            self._first().woken.notify()

    def _is_held(self) -> bool:
        return self._holder is not None and monotonic() - self._holder.looked < _STALLED_SECONDS

    def _first(self) -> "_Work":
        return min(self._waiting, key=lambda work: work.rank)


class _Work:
    """One piece of work: its place in the order, its clock, and whether anybody wants its
    result."""

    def __init__(self, turn: _Turn, number: int, seconds: float, *, large: bool) -> None:
        self.rank = len(_LEVELS) if large else 0, number
        self.until = monotonic() + seconds + _WAIT_SECONDS
        self.abandoned = False
        self.woken = Condition(turn.lock)
        self._turn = turn
        self._seconds = seconds
        self._computed = 0.0
        self._clock = 0.0
        self.looked = self.until

    def run(self, work: Callable[[Checkpoint], Answer]) -> Answer:
        """Return what `work` does, in the thread of the caller."""
        self._turn.take(self)
        self._clock = thread_time()
        try:
            return work(self.checkpoint)
        finally:
            self._turn.give_back(self)

    def checkpoint(self) -> None:
        """See Checkpoint."""
        if self.abandoned:
            raise AbandonedError
        if monotonic() - self.looked < _SLICE_SECONDS:
            return
        clock = thread_time()
        self._computed += clock - self._clock
        self._clock = clock
        level, number = self.rank
        self.rank = max(level, bisect(_LEVELS, self._computed)), number
        self.stop_if_over()
        if self._turn.is_due(self):
            self._turn.give_back(self)
            self._turn.take(self)
        self.looked = monotonic()

    def stop_if_over(self) -> None:
        """Raise AbandonedError, QuestionTooLargeError or QueueFullError where the work must end."""
        if self.abandoned:
            raise AbandonedError
        if self._computed > self._seconds:
            raise _too_large(self._seconds)
        if monotonic() >= self.until:
            raise queue_full()

    def abandon(self) -> None:
        """Stop the work at its next checkpoint, or while it waits."""
        self.abandoned = True
        self._turn.wake(self)


class LongQuestions:
    """Runs long work in threads, of which one computes at a time: arithmetic gains nothing from
    more."""

    def __init__(self, seconds: float = QUESTION_SECONDS) -> None:
        """seconds: the processor time that one piece of work may take."""
        self._seconds = seconds
        self._turn = _Turn()
        self._threads = ThreadPoolExecutor(_THREADS, "long-question")
        self._places = asyncio.Semaphore(MOST_QUESTIONS)
        self._under_way: set[_Work] = set()
        self._count = 0

    @property
    def under_way(self) -> int:
        """How many pieces of work wait or are computed."""
        return len(self._under_way)

    async def run(self, work: Callable[[Checkpoint], Answer], *, large: bool = False) -> Answer:
        """Return the result of `work`, which stops where the awaiting task is cancelled.

        large: whether it takes seconds for certain, so that all other work goes first.
        Raise QueueFullError where too much waits already, QuestionTooLargeError where it takes
        too long.
        """
        if self._places.locked():
            raise queue_full()
        async with self._places:
            return await self.resume(work, large=large)

    async def resume(self, work: Callable[[Checkpoint], Answer], *, large: bool = False) -> Answer:
        """As `run`, for what continues an answer that has begun: it is never refused at the
        door."""
        self._count += 1
        piece = _Work(self._turn, self._count, self._seconds, large=large)
        self._under_way.add(piece)
        try:
            future = self._threads.submit(piece.run, work)
        except RuntimeError:  # shut down
            self._under_way.discard(piece)
            raise queue_full() from None
        future.add_done_callback(lambda _: self._under_way.discard(piece))
        try:
            async with asyncio.timeout(self._seconds + _WAIT_SECONDS + _STALLED_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:  # it makes no checkpoint
            raise _too_large(self._seconds) from None
        finally:
            piece.abandon()

    def close(self) -> None:
        """Stop all work."""
        for piece in tuple(self._under_way):
            piece.abandon()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _too_large(seconds: float) -> QuestionTooLargeError:
    detail = f"The request takes more than the limit of {seconds:g} s of computing."
    hint = "Ask for less at a time: fewer models, formats, GPUs, contexts or layouts."
    return QuestionTooLargeError(detail, hint=hint)


def queue_full() -> QueueFullError:
    """Return the error of a question for which there is no place."""
    detail = "Too many long requests are waiting."
    return QueueFullError(detail, hint="Retry shortly.", retry_after_seconds=RETRY_SECONDS)
