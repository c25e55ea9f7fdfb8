"""MCP's server is started for the first who asks, and everybody who asks meanwhile waits for it."""

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx
import pytest
from litestar import Litestar

from fitgauge.api.mcp_endpoint import McpEndpoint

SERVICE = """
import asyncio, sys
from litestar.testing import AsyncTestClient
from fitgauge.app import create_app
from fitgauge.settings import Settings
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}

async def asked():
    async with AsyncTestClient(create_app(Settings(log_level="error"))) as http:
        await http.post("/v1/fit", json={"model": "Qwen/Qwen3-8B", "gpu": "H100"})
        print("mcp" in sys.modules)
        answer = await http.post("/mcp", json=LIST, headers=ACCEPT | {"Host": "localhost"})
        print(answer.status_code, len(answer.json()["result"]["tools"]))

asyncio.run(asked())
"""


def test_the_packages_of_mcp_are_imported_for_the_first_who_asks():
    done = subprocess.run(
        [sys.executable, "-c", SERVICE],
        capture_output=True,
        text=True,
        check=True,
        env={"HF_HUB_OFFLINE": "1"},
    )
    assert done.stdout.split() == ["False", "200", "7"]


def test_callers_who_come_while_it_starts_wait_and_one_who_leaves_ends_nobody_elses_wait():
    starts, begin = [], asyncio.Event()

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})

    @asynccontextmanager
    async def serve():
        starts.append(1)
        await begin.wait()
        yield answer

    async def asked():
        async with hosts(serve) as http:
            callers = [asyncio.create_task(http.post("/mcp")) for _ in range(3)]
            while not starts:
                await asyncio.sleep(0)
            callers[0].cancel()
            await asyncio.sleep(0)
            begin.set()
            return [(await caller).text for caller in callers[1:]]

    assert asyncio.run(asked()) == ["answered"] * 2
    assert starts == [1]


def test_a_server_that_cannot_start_keeps_nobody_waiting():
    @asynccontextmanager
    async def serve():
        raise ImportError("no mcp")
        yield

    statuses = []

    async def asked():
        async with hosts(serve) as http:
            answer = await asyncio.wait_for(http.post("/mcp"), 30)
            statuses.append(answer.status_code)

    with pytest.raises(ImportError, match="no mcp"):  # as it ends
        asyncio.run(asked())
    assert statuses == [500]


@asynccontextmanager
async def hosts(serve):
    """Provide a client of an application with the endpoint alone."""
    endpoint = McpEndpoint(serve)
    app = Litestar([endpoint.handler()], openapi_config=None, debug=True)
    transport = httpx.ASGITransport(app)
    async with (
        endpoint.running(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as http,
    ):
        yield http
