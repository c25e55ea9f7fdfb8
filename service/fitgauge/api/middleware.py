"""One ASGI middleware that counts, times, logs and limits: cheaper than three that each wrap
every message."""

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter, Histogram

from fitgauge.api.problems import RequestError, on_refusal

_UNLIMITED = ("/health/", "/metrics")


class TokenBucket:
    """At most `rate` requests a second on average, `rate` at once. All callers share it: behind a
    gateway they share an address anyway.

    An expensive request counts as several: it passes where one would, and those that follow wait
    for what it took."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = max(1.0, rate)
        self._filled = clock()

    def wait_seconds(self, weight: int = 1) -> float:
        """0 where a request may pass (it then counts as `weight` of them), else how long until
        one may."""
        now = self._clock()
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= weight
            return 0.0
        return (1 - self._tokens) / self._rate


class ObservabilityMiddleware:
    """Counts requests by route and status, times them, writes a line of each to the log, and
    answers 429 beyond the limit.

    A route is its template and never what a caller made up, so there are few; so is a method,
    which the server takes from a fixed list."""

    def __init__(
        self,
        registry: CollectorRegistry,
        requests_per_second: float,
        write: Callable[[str], object] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """weights: requests that one counts as under the limit, by path; 1 where absent. write:
        takes each line of the log; a stream's own method, because logging would cost a fifth of a
        warm answer."""
        self._write = write
        self._weights = weights or {}
        self._requests = Counter(
            "fitgauge_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "fitgauge_request_seconds", "Time to answer.", ("route",), registry=registry
        )
        self._bucket = TokenBucket(requests_per_second) if requests_per_second > 0 else None
        self._observe = cache(self._observing)

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Return the application, observed."""

        async def observed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != ScopeType.HTTP:
                await app(scope, receive, send)
                return
            started = time.perf_counter()
            status = 500
            method = scope["method"]
            # HEAD is GET whose body the server leaves out; the server reads the method from the
            # scope that it made
            inner = {**scope, "method": "GET"} if method == "HEAD" else scope

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                path, wait = scope["path"], 0.0
                if self._bucket and not path.startswith(_UNLIMITED):
                    wait = self._bucket.wait_seconds(self._weights.get(path, 1))
                if wait:
                    await _too_many(wait)(inner, receive, sent)
                else:
                    await app(inner, receive, sent)
            finally:
                route = inner.get("path_template") or "unknown"
                self._observe(route, method, status)(time.perf_counter() - started)

        return observed

    def _observing(self, route: str, method: str, status: int) -> Callable[[float], None]:
        """Return what to call with the seconds that such a request took."""
        count, time_of = (
            self._requests.labels(route, method, str(status)).inc,
            self._seconds.labels(route).observe,
        )
        line, write = (
            f"INFO fitgauge.access method={method} route={route} status={status}",
            self._write,
        )

        def observe(seconds: float) -> None:
            count()
            time_of(seconds)
            if write is not None:
                write(
                    f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {line}"
                    f" ms={seconds * 1000:.2f}\n"
                )

        return observe


def _too_many(wait: float) -> ASGIApp:
    seconds = math.ceil(wait)
    refusal = RequestError(
        429,
        "too-many-requests",
        "More requests than this service takes.",
        f"Ask again in {seconds} s.",
        retry_after=seconds,
    )
    return on_refusal(None, refusal).to_asgi_response(None, None)  # type: ignore[arg-type]
