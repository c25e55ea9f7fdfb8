"""The circuit breaker before the Hub. It opens on evidence of the Hub itself, never of one
repository.

Closed: every resolve sends its requests. Open: none does, until a moment. Half-open, after that
moment: one resolve probes, and the others are refused until it ends.

Evidence: the endpoint cannot be connected to (refused, no such name, TLS); it answers 429; several
different repositories time out and no answer came in between. A 5xx, a page, a broken body and a
single time-out are failures of that repository: `NegativeCache` (cache.py) remembers them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fitgauge.errors import HubBusyError, HubError

TIMEOUTS = 3
"""different repositories that time out"""
WINDOW_SECONDS = 30.0
"""within which they do"""


class CircuitBreaker:
    """Opens for `open_seconds`, or for as long as a 429 asks. `clock`: monotonic seconds."""

    def __init__(self, open_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._open_seconds = open_seconds
        self._clock = clock
        self._error: HubError | None = None
        self._until = 0.0
        self._probe_until = 0.0
        self._timeouts: dict[str, float] = {}
        self._answered_at = float("-inf")
        self._opened_at = float("-inf")

    def now(self) -> float:
        """Return the moment by the breaker's clock."""
        return self._clock()

    def refusal(self) -> HubError | None:
        """Return the error to give at once, None where a resolve may send requests now."""
        now = self._clock()
        if self._error is None or now >= max(self._until, self._probe_until):
            return None
        return self._error.later(max(self._until - now, 1.0))

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Enclose the requests of one resolve. Raise the refusal where the breaker is open.

        Half-open, this resolve is the probe: it has `open_seconds` before another may try.
        """
        if refusal := self.refusal():
            raise refusal
        probes = self._error is not None
        if probes:
            self._probe_until = self._clock() + self._open_seconds
        try:
            yield
        except HubError:
            if probes and self._error is not None:
                self._until = max(self._until, self._clock() + self._open_seconds)
            raise
        finally:
            if probes:
                self._probe_until = 0.0

    def open(self, error: HubError) -> None:
        """Open: this error is one of the Hub itself."""
        seconds = (
            error.retry_after_seconds if isinstance(error, HubBusyError) else self._open_seconds
        )
        self._opened_at = self._clock()
        self._error, self._until, self._probe_until = error, self._opened_at + seconds, 0.0
        self._timeouts.clear()

    def timed_out(self, repo_id: str, error: HubError, since: float) -> None:
        """Count a repository that did not answer since a moment; open where several did not.

        An answer to anyone after that moment shows that the Hub lives. A probe that times out opens
        at once; a request from before the breaker opened says nothing new.
        """
        now = self._clock()
        if self._answered_at >= since or self._opened_at > since:
            return
        self._timeouts[repo_id] = now
        late = [name for name, at in self._timeouts.items() if now - at > WINDOW_SECONDS]
        for name in late:
            del self._timeouts[name]
        if self._error is not None or len(self._timeouts) >= TIMEOUTS:
            self.open(error)

    def answered(self) -> None:
        """Close: the Hub answered, whatever it said. A 429's time is waited for all the same."""
        self._answered_at = self._clock()
        self._timeouts.clear()
        if not isinstance(self._error, HubBusyError) or self._answered_at >= self._until:
            self._error = None
