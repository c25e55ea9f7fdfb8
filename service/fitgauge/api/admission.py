"""Checks before the application: the form of a request, and the bytes of all request bodies.

The server leaves these checks to the application: exactly one Host, no Content-Encoding.
"""

from litestar.enums import ScopeType
from litestar.types import (
    ASGIApp,
    HTTPReceiveMessage,
    Receive,
    Scope,
    Send,
    WebSocketReceiveMessage,
)

from fitgauge.api.media_types import UPLOADS
from fitgauge.api.problem_responses import on_request_error
from fitgauge.api.problems import RequestError

_SMALL_BODY = 4 * 1024
_MOST_UPLOADS = 2
"""read at the same time: reading a trace takes some tens of MiB"""
_UPLOADS = tuple(kind.encode() for kind in UPLOADS)


class Admission:
    """Refuse malformed requests, and bodies beyond the memory for all of them."""

    def __init__(self, app: ASGIApp, body_bytes: int) -> None:
        """body_bytes: limit of the bodies of all requests in progress [bytes].

        Bodies of at most 4 KiB do not count, so that large ones never delay ordinary questions.
        Nor do uploads, which are read in chunks; their number is bounded.
        """
        self._app = app
        self._body_bytes = body_bytes
        self.held_bytes = 0
        self._uploads = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, or refuse it."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        hosts, length, coding, kind = 0, b"", b"", b""
        for name, value in scope["headers"]:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                length = b"unknown"
            elif name == b"content-encoding":
                coding += value
            elif name == b"content-type":
                kind = value
        if hosts > 1 or (hosts == 0 and scope["http_version"] == "1.1"):
            await _bad_host(hosts)(scope, receive, send)
        elif coding and coding.lower() != b"identity" and length not in (b"", b"0"):
            await _unsupported_coding(coding)(scope, receive, send)
        elif kind.partition(b";")[0].strip().lower() in _UPLOADS:
            await self._upload(scope, receive, send)
        elif _is_small(length):
            await self._app(scope, receive, send)
        else:
            await self._counted(scope, receive, send)

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an upload, or refuse it where too many are in progress."""
        if self._uploads >= _MOST_UPLOADS:
            detail = f"{_MOST_UPLOADS} files are already being read."
            await _answer(_busy(detail))(scope, receive, send)
            return
        self._uploads += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._uploads -= 1

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request, and count its body until it is answered."""
        held = 0

        async def counted() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal held
            message = await receive()
            size = len(message["body"]) if message["type"] == "http.request" else 0
            if self.held_bytes + size > self._body_bytes:
                raise _busy("Too many bytes of request bodies are in memory.")
            held += size
            self.held_bytes += size
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self.held_bytes -= held


def _is_small(length: bytes) -> bool:
    return not length or (length.isdigit() and len(length) < 8 and int(length) <= _SMALL_BODY)


def _busy(detail: str) -> RequestError:
    return RequestError(503, "busy", detail, "Ask again in 1 s.", retry_after=1)


def _bad_host(hosts: int) -> ASGIApp:
    detail = (
        f"The request has {hosts} Host headers." if hosts else "The request has no Host header."
    )
    return _answer(RequestError(400, "malformed-request", detail, "Send exactly one."))


def _unsupported_coding(coding: bytes) -> ASGIApp:
    detail = f"Content-Encoding {coding[:80].decode('latin-1')!r} is not supported."
    hint = "Send the body without Content-Encoding."
    return _answer(RequestError(415, "unsupported-content-encoding", detail, hint))


def _answer(error: RequestError) -> ASGIApp:
    return on_request_error(None, error).to_asgi_response(None, None)  # type: ignore[arg-type]
