"""Bodies of bounded size: of one response, and of all large ones at once."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx2

from fitgauge.errors import HubUnreachableError, MalformedModelError

LARGE = 256 * 2**10
"""bytes: a resolve that reads a longer body needs the permit to be large"""
LARGE_RESOLVES = 4
"""how many may be large at once"""


class LargePermit:
    """One resolve's permit to be large: taken with the first large body, held until it ends."""

    def __init__(self, permits: asyncio.Semaphore) -> None:
        self._permits = permits
        self._lock = asyncio.Lock()
        self._is_held = False

    async def take(self) -> None:
        """Wait for the permit, unless it is held already."""
        async with self._lock:
            if not self._is_held:
                await self._permits.acquire()
                self._is_held = True

    def release(self) -> None:
        """Let the next resolve be large."""
        if self._is_held:
            self._is_held = False
            self._permits.release()


@asynccontextmanager
async def large_permit(permits: asyncio.Semaphore) -> AsyncIterator[LargePermit]:
    """Provide a permit that is released at the end of the block."""
    permit = LargePermit(permits)
    try:
        yield permit
    finally:
        permit.release()


def narrow(response: httpx2.Response) -> None:
    """Let the kernel hold no more than LARGE bytes of the body for us.

    An event loop reads what is there at once, on a fast network many MiB: unread, for every body
    that waits for its permit.
    """
    stream = response.extensions.get("network_stream")
    raw = stream.get_extra_info("socket") if stream is not None else None
    if raw is not None:
        with suppress(OSError, NotImplementedError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LARGE)


async def read_body(
    response: httpx2.Response, limit: int, permit: LargePermit, *, truncates: bool
) -> bytes:
    """Return the body, at most `limit` bytes: the rest is left where `truncates`.

    Raise MalformedModelError where there is more, HubUnreachableError where the body is
    compressed although identity was asked for: a few bytes may unpack to gigabytes."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise HubUnreachableError(
            "The Hub sent a compressed body that was not requested.",
            hint="Check HF_ENDPOINT and the proxy.",
        )
    body = bytearray()
    async for chunk in response.aiter_raw():
        if len(body) + len(chunk) > LARGE:
            await permit.take()
        body += chunk
        if len(body) > limit:
            if truncates:
                break
            path = response.url.path[-80:]
            raise MalformedModelError(f"{path} exceeds the limit of {limit:,} bytes.")
    return bytes(body[:limit])


async def drain(response: httpx2.Response) -> None:
    """Read a short body that is not used, so that its connection can be used again."""
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:9]) <= LARGE:
        async for _ in response.aiter_raw():
            pass
