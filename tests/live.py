"""The service as its callers meet it: a real server on a port of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from litestar.types import ASGIApp


@contextmanager
def running(app: ASGIApp) -> Iterator[httpx.Client]:
    """An HTTP client of `app`, which runs in a thread until the block ends."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive(), "the server did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(15)
