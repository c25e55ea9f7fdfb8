"""The bot as `fitgauge slack` runs it, in a thread with a loop of its own."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fitgauge_plugin.slack.run import Options, serve
from slack_stand_in.server import SlackStandIn


@contextmanager
def running(service: str, slack: SlackStandIn, data: Path, **options: Any) -> Iterator[str]:
    """Provide the bot over HTTP, or over Socket Mode with an app token: its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    chosen = Options(
        bot_token="xoxb-1",
        service_url=service,
        data=data,
        port=port,
        slack_url=f"{slack.url}/api/",
        **options,
    )
    started = threading.Event()
    held: dict[str, Any] = {}

    async def run() -> None:
        ready = asyncio.Event()
        task = asyncio.ensure_future(serve(chosen, ready))
        held["loop"], held["task"] = asyncio.get_running_loop(), task
        waiting = asyncio.ensure_future(ready.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        started.set()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await task

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        held["loop"].call_soon_threadsafe(held["task"].cancel)
        thread.join(10)
        assert not thread.is_alive()
