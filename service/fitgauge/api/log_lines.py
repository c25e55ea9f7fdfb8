"""Lines of the log as text or as JSON, without secrets."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from fitgauge.hub.request_context import REQUEST_IDS
from fitgauge.redaction import redacted

LogFormat = Literal["text", "json"]

_NAMING_ADDRESSES = ("httpx", "httpx2", "httpcore", "httpcore2", "huggingface_hub")
"""Loggers that write whole addresses, or headers, where they write more than warnings."""


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


class _Record(Struct, frozen=True, omit_defaults=True):
    """Any other line."""

    time: str
    """When it was written (RFC 3339)."""
    level: str
    """Level of the line."""
    logger: str
    """What writes it."""
    message: str
    """What is said."""
    request_id: str = ""
    """X-Request-ID of the request during which it was written."""
    exception: str = ""
    """The trace of an exception."""


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return redacted(super().format(record))


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        exception = self.formatException(record.exc_info) if record.exc_info else ""
        line = _Record(
            _at(record.created),
            record.levelname,
            record.name,
            redacted(record.getMessage()),
            REQUEST_IDS.get().request_id,
            exception=redacted(exception),
        )
        return msgspec.json.encode(line).decode()


def configure(level: str, form: LogFormat) -> None:
    """Write every line of the process to standard error from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        _JsonLines()
        if form == "json"
        else _TextLines("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in _NAMING_ADDRESSES:
        logging.getLogger(name).setLevel(logging.WARNING)


def access_line(form: LogFormat) -> Callable[[AccessLine], str]:
    """Return what writes the line of a request."""
    return _json_line if form == "json" else _text_line


def _json_line(line: AccessLine) -> str:
    return msgspec.json.encode(line).decode() + "\n"


def _text_line(line: AccessLine) -> str:
    text = (
        f"{line.time} {line.level} {line.logger} method={line.method} route={line.route}"
        f" status={line.status} ms={line.duration_ms:.2f}"
    )
    for name in ("code", "caller", "model", "verdict", "request_id"):
        if value := getattr(line, name):
            text += f" {name}={value}"
    return text + "\n"


def now() -> str:
    """Return the moment as a line begins with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
