"""Lines of the log as text or as JSON, without secrets."""

import logging
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from fitgauge.hub.request_context import REQUEST_IDS
from fitgauge.redaction import redacted

LogFormat = Literal["text", "json"]

_NAMING_ADDRESSES = ("httpx", "httpx2", "httpcore", "httpcore2", "huggingface_hub")
"""Loggers that write whole addresses, or headers, where they write more than warnings."""


class _Record(Struct, frozen=True, omit_defaults=True):
    """A line of the log, but for those of requests."""

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


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
