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

_RETRY_SECONDS = 1


class McpEndpoint:
    """Starts the protocol's server in the background: the service is ready before it is."""

    def __init__(self, serve: ServeMcp) -> None:
        self._serve = serve
        self._application: Any = None

    @asynccontextmanager
    async def running(self, _: Litestar) -> AsyncIterator[None]:
        """Run the protocol's server as long as the application."""
        stopping = asyncio.Event()
        task = asyncio.create_task(self._run(stopping))
        yield
        stopping.set()
        if self._application is None:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _run(self, stopping: asyncio.Event) -> None:
        async with self._serve() as application:
            self._application = application
            await stopping.wait()

    def handler(self) -> Any:  # noqa: ANN401 - Litestar's
        """Return the route handler."""

        @asgi("/mcp", copy_scope=True)
        async def mcp_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST":  # type: ignore[typeddict-item]
                # a GET would hold a connection open for messages that a server without sessions
                # never sends
                await _refusal(_NOT_POST)(scope, receive, send)
            elif self._application is None:
                await _refusal(_STARTING)(scope, receive, send)
            else:
                await self._application(scope, receive, send)

        return mcp_endpoint


_NOT_POST = RequestError(405, "method-not-allowed", "MCP is spoken by POST.", "Send a POST.")
_STARTING = RequestError(
    503,
    "starting",
    "The MCP server is starting.",
    f"Ask again in {_RETRY_SECONDS} s.",
    retry_after=_RETRY_SECONDS,
)


def _refusal(error: RequestError) -> Any:  # noqa: ANN401 - an ASGI application
    response = on_request_error(None, error)  # type: ignore[arg-type]
    if error.status == _NOT_POST.status:
        response.headers["Allow"] = "POST"
    return response.to_asgi_response(None, None)  # type: ignore[arg-type]
