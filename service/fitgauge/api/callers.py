"""The caller of a request, who may go before the answer is ready."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

from fitgauge.api.problems import RequestError

Answer = TypeVar("Answer")


async def while_connected(
    request: Request[Any, Any, Any], work: Coroutine[Any, Any, Answer]
) -> Answer:
    """Return the result of `work`, which is cancelled when the caller closes the connection.

    The body must have been read: the server then has no other message left than the disconnect.
    """
    working, gone = asyncio.create_task(work), asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            detail = "The caller closed the connection before the answer was ready."
            raise RequestError(400, "caller-gone", detail, "Keep the connection open.")
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


async def _disconnect(request: Request[Any, Any, Any]) -> None:
    """Return when the caller closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
