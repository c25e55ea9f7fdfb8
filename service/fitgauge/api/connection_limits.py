"""Limits of one connection, enforced below the application. See docs/SERVER.md."""

from asyncio import TimerHandle, Transport
from http import HTTPStatus

import httptools
import msgspec
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fitgauge.api.media_types import PROBLEM_JSON
from fitgauge.api.problems import RequestError, request_problem


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection with limits: time and size of a request, unread answers, connections.

    `Upgrade` is ignored, as RFC 9110 section 7.8 allows: the request is answered with its body.
    Malformed requests are refused as problem+json before the connection is closed.
    """

    request_seconds = 30.0
    """Longest time from the first byte of a request, or of the connection, to the last; also the
    longest time in which a caller may read less than half of the unread answer."""
    drain_seconds = 1.0
    """How long an idle connection stays open after SIGTERM, so that a request in flight is
    answered."""
    head_bytes = 64 * 1024
    piece_bytes = 16 * 1024
    """Parsed at once. Pipelined requests wait as bytes, which cost less memory."""
    ahead_bytes = 64 * 1024
    """Of pipelined requests."""
    most_connections = 1024

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start the clock: one timer a connection, not one a request."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self)
        self._begun: float | None = self.loop.time()
        self._in_head = False
        self._received = 0
        self._ahead = bytearray()
        self._unread = (0, self._begun)
        self._draining = False
        self._keep_alive = False
        self._timer: TimerHandle = self.loop.call_later(self.request_seconds, self._check_progress)
        if len(self.connections) > self.most_connections:
            detail = f"{self.most_connections} connections are open."
            error = RequestError(
                503, "too-many-connections", detail, "Ask again in 1 s.", retry_after=1
            )
            self._refuse(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._timer.cancel()
        self._ahead.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, or buffer it until earlier requests are answered."""
        self._unset_keepalive_if_required()
        if len(data) <= self.piece_bytes and not self._ahead:
            self._parse(data)
        else:
            self._ahead += data
            self._parse_ahead()
            if len(self._ahead) > self.ahead_bytes and not self.transport.is_closing():
                detail = f"More than {self.ahead_bytes} bytes of pipelined requests are waiting."
                hint = "Read the answers before sending more."
                self._refuse(RequestError(503, "too-many-requests", detail, hint, retry_after=1))

    def on_message_begin(self) -> None:
        """Record when a request begins."""
        super().on_message_begin()
        self._begun = self.loop.time()
        self._in_head = True
        self._received = 0

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the parser switches to another protocol."""
        if self.parser.should_upgrade():
            return
        self._in_head = False
        earlier = self.cycle
        super().on_headers_complete()
        if self._draining:
            if earlier is not None and not earlier.response_started:
                earlier.keep_alive = self._keep_alive
            self._close_after(self.cycle)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        if self.parser.should_upgrade():
            return
        self._begun = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with pipelined requests."""
        super().on_response_complete()
        if self._ahead and not self.pipeline:
            self._unset_keepalive_if_required()
            self._parse_ahead()
        if self._draining and self.cycle.response_complete:
            self._close_soon()

    def shutdown(self) -> None:
        """Close after the current answer; close an idle connection a little later."""
        self._draining = True
        if self.cycle is None or self.cycle.response_complete:
            self._close_soon()
        elif not self.cycle.response_started:
            self._close_after(self.cycle)

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP."""
        self._refuse(RequestError(400, "malformed-request", msg, "Send an HTTP/1.1 request."))

    def _parse_ahead(self) -> None:
        while self._ahead and not self.pipeline and not self.transport.is_closing():
            piece = bytes(self._ahead[: self.piece_bytes])
            del self._ahead[: self.piece_bytes]
            self._parse(piece)

    def _parse(self, data: bytes) -> None:
        """Parse one chunk. Refuse a head as soon as it is too large."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    self.send_400_response("This service is not a proxy.")
                    return
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                continue
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            break
        if self._in_head:
            self._received += len(data)
            if self._received > self.head_bytes and not self.transport.is_closing():
                detail, hint = "The request head is too large.", "Send fewer and shorter headers."
                self._refuse(RequestError(431, "head-too-large", detail, hint))

    def _head_without_upgrade(self) -> bytes:
        """Return the parsed head without Upgrade. httptools drops the body of an upgrade."""
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _close_after(self, cycle: RequestResponseCycle) -> None:
        """Close the connection after this answer, unless another request arrives before it."""
        self._keep_alive = cycle.keep_alive
        cycle.keep_alive = False

    def _close_soon(self) -> None:
        """Close the connection unless a request arrives within `drain_seconds`."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.drain_seconds, self.timeout_keep_alive_handler
        )

    def _check_progress(self) -> None:
        """Close the connection of a caller that sends or reads too slowly."""
        wait = self.request_seconds
        if self._unread_for(wait):
            self.transport.abort()
            return
        if self._begun is not None and self.flow.read_paused:
            self._begun = self.loop.time()  # the service is slow here, not the caller
        waited = self.loop.time() - self._begun if self._begun is not None else 0.0
        if waited < wait:
            wait -= waited
        elif self._in_head or (self.cycle is not None and not self.cycle.response_started):
            detail = "The request did not arrive in time."
            self._refuse(RequestError(408, "request-too-slow", detail, "Send it at once."))
        else:
            self.transport.close()
        self._timer = self.loop.call_later(wait, self._check_progress)

    def _unread_for(self, seconds: float) -> bool:
        """Return whether the caller has read less than half of the unread answer in this time."""
        unread, now = self.transport.get_write_buffer_size(), self.loop.time()
        before, since = self._unread
        if not before or unread <= before // 2:
            self._unread = unread, now
            return False
        return now - since >= seconds

    def resume_writing(self) -> None:
        """Record that the caller reads."""
        self._unread = (0, self.loop.time())
        super().resume_writing()

    def _refuse(self, error: RequestError) -> None:
        body = msgspec.json.encode(request_problem(error))
        status = error.status
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {PROBLEM_JSON}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n"
        )
        if error.retry_after:
            head += f"retry-after: {error.retry_after}\r\n"
        self.transport.write(f"{head}\r\n".encode() + body)
        self.transport.close()


class _Flow(FlowControl):
    """uvicorn's flow control, which pauses reading while pipelined requests wait."""

    def __init__(self, transport: Transport, connection: BoundedConnection) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        """Resume reading once no pipelined request waits."""
        if not self._connection.pipeline:
            super().resume_reading()
