"""One line for every request, as text or as JSON."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from urllib.parse import quote

import msgspec
from msgspec import Struct

from fitgauge.api.access.caller import CALLER
from fitgauge.api.log_lines import LogFormat
from fitgauge.hub.request_context import RequestIds
from fitgauge.services.common.answered import Answered

_LOGGER = "fitgauge.access"

Write = Callable[[str], object]
"""Takes a whole line: a stream's own method; logging would cost a fifth of a warm answer."""
AccessLog = Callable[[str, str, int, float, RequestIds, Answered], None]
"""Writes the line of a request: route, method, status, seconds, its ids, what it was answered
with."""


class AccessLine(Struct, frozen=True, omit_defaults=True):
    """One request. Nothing of it is what a caller made up, but for a request id that gateways
    may choose."""

    time: str
    """When it was answered (RFC 3339)."""
    level: str
    """Level of the line."""
    logger: str
    """What writes it."""
    message: str
    """Method, route and status."""
    method: str
    """Method of the request."""
    route: str
    """Template of its path; unknown where no route answers it."""
    status: int
    """Status of the answer."""
    duration_ms: float
    """How long it took to answer [milliseconds]."""
    request_id: str = ""
    """X-Request-ID."""
    trace_id: str = ""
    """Trace of W3C Trace Context, where the caller sent one."""
    caller: str = ""
    """Who asked, where callers are distinguished."""
    model: str = ""
    """Id of the model, as it was resolved."""
    verdict: str = ""
    """The verdict."""
    code: str = ""
    """Code of the problem that it was answered with."""


def access_log(form: LogFormat, write: Write) -> AccessLog:
    """Return what writes the line of a request in this form."""
    return _json_lines(write) if form == "json" else _text_lines(write)


def _json_lines(write: Write) -> AccessLog:
    def line(
        route: str, method: str, status: int, seconds: float, ids: RequestIds, answered: Answered
    ) -> None:
        fields = AccessLine(
            _now(),
            "INFO",
            _LOGGER,
            f"{method} {route} {status}",
            method,
            route,
            status,
            round(seconds * 1000, 2),
            ids.request_id,
            ids.traceparent[3:35],
            caller.id if (caller := CALLER.get()) else "",
            answered.model or "",
            answered.verdicts[-1].verdict if answered.verdicts else "",
            answered.code or "",
        )
        write(msgspec.json.encode(fields).decode() + "\n")

    return line


def _text_lines(write: Write) -> AccessLog:
    begins = cache(_begin)

    def line(
        route: str, method: str, status: int, seconds: float, ids: RequestIds, answered: Answered
    ) -> None:
        more = ""
        if answered.code:
            more += f" code={answered.code}"
        if caller := CALLER.get():
            more += f" caller={_word(caller.id)}"
        if answered.model:
            more += f" model={_word(answered.model)}"
        if answered.verdicts:
            more += f" verdict={answered.verdicts[-1].verdict}"
        begin = begins(route, method, status)
        write(f"{_now()} {begin} ms={seconds * 1000:.2f}{more} request_id={ids.request_id}\n")

    return line


def _begin(route: str, method: str, status: int) -> str:
    return f"INFO {_LOGGER} method={method} route={route} status={status}"


@lru_cache(1024)
def _word(text: str) -> str:
    """Return the text without what would end a word or a line."""
    return quote(text, safe="/:@.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
