"""What requests to the Hub take over from the request that they are made for."""

import hashlib
from contextvars import ContextVar
from secrets import token_bytes
from typing import NamedTuple

_KEY = token_bytes(32)


class RequestIds(NamedTuple):
    """How gateways, this service and the Hub name one request."""

    request_id: str = ""
    """X-Request-ID: the caller's, else one of this service."""
    traceparent: str = ""
    """Of W3C Trace Context; empty where the caller sent none."""
    tracestate: str = ""
    """Belongs to `traceparent`."""

    def headers(self) -> dict[str, str]:
        """Return the headers of a request that is made for this one."""
        named = {
            "x-request-id": self.request_id,
            "traceparent": self.traceparent,
            "tracestate": self.tracestate,
        }
        return {name: value for name, value in named.items() if value}


REQUEST_IDS: ContextVar[RequestIds] = ContextVar("request_ids", default=RequestIds())  # noqa: B039 - immutable
"""Of the request that is being answered; tasks that it starts take it over."""

CALLERS_TOKEN: ContextVar[str] = ContextVar("callers_token", default="")
"""The caller's own token of the Hub; empty where the caller sent none."""


def token_id() -> str:
    """Return what tells the caller's own token from any other; empty without one.

    A keyed hash, whose key ends with the process: it is no secret and names no account."""
    token = CALLERS_TOKEN.get()
    if not token:
        return ""
    return hashlib.blake2b(token.encode(), key=_KEY, digest_size=16).hexdigest()
