"""The gate before the Hub: shut for a while after a failure, so that an outage costs one caller its patience and not all."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fitgauge.errors import HubBusy, HubError, HubUnreachable


class Gate:
    """Open, or shut with an error until a moment; after it one resolve at a time may try."""

    def __init__(self, outage_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._outage_seconds = outage_seconds
        self._clock = clock
        self._error: HubError | None = None
        self._until = 0.0
        self._trying = False
        self._answered = float("-inf")

    def refusal(self) -> HubError | None:
        """The error to give at once, None where a request may be made now."""
        left = self._until - self._clock()
        if self._error is None or (left <= 0 and not self._trying):
            return None
        if isinstance(self._error, HubBusy):
            return HubBusy(self._error.detail, retry_after_seconds=max(left, 1.0), hint=self._error.hint)
        return HubUnreachable(self._error.detail, hint=self._error.hint)

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Around the requests of one resolve. Raises the refusal; a HubError inside shuts the gate, everything else opens it."""
        if refusal := self.refusal():
            raise refusal
        self._trying = self._error is not None
        try:
            yield
        except HubError as error:
            self.shut(error)
            raise
        except Exception:
            self._open()
            raise
        except BaseException:
            self._trying = False
            raise
        self._open()

    def shut(self, error: HubError, since: float = float("inf")) -> None:
        """Refuses from now on, unless the Hub answered anybody after `since` (then one model is slow, not the Hub)."""
        if self._answered >= since:
            return
        seconds = error.retry_after_seconds if isinstance(error, HubBusy) else self._outage_seconds
        self._error, self._until, self._trying = error, self._clock() + seconds, False

    def _open(self) -> None:
        self._error, self._trying, self._answered = None, False, self._clock()
