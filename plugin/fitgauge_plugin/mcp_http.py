"""MCP over Streamable HTTP, without sessions: any replica answers any request."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

_BODY_BYTES = 2 * 1024 * 1024 + 64 * 1024
"""Of a request: the largest log that explain_log reads, and its envelope."""

_LOCAL = ("127.0.0.1", "localhost", "[::1]")

ANY_HOST = "*"
"""Accepts every Host header: a gateway in front knows which are right."""


def security(hosts: Sequence[str], origins: Sequence[str]) -> TransportSecuritySettings:
    """Return which Host and Origin headers are accepted, in addition to those of this machine.

    A page of another site that a browser has open cannot ask a service on its user's machine
    then (DNS rebinding)."""
    local = [f"{host}{port}" for host in _LOCAL for port in ("", ":*")]
    return TransportSecuritySettings(
        allowed_hosts=[*local, *hosts],
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in local]
        + list(origins),
    )


@asynccontextmanager
async def serve_http(
    server: Server[Any], settings: TransportSecuritySettings
) -> AsyncIterator[ASGIApp]:
    """Run the server and yield its ASGI application."""
    # it writes a line for every request of an older client
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.WARNING)
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        security_settings=settings,
        max_request_body_size=_BODY_BYTES,
    )
    any_host = ANY_HOST in settings.allowed_hosts

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        # the server passes blanks around a header's value, which the protocol forbids
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        if any_host:  # the SDK checks Origin only together with Host
            headers = [(name, value) for name, value in headers if name != b"host"]
            headers.append((b"host", b"localhost"))
        await manager.asgi_app({**scope, "headers": headers}, receive, send)

    async with manager.run():
        yield application
