"""Metrics, access log and rate limit in one ASGI middleware: cheaper than three that each wrap
every message."""

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter, Histogram

from fitgauge import __version__
from fitgauge.api.problems import RequestError, on_request_error
from fitgauge.api.request_ids import answer_headers, read_ids
from fitgauge.hub.request_context import REQUEST_IDS

_UNLIMITED = ("/health/", "/metrics")
_API_VERSION = (b"api-version", __version__.encode())
"""Of the OpenAPI document, in every answer."""


class TokenBucket:
    """Rate limit: `rate` requests a second on average, `rate` at once.

    All callers share it, because behind a gateway they share an address. An expensive request
    counts as several: it passes where one token is left, and the next ones wait for its debt."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = max(1.0, rate)
        self._filled = clock()

    def wait_seconds(self, weight: int = 1) -> float:
        """Return 0 and take `weight` tokens, or return the seconds until a request may pass."""
        now = self._clock()
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= weight
            return 0.0
        return (1 - self._tokens) / self._rate


class ObservabilityMiddleware:
    """Count and time requests by route and status, log a line of each, answer 429 beyond the limit.

    Label values are bounded: a route is its template, never the requested path, and the server
    accepts a fixed list of methods."""

    def __init__(
        self,
        registry: CollectorRegistry,
        requests_per_second: float,
        write: Callable[[str], object] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """weights: requests that one counts as under the limit, by path or by its
        last folder, such as /v1/answers/; 1 where absent. write:
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
        self._observe = cache(self._observer)

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Return the application wrapped in this middleware."""

        async def observed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != ScopeType.HTTP:
                await app(scope, receive, send)
                return
            started = time.perf_counter()
            status = 500
            method = scope["method"]
            ids = read_ids(scope["headers"])
            REQUEST_IDS.set(ids)
            # HEAD is GET whose body the server leaves out; the server reads the method from the
            # scope that it made
            inner = {**scope, "method": "GET"} if method == "HEAD" else scope

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    message["headers"] = [
                        *message["headers"],
                        _API_VERSION,
                        *answer_headers(ids),
                    ]
                await send(message)

            try:
                path, wait = scope["path"], 0.0
                if self._bucket and not path.startswith(_UNLIMITED):
                    wait = self._bucket.wait_seconds(self._weight(path))
                if wait:
                    await _too_many(wait)(inner, receive, sent)
                else:
                    await app(inner, receive, sent)
            finally:
                route = inner.get("path_template") or "unknown"
                self._observe(route, method, status)(time.perf_counter() - started)

        return observed

    def _weight(self, path: str) -> int:
        """Return as how many requests one of this path counts."""
        template = path[: path.rfind("/") + 1]
        return self._weights.get(path) or self._weights.get(template, 1)

    def _observer(self, route: str, method: str, status: int) -> Callable[[float], None]:
        """Return a function that records the seconds of such a request."""
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
    error = RequestError(
        429,
        "too-many-requests",
        "Too many requests.",
        f"Ask again in {seconds} s.",
        retry_after=seconds,
    )
    return on_request_error(None, error).to_asgi_response(None, None)  # type: ignore[arg-type]
