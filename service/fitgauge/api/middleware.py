"""Metrics, access log and rate limit in one ASGI middleware: cheaper than three that each wrap
every message."""

import math
import time
from collections.abc import Callable, Mapping

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from fitgauge import __version__
from fitgauge.api.access_log import AccessLog
from fitgauge.api.metrics import RequestMetrics
from fitgauge.api.problem_responses import on_request_error
from fitgauge.api.problems import RequestError
from fitgauge.api.request_ids import answer_headers, read_ids
from fitgauge.hub.request_context import REQUEST_IDS
from fitgauge.services.common.answered import ANSWERED, Answered

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


def weight_of(weights: Mapping[str, int], path: str) -> int:
    """Return as how many requests one of this path counts. weights: by path, or by its last
    folder, such as /v1/answers/."""
    template = path[: path.rfind("/") + 1]
    return weights.get(path, weights.get(template, 1))


class ObservabilityMiddleware:
    """Count and time requests by route and status, log a line of each, answer 429 beyond the
    limit."""

    def __init__(
        self,
        metrics: RequestMetrics,
        requests_per_second: float,
        log: AccessLog | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        """weights: requests that one counts as under the limit, by path or by its
        last folder, such as /v1/answers/; 1 where absent."""
        self._log = log
        self._weights = weights or {}
        self._metrics = metrics
        self._bucket = TokenBucket(requests_per_second) if requests_per_second > 0 else None

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
            answered = Answered()
            ANSWERED.set(answered)
            self._metrics.in_progress += 1
            # HEAD is GET whose body the server leaves out; the server reads the method from the
            # scope that it made
            inner = {**scope, "method": "GET"} if method == "HEAD" else scope

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    message["headers"] = [*message["headers"], _API_VERSION, *answer_headers(ids)]
                await send(message)

            try:
                path, wait = scope["path"], 0.0
                if self._bucket and not path.startswith(_UNLIMITED):
                    wait = self._bucket.wait_seconds(weight_of(self._weights, path))
                if wait:
                    await _too_many(wait)(inner, receive, sent)
                else:
                    await app(inner, receive, sent)
            finally:
                route = inner.get("path_template") or "unknown"
                seconds = time.perf_counter() - started
                self._metrics.in_progress -= 1
                self._metrics.finished(route, method, status, seconds, answered)
                if self._log is not None:
                    self._log(route, method, status, seconds, ids, answered)

        return observed


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
