"""Recorded answers: what a client got once, for tests and demonstrations without a service.

Every exchange is one line of a JSON Lines file: method, path with its query, body, status, media
type, answer. Headers of requests are left out: they may hold tokens."""

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx

_NOT_RECORDED = 404


class Recorder(httpx.AsyncBaseTransport):
    """Asks over another transport and adds every exchange to a file."""

    def __init__(self, recording: Path, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Build a transport. transport: what asks; the network by default."""
        self._recording = recording
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask, add the exchange to the file and return the response."""
        response = await self._transport.handle_async_request(request)
        answer = await response.aread()
        line = {
            **_key(request),
            "status": response.status_code,
            "media_type": response.headers.get("Content-Type", ""),
            "retry_after": response.headers.get("Retry-After", ""),
            "answer": answer.decode("utf-8", "replace"),
        }
        with self._recording.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return response

    async def aclose(self) -> None:
        """Close the other transport."""
        await self._transport.aclose()


class Replay(httpx.AsyncBaseTransport):
    """Answers from a file of Recorder; 404 with code `not-recorded` for any other request."""

    def __init__(self, recording: Path) -> None:
        """Read the recording. The last answer counts where a request is recorded twice."""
        lines = (json.loads(line) for line in recording.read_text("utf-8").splitlines() if line)
        self._answers = {_text(line): line for line in lines}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the recorded response."""
        line = self._answers.get(_text(_key(request)))
        if line is None:
            problem = {
                "code": "not-recorded",
                "detail": f"{request.method} {request.url.path} is not recorded with this body.",
                "hint": "Record it with recordings.Recorder.",
            }
            return httpx.Response(_NOT_RECORDED, json=problem)
        headers = {"Content-Type": line["media_type"], "Retry-After": line["retry_after"]}
        return httpx.Response(
            line["status"],
            headers={name: value for name, value in headers.items() if value},
            content=line["answer"].encode(),
        )


def _key(request: httpx.Request) -> dict[str, Any]:
    """Return what tells requests apart: the order of a question's fields does not."""
    body: Any = None
    if request.content:
        try:
            body = json.loads(request.content)
        except ValueError:  # a trace
            body = hashlib.sha256(request.content).hexdigest()
    path = request.url.raw_path.decode("ascii")
    return {"method": request.method, "path": path, "body": body}


def _text(line: dict[str, Any]) -> str:
    return json.dumps([line[name] for name in ("method", "path", "body")], sort_keys=True)
