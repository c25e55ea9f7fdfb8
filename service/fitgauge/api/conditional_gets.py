"""ETag and Cache-Control of what is read by GET, so that caches ask before they show it again."""

from collections.abc import Awaitable
from hashlib import blake2b

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

_LARGEST = 4 * 2**20
"""Of a body that is hashed [bytes]."""
_GZIP_HEADER = 10
"""bytes, with the time of compression among them"""


class ConditionalGets:
    """Answer 304 where the caller has the answer already.

    An answer without Cache-Control gets `cache_control`; probes and metrics are never stored.
    What has an ETag of its own keeps it."""

    def __init__(self, app: ASGIApp, *, private: bool) -> None:
        """private: no cache that several callers share may store an answer."""
        self._app = app
        self._cache_control = b"private, no-cache" if private else b"no-cache"
        self._private = private

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request to the application."""
        if scope["type"] == ScopeType.HTTP and scope["method"] == "GET":
            policy = self._policy(scope["path"])
            send = _Sender(send, _if_none_match(scope), policy, self._private)
        return self._app(scope, receive, send)  # awaited by the caller: questions are many

    def _policy(self, path: str) -> bytes:
        return b"no-store" if path.startswith(_LIVE) else self._cache_control


_LIVE = ("/health/", "/metrics")


class _Sender:
    """Sends one answer; holds its start back until its whole body is there."""

    def __init__(self, send: Send, seen: bytes, cache_control: bytes, private: bool) -> None:
        self._send = send
        self._seen = seen
        self._cache_control = cache_control
        self._private = private
        self._start: HTTPResponseStartEvent | None = None

    async def __call__(self, message: Message) -> None:
        """Send a message of the application."""
        if message["type"] == "http.response.start" and message["status"] in (200, 304):
            self._start = message
            return
        if message["type"] == "http.response.body" and self._start is not None:
            start, self._start = self._start, None
            headers = self._completed(start)
            body = message.get("body", b"")
            if not message.get("more_body") and len(body) <= _LARGEST and start["status"] == 200:
                tag = _tag(headers, body)
                if tag is not None:
                    headers.append((b"etag", tag))
                    if _matches(self._seen, tag):
                        start = {**start, "status": 304}
                        headers = [pair for pair in headers if pair[0] != b"content-length"]
                        message = {**message, "body": b""}
            await self._send({**start, "headers": headers})
        await self._send(message)

    def _completed(self, start: HTTPResponseStartEvent) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer with Cache-Control, private where it must be."""
        headers, declared = [], False
        for name, value in start["headers"]:
            if name == b"cache-control":
                declared = True
                if self._private and b"private" not in value:
                    value = b"private, " + value
            headers.append((name, value))
        return headers if declared else [*headers, (b"cache-control", self._cache_control)]


def _tag(headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
    """Return the ETag of a body; None where the answer has one, or must not be stored.

    It is weak: two compressed bodies of one answer differ by the time in their header."""
    if any(name == b"etag" or value == b"no-store" for name, value in headers):
        return None
    compressed = (b"content-encoding", b"gzip") in headers
    content = body[_GZIP_HEADER:] if compressed else body
    return b'W/"%s"' % blake2b(content, digest_size=12).hexdigest().encode()


def _if_none_match(scope: Scope) -> bytes:
    return b",".join(value for name, value in scope["headers"] if name == b"if-none-match")


def _matches(seen: bytes, tag: bytes) -> bool:
    """Return whether If-None-Match names the tag, by weak comparison (RFC 9110 section 13.1.2)."""
    wanted = [one.strip().removeprefix(b"W/") for one in seen[:8192].split(b",")]
    return b"*" in wanted or tag.removeprefix(b"W/") in wanted
