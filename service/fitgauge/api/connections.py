"""Bounds of one connection, which the application never sees: how long a request may take to come in, and how large its head may be."""

from asyncio import Transport
from http import HTTPStatus

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fitgauge.api.problems import PROBLEM_JSON, Refusal, refusal_problem


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, which waits for ever for the rest of a request and takes a head of any size, with bounds for both.

    What is no HTTP at all is refused in the words of the contract too, before the connection is closed.
    """

    request_seconds = 30.0
    """the longest from a request's first byte, or the connection's, to its last"""
    head_bytes = 64 * 1024

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Starts the clock: one timer a connection, not one a request."""
        super().connection_made(transport)
        self._begun: float | None = self.loop.time()
        self._in_head = False
        self._received = 0
        self._timer = self.loop.call_later(self.request_seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Refuses a head that is too large while it still grows."""
        super().data_received(data)
        if self._in_head:
            self._received += len(data)
            if self._received > self.head_bytes and not self.transport.is_closing():
                self._refuse(431, "head-too-large", "The request's head is too large.", "Send fewer and shorter headers.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._begun = self.loop.time()
        self._in_head = True
        self._received = 0

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._begun = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP."""
        self._refuse(400, "malformed-request", msg, "Send an HTTP/1.1 request.")

    def _look(self) -> None:
        """Closes the connection where a request has been coming in for too long; else looks again when one could be."""
        waited = self.loop.time() - self._begun if self._begun is not None else 0.0
        if waited < self.request_seconds:
            self._timer = self.loop.call_later(self.request_seconds - waited, self._look)
        elif self._in_head or (self.cycle is not None and not self.cycle.response_started):
            self._refuse(408, "request-too-slow", "The request did not come in in time.", "Send it at once.")
        else:
            self.transport.close()

    def _refuse(self, status: int, slug: str, detail: str, hint: str) -> None:
        body = msgspec.json.encode(refusal_problem(Refusal(status, slug, detail, hint)))
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()
