"""Slack's Web API on a free port, with what it received."""

import json
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from slack_stand_in.limits import check_message

PATIENCE = 60.0
BOT = {"ok": True, "user_id": "UBOT", "bot_id": "BBOT", "team_id": "T1", "url": "http://slack/"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Let a client that hangs up go without a word."""


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes


class SlackStandIn:
    """Takes the methods that the bot calls, and remembers messages with their threads."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.wrong: list[str] = []
        """Messages that Slack would have refused."""
        self.messages: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """Of each channel, in their order."""
        self.pictures: list[bytes] = []
        self.answers: dict[str, list[tuple[int, dict[str, str], dict[str, Any]]]] = defaultdict(
            list
        )
        """What the next calls of a path get instead of its own answer."""
        self.socket_url = ""
        self._lock = threading.Lock()
        self._clock = 1_700_000_000
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, body = server.handle(self.path, dict(self.headers), raw)
                content = json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, path: str) -> int:
        """Return how many requests a path received."""
        return Counter(one.path for one in list(self.received))[path]

    def all(self, path: str) -> list[dict[str, Any]]:
        """Return the bodies that a path received."""
        return [one.body for one in list(self.received) if one.path == path]

    def wait(self, path: str, number: int = 1) -> dict[str, Any]:
        """Return the body of the n-th request of a path, once it is there."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            bodies = self.all(path)
            if len(bodies) >= number:
                assert not self.wrong, self.wrong
                return bodies[number - 1]
            time.sleep(0.01)
        raise AssertionError(f"{path} has {self.count(path)} requests, {number} awaited")

    def handle(
        self, target: str, headers: dict[str, str], raw: bytes
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Return what Slack answers."""
        parts = urlsplit(target)
        path = parts.path.removeprefix("/api/")
        body = {**dict(parse_qsl(parts.query)), **_decoded(headers, raw)}
        with self._lock:
            if self.answers[path]:
                answer = self.answers[path].pop(0)
            else:
                answer = (200, {}, self._answer(path, body, raw))
            self.received.append(Received(path, headers, body, raw))
            return answer

    def _answer(self, path: str, body: dict[str, Any], raw: bytes) -> dict[str, Any]:
        if path == "auth.test":
            return BOT
        if path == "chat.postMessage":
            return self._post(body)
        if path.startswith("/response/"):
            self._hold(body)
            return {"ok": True}
        if path == "conversations.replies":
            thread = [
                one
                for one in self.messages[body["channel"]]
                if body["ts"] in (one["ts"], one.get("thread_ts"))
            ]
            return {"ok": True, "messages": thread, "has_more": False}
        if path == "files.getUploadURLExternal":
            return {"ok": True, "upload_url": f"{self.url}/upload/F1", "file_id": "F1"}
        if path == "/upload/F1":
            self.pictures.append(raw)
            return {"ok": True}
        if path == "apps.connections.open":
            return {"ok": True, "url": self.socket_url}
        return {"ok": True, "files": [{"id": "F1"}]}

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        self._hold(body)
        self._clock += 1
        message = body | {"ts": f"{self._clock}.000100", "bot_id": "BBOT"}
        self.messages[body["channel"]].append(message)
        return {"ok": True, "channel": body["channel"], "ts": message["ts"], "message": message}

    def _hold(self, message: dict[str, Any]) -> None:
        try:
            check_message(message)
        except Exception as error:  # whatever the SDK raises is said where a test waits
            self.wrong.append(f"{type(error).__name__}: {error}: {message}")


def _decoded(headers: dict[str, str], raw: bytes) -> dict[str, Any]:
    kind = headers.get("Content-Type", "")
    if "json" in kind and raw:
        return dict(json.loads(raw))
    if "form" in kind:
        fields: dict[str, Any] = dict(parse_qsl(raw.decode()))
        for name in ("blocks", "metadata", "files"):
            if name in fields:
                fields[name] = json.loads(fields[name])
        return fields
    return {}
