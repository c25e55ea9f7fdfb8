"""/mcp: where MCP hosts post their requests. What answers them is handed over by `app.py`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send

from fitgauge.api.problem_responses import on_request_error
from fitgauge.api.problems import RequestError

ServeMcp = Callable[[], AbstractAsyncContextManager[Any]]
"""Makes the ASGI application of the protocol, for as long as the service runs."""


class McpEndpoint:
    """Starts the protocol's server for the first who asks: importing it takes longer than all else
    of the start together, and a third of the memory."""

    def __init__(self, serve: ServeMcp) -> None:
        self._serve = serve
        self._wanted, self._stopping = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def running(self, _: Litestar) -> AsyncIterator[None]:
        """Run the protocol's server as long as the application, once somebody asks for it."""
        self._application = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())
        yield
        self._stopping.set()
        if not self._application.done():
            self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        await self._wanted.wait()
        async with self._serve() as application:
            self._application.set_result(application)
            await self._stopping.wait()

    async def _started(self) -> Any:  # noqa: ANN401 - an ASGI application
        self._wanted.set()
        # neither is cancelled with a caller who waits
        await asyncio.wait({self._application, self._task}, return_when=asyncio.FIRST_COMPLETED)
        return (self._application if self._application.done() else self._task).result()

    def handler(self) -> Any:  # noqa: ANN401 - Litestar's
        """Return the route handler."""

        @asgi("/mcp", copy_scope=True)
        async def mcp_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST":  # type: ignore[typeddict-item]
                # a GET would hold a connection open for messages that a server without sessions
                # never sends
                await _refusal()(scope, receive, send)
            else:
                application = await self._started()
                await application(scope, receive, send)

        return mcp_endpoint


_NOT_POST = RequestError(405, "method-not-allowed", "MCP is spoken by POST.", "Send a POST.")


def _refusal() -> Any:  # noqa: ANN401 - an ASGI application
    response = on_request_error(None, _NOT_POST)  # type: ignore[arg-type]
    response.headers["Allow"] = "POST"
    return response.to_asgi_response(None, None)  # type: ignore[arg-type]
