"""What Slack sends to the bot, signed."""

import hashlib
import hmac
import json
import time
from itertools import count
from typing import Any
from urllib.parse import urlencode

import httpx

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
_NUMBERS = count(1)


class Sender:
    """Sends commands, events and buttons to a bot over HTTP.

    channel, user: where and who; replies: address of the stand-in, for response_url."""

    def __init__(self, address: str, replies: str, channel: str = "C1", user: str = "U1") -> None:
        self.address = address
        self.replies = replies
        self.channel = channel
        self.user = user

    def command(self, text: str, name: str = "/fit") -> httpx.Response:
        """Send a command."""
        return self.form(
            {
                "command": name,
                "text": text,
                "channel_id": self.channel,
                "user_id": self.user,
                "team_id": "T1",
                "response_url": f"{self.replies}/response/1",
                "trigger_id": "1.2.3",
            }
        )

    def event(self, event: dict[str, Any], event_id: str = "", **headers: str) -> httpx.Response:
        """Send an event."""
        number = next(_NUMBERS)
        body = {
            "type": "event_callback",
            "team_id": "T1",
            "api_app_id": "A1",
            "event_id": event_id or f"Ev{number}",
            "event": {"channel": self.channel, "user": self.user, "ts": f"1600000{number:03}.1"}
            | event,
        }
        return self.send(json.dumps(body).encode(), "application/json", **headers)

    def mention(self, text: str, **event: Any) -> httpx.Response:
        """Mention the bot."""
        return self.event({"type": "app_mention", "text": f"<@UBOT> {text}"} | event)

    def direct(self, text: str, **event: Any) -> httpx.Response:
        """Write to the bot."""
        return self.event({"type": "message", "channel_type": "im", "text": text} | event)

    def press(self, message: dict[str, Any], label: str) -> httpx.Response:
        """Press a button of a message."""
        button, block_id = next(
            (element, block["block_id"])
            for block in message["blocks"]
            if block["type"] == "actions"
            for element in block["elements"]
            if element["text"]["text"].startswith(label)
        )
        payload = {
            "type": "block_actions",
            "team": {"id": "T1"},
            "user": {"id": self.user, "team_id": "T1"},
            "channel": {"id": self.channel},
            "message": message,
            "container": {"type": "message", "message_ts": message.get("ts", "")},
            "response_url": f"{self.replies}/response/2",
            "trigger_id": "1.2.3",
            "actions": [button | {"block_id": block_id, "type": "button"}],
        }
        return self.form({"payload": json.dumps(payload)})

    def form(self, fields: dict[str, str]) -> httpx.Response:
        """Send a form."""
        return self.send(urlencode(fields).encode(), "application/x-www-form-urlencoded")

    def send(self, body: bytes, kind: str, **headers: str) -> httpx.Response:
        """Send a body with its signature; headers replace ours."""
        sent = {"Content-Type": kind, **signed(body), **headers}
        return httpx.post(f"{self.address}/slack/events", content=body, headers=sent, timeout=30)


def signed(body: bytes, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    """Return the headers that sign a body, as
    https://docs.slack.dev/authentication/verifying-requests-from-slack says."""
    seconds = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{seconds}:".encode() + body, hashlib.sha256)
    return {"X-Slack-Request-Timestamp": seconds, "X-Slack-Signature": f"v0={digest.hexdigest()}"}
