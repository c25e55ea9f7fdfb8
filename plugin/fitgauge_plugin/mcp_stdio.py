"""MCP on standard input and output, for hosts that start a command: it asks a running service."""

import anyio
import httpx2
from mcp.server.stdio import stdio_server

from fitgauge_plugin.calls import http_call
from fitgauge_plugin.mcp_server import mcp_server


class NoServiceError(Exception):
    """No service of this kind answers at the address."""


def run(url: str, timeout_seconds: float = 60.0) -> None:
    """Serve until the host closes standard input. Raises NoServiceError where no service answers
    at `url`."""
    anyio.run(_run, url, timeout_seconds)


async def _run(url: str, timeout_seconds: float) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=timeout_seconds) as http:
        call = http_call(http)
        manifest = await call("GET", "/tools/mcp.json", None, {})
        if not manifest.is_success or "tools" not in manifest.body:
            raise NoServiceError(manifest.body.get("error", f"{url} answered {manifest.status}."))
        server = mcp_server(manifest.body["tools"], call, str(manifest.body.get("version", "")))
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
