"""How much each caller may ask: requests a second, and requests a day."""

import math
import time
from collections.abc import Callable
from typing import Protocol

from fitgauge.api.access.caller import AccessError, Caller
from fitgauge.api.middleware import TokenBucket
from fitgauge.engine.memo import Memo

MOST_CALLERS = 10_000
"""whose use is counted; the least recent one is forgotten"""
_DAY_SECONDS = 24 * 60 * 60


class SharedCounts(Protocol):
    """Counts of callers that replicas share."""

    async def take(
        self, caller: str, per_second: float, per_day: int, weight: int
    ) -> tuple[str, float] | None:
        """Count a request, and return the limit that it is beyond (day or second, empty for none)
        and the seconds to wait; None where the counts are away."""


class CallerLimits:
    """Counts the requests of each caller; 0 is no limit. `clock`: seconds since 1970.

    Where replicas share counts, these decide; where they are away, each replica's own."""

    def __init__(
        self,
        per_second: float,
        per_day: int,
        clock: Callable[[], float] = time.time,
        shared: SharedCounts | None = None,
    ) -> None:
        self._shared = shared
        self._per_second = per_second
        self._per_day = per_day
        self._clock = clock
        self._buckets: Memo[str, TokenBucket] = Memo(MOST_CALLERS)
        self._days: Memo[str, tuple[int, int]] = Memo(MOST_CALLERS)

    async def take(self, caller: Caller, weight: int) -> None:
        """Count a request as `weight`. Raise AccessError 429 beyond a limit; it then counts for
        nothing."""
        if self._shared is not None and weight and (self._per_day or self._per_second):
            taken = await self._shared.take(caller.id, self._per_second, self._per_day, weight)
            if taken is not None:
                self._refuse(*taken)
                return
        if self._per_day:
            day, passed = divmod(self._clock(), _DAY_SECONDS)
            counted_day, used = self._days.get(caller.id) or (day, 0)
            used = used if counted_day == day else 0
            if weight and used >= self._per_day:
                self._refuse("day", _DAY_SECONDS - passed)
        if self._per_second and weight:
            bucket = self._buckets.get_or_compute(
                caller.id, lambda: TokenBucket(self._per_second, self._clock)
            )
            if wait := bucket.wait_seconds(weight):
                self._refuse("second", wait)
        if self._per_day:
            self._days.put(caller.id, (int(day), used + weight))

    def _refuse(self, limit: str, wait_seconds: float) -> None:
        """Raise AccessError 429 where a request is beyond a limit."""
        if limit == "day":
            detail = f"The quota of {self._per_day} requests a day is used up."
            raise _beyond("quota-exceeded", detail, wait_seconds)
        if limit:
            raise _beyond("too-many-requests", "Too many requests of this caller.", wait_seconds)


def _beyond(slug: str, detail: str, wait_seconds: float) -> AccessError:
    seconds = max(1, math.ceil(wait_seconds))
    return AccessError(
        429,
        slug,  # type: ignore[arg-type]
        detail,
        f"Ask again in {seconds} s.",
        retry_after=seconds,
    )
