"""How much each caller may ask: requests a second, and requests a day."""

import math
import time
from collections.abc import Callable

from fitgauge.api.access.caller import AccessError, Caller
from fitgauge.api.middleware import TokenBucket
from fitgauge.engine.memo import Memo

MOST_CALLERS = 10_000
"""whose use is counted; the least recent one is forgotten"""
_DAY_SECONDS = 24 * 60 * 60


class CallerLimits:
    """Counts the requests of each caller; 0 is no limit. `clock`: seconds since 1970."""

    def __init__(
        self, per_second: float, per_day: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._per_second = per_second
        self._per_day = per_day
        self._clock = clock
        self._buckets: Memo[str, TokenBucket] = Memo(MOST_CALLERS)
        self._days: Memo[str, tuple[int, int]] = Memo(MOST_CALLERS)

    async def take(self, caller: Caller, weight: int) -> None:
        """Count a request as `weight`. Raise AccessError 429 beyond a limit; it then counts for
        nothing."""
        if self._per_day:
            day, passed = divmod(self._clock(), _DAY_SECONDS)
            counted_day, used = self._days.get(caller.id) or (day, 0)
            used = used if counted_day == day else 0
            if weight and used >= self._per_day:
                raise _beyond(
                    "quota-exceeded",
                    f"The quota of {self._per_day} requests a day is used up.",
                    _DAY_SECONDS - passed,
                )
        if self._per_second and weight:
            bucket = self._buckets.get_or_compute(
                caller.id, lambda: TokenBucket(self._per_second, self._clock)
            )
            if wait := bucket.wait_seconds(weight):
                raise _beyond("too-many-requests", "Too many requests of this caller.", wait)
        if self._per_day:
            self._days.put(caller.id, (int(day), used + weight))


def _beyond(slug: str, detail: str, wait_seconds: float) -> AccessError:
    seconds = max(1, math.ceil(wait_seconds))
    return AccessError(
        429,
        slug,  # type: ignore[arg-type]
        detail,
        f"Ask again in {seconds} s.",
        retry_after=seconds,
    )
