"""Run the bot: over HTTP where Slack can reach it, else over Socket Mode."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_server import AsyncSlackAppServer

from fitgauge_plugin.slack.bot import Bot
from fitgauge_plugin.slack.outcomes import Outcomes
from fitgauge_plugin.slack.pools import Pools
from fitgauge_plugin.slack.posting import web_client
from fitgauge_plugin.slack.service import Service

POOLS = "pools.json"
OUTCOMES = "truth.jsonl"
PATH = "/slack/events"
"""Where Slack sends commands, events and buttons."""


class Options(NamedTuple):
    """How the bot runs."""

    bot_token: str
    """Of the app in the workspace (xoxb-)."""
    signing_secret: str = ""
    """Of the app: for HTTP."""
    app_token: str = ""
    """Of the app (xapp-): where it is set, Socket Mode runs."""
    service_url: str = "http://127.0.0.1:8000"
    """Address of the service."""
    service_key: str = ""
    """Bearer token of the service, where it asks for one."""
    data: Path = Path()
    """Folder of the pools and of the outcomes."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 3000
    """Port to listen on."""
    slack_url: str = ""
    """Of Slack's Web API, where it is another one."""


def run(options: Options) -> None:
    """Run until SIGTERM or SIGINT. Raises OSError and ValueError where the folder's files cannot
    be read."""
    logging.basicConfig(level=logging.INFO)
    asyncio.run(serve(options))


async def serve(options: Options, ready: asyncio.Event | None = None) -> None:
    """Run until SIGTERM, SIGINT or cancellation; set `ready` once requests are taken."""
    service = Service.at(options.service_url, options.service_key)
    close: Callable[[], Awaitable[None]]
    bot = Bot(service, Pools(options.data / POOLS), Outcomes(options.data / OUTCOMES))
    client = web_client(options.bot_token, options.slack_url)
    app = bot.app(client, "" if options.app_token else options.signing_secret)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(name, stopped.set)
    try:
        if options.app_token:
            handler = AsyncSocketModeHandler(app, options.app_token, web_client=client)
            await handler.client.connect()  # type: ignore[no-untyped-call]
            close = handler.client.close
        else:
            server = AsyncSlackAppServer(options.port, PATH, app, options.host)
            server.web_app.router.add_get("/health", _alive)
            server.web_app.middlewares.append(_timed)
            runner = web.AppRunner(server.web_app)
            await runner.setup()
            await web.TCPSite(runner, options.host, options.port).start()
            close = runner.cleanup
        if ready is not None:
            ready.set()
        try:
            await stopped.wait()
        finally:
            await close()
    finally:
        await service.close()


@web.middleware
async def _timed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request without a number as its time: the verifier of the SDK raises there."""
    if not request.headers.get("X-Slack-Request-Timestamp", "0").isdecimal():
        return web.Response(status=401)
    return await handler(request)


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok")
