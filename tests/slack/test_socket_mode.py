"""The same bot over Socket Mode, with a websocket on this machine."""

import asyncio
import json
import threading
import time

import pytest
from aiohttp import WSMsgType, web

from slack_stand_in.running import running
from slack_stand_in.server import PATIENCE

QUESTION = {"command": "/fit", "text": "qwen3-8b on a 4090", "channel_id": "C1", "user_id": "U1"}


class Socket:
    """Sends envelopes to whoever connects, and holds what is sent back."""

    def __init__(self, envelopes):
        self.envelopes = envelopes
        self.acknowledged = []
        self.url = ""
        self._ready = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def wait(self, number):
        """Return the envelopes that were acknowledged, once there are so many."""
        end = time.monotonic() + PATIENCE
        while len(self.acknowledged) < number and time.monotonic() < end:
            time.sleep(0.01)
        return [one["envelope_id"] for one in self.acknowledged]

    async def _serve(self):
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_get("/link", self._talk)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"ws://127.0.0.1:{runner.addresses[0][1]}/link"
        self._ready.set()
        await self._stopped.wait()
        await runner.cleanup()

    async def _talk(self, request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        for envelope in self.envelopes:
            await socket.send_json(envelope)
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                self.acknowledged.append(json.loads(message.data))
        return socket


def command(slack, **more):
    payload = QUESTION | {"team_id": "T1", "response_url": f"{slack.url}/response/1"}
    return {
        "envelope_id": "E1",
        "type": "slash_commands",
        "accepts_response_payload": True,
        "payload": payload | more,
    }


def mention(envelope_id, **more):
    event = {
        "type": "app_mention",
        "text": "<@UBOT> qwen3-8b on a 4090",
        "channel": "C1",
        "user": "U1",
        "ts": "1600000000.1",
    }
    return {
        "envelope_id": envelope_id,
        "type": "events_api",
        "payload": {
            "type": "event_callback",
            "event_id": "Ev1",
            "team_id": "T1",
            "api_app_id": "A1",
            "event": event,
        },
    } | more


@pytest.fixture
def over_a_socket(service, slack, tmp_path):
    def run(envelopes):
        socket = Socket(envelopes)
        stack.append(socket.__enter__())
        slack.socket_url = socket.url
        bot = running(service, slack, tmp_path, app_token="xapp-1")
        stack.append(bot)
        bot.__enter__()
        return socket

    stack = []
    yield run
    for one in reversed(stack):
        one.__exit__(None, None, None)


def test_a_command_is_acknowledged_and_answered(over_a_socket, slack):
    socket = over_a_socket([command(slack)])
    assert "Qwen/Qwen3-8B" in slack.wait("chat.postMessage")["text"]
    assert socket.wait(1) == ["E1"]
    opened = next(one for one in slack.received if one.path == "apps.connections.open")
    assert opened.headers["Authorization"] == "Bearer xapp-1"


def test_an_event_that_comes_again_is_answered_once(over_a_socket, slack):
    again = {"retry_attempt": 1, "retry_reason": "timeout"}
    socket = over_a_socket([mention("E1"), mention("E2", **again)])
    slack.wait("files.completeUploadExternal")
    assert slack.count("chat.postMessage") == 1
    assert sorted(socket.wait(2)) == ["E1", "E2"]
