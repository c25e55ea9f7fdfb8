"""MCP in the service's own process: calls go to its ASGI application, by the same rules as over
the network."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from fitgauge_plugin.calls import http_call
from fitgauge_plugin.mcp_http import security, serve_http
from fitgauge_plugin.mcp_server import mcp_server


@asynccontextmanager
async def serve(
    service: Any,  # noqa: ANN401 - an ASGI application
    tools: Sequence[Mapping[str, Any]],
    version: str,
    hosts: Sequence[str],
    origins: Sequence[str],
) -> AsyncIterator[Any]:
    """Yield the protocol's ASGI application.

    service: the ASGI application of the HTTP API. hosts, origins: headers that are accepted, in
    addition to those of this machine."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it writes a line for every call
    transport = httpx2.ASGITransport(service, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://fitgauge") as http:
        server = mcp_server(tools, http_call(http), version)
        async with serve_http(server, security(hosts, origins)) as application:
            yield application
