"""Cancel work when the caller disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

from fitgauge.api.problems import RequestError

Answer = TypeVar("Answer")


async def while_connected(
    request: Request[Any, Any, Any], work: Coroutine[Any, Any, Answer]
) -> Answer:
    """Return the result of `work`, which is cancelled when the caller disconnects.

    Read the body before: the only message left is then the disconnect.
    """
    working = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnect(request))
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
    """Return when the caller disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
