"""One ASGI middleware that counts, times and limits: cheaper than three that each wrap every message."""

import time
from collections.abc import Callable

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter, Histogram

from fitgauge.api.problems import Refusal, on_refusal

_UNLIMITED = ("/health/", "/metrics")


class TokenBucket:
    """At most `rate` requests a second on average, `rate` at once. All callers share it: behind a gateway they share an address anyway."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = max(1.0, rate)
        self._filled = clock()

    def wait_seconds(self) -> float:
        """0 where a request may pass (it then counts), else how long until one may."""
        now = self._clock()
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class Observer:
    """Counts requests by route and status, times them, and answers 429 beyond the limit."""

    def __init__(self, registry: CollectorRegistry, requests_per_second: float) -> None:
        self._requests = Counter("fitgauge_requests", "Requests answered.", ("route", "method", "status"), registry=registry)
        self._seconds = Histogram("fitgauge_request_seconds", "Time to answer.", ("route",), registry=registry)
        self._bucket = TokenBucket(requests_per_second) if requests_per_second > 0 else None

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """The application, observed."""

        async def observed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != ScopeType.HTTP:
                await app(scope, receive, send)
                return
            started = time.perf_counter()
            status = 500

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                wait = self._bucket.wait_seconds() if self._bucket and not scope["path"].startswith(_UNLIMITED) else 0.0
                if wait:
                    await _too_many(wait)(scope, receive, sent)
                else:
                    await app(scope, receive, sent)
            finally:
                route = scope.get("path_template") or "unknown"
                self._requests.labels(route, scope["method"], str(status)).inc()
                self._seconds.labels(route).observe(time.perf_counter() - started)

        return observed


def _too_many(wait: float) -> ASGIApp:
    refusal = Refusal(
        429, "too-many-requests", "More requests than this service takes.", "Ask again later.", retry_after=max(1, round(wait))
    )
    response = on_refusal(None, refusal)  # type: ignore[arg-type]
    return response.to_asgi_response(None, None)  # type: ignore[arg-type]
