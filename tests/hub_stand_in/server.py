"""The server: the Hub's API as far as a resolver needs it, a log of requests, and faults on
demand."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from hub_stand_in.repositories import Repository, listed

API = re.compile(
    r"/api/models/(?P<repo>[^/]+(?:/(?!revision/|tree/)[^/]+)?)(?:/revision/(?P<revision>[^/]+))?(?:/tree/(?P<tree>[^/]+)(?P<folder>/.*)?)?"
)
RESOLVE = re.compile(r"/(?P<repo>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
TOKEN = "hf_stand_in"


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]


@dataclass
class Fault:
    """What goes wrong with requests whose path holds `part`, the first `times` of them (None:
    all)."""

    part: str
    times: int | None = None
    delay: float = 0.0
    hang: bool = False
    """accepts, never answers"""
    drop: bool = False
    """closes the connection without an answer"""
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    claimed_length: int | None = None
    """a Content-Length that is not the body's"""
    endless: bool = False
    """a body that has no end"""


class HubStandIn:
    """The Hub on a free port of 127.0.0.1, at `url` while the `with` block lasts. It accepts one
    token, TOKEN."""

    def __init__(self, *repositories: Repository) -> None:
        self.repositories = {repository.repo_id: repository for repository in repositories}
        self.renamed: dict[str, str] = {}
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, repository: Repository) -> None:
        """Put a repository in place, also of one that is there."""
        self.repositories[repository.repo_id] = repository

    def fault(self, part: str = "", **what: Any) -> None:
        """From now on requests whose path holds `part` go wrong as `what` says (see Fault)."""
        self._faults.append(Fault(part, **what))

    def mend(self) -> None:
        """Nothing goes wrong any more."""
        self._faults.clear()

    def count(self, part: str = "") -> int:
        """Return how many requests had `part` in their path."""
        return sum(part in request.path for request in self.requests)

    def seen(self, request: Request) -> Fault | None:
        """Write it into the log and says what is to go wrong with it."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault.part in request.path and fault.times != 0:
                    fault.times = fault.times - 1 if fault.times is not None else None
                    return fault
        return None

    def wait(self, seconds: float | None) -> None:
        """Wait, at most until the stand-in closes."""
        self._closing.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore callers that hang up."""


def _handler(hub: HubStandIn) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"hub": hub})


class _Handler(BaseHTTPRequestHandler):
    hub: HubStandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: HubStandIn.requests is the log."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        # a folder's slashes and a revision's escaped ones differ: the path is matched before it is
        # unquoted
        request = Request(
            parts.path,
            parse_qs(parts.query),
            {name.lower(): value for name, value in self.headers.items()},
        )
        fault = self.hub.seen(request)
        if fault is not None and self._goes_wrong(fault):
            return
        self._answer(request, fault)

    do_HEAD = do_GET

    def _goes_wrong(self, fault: Fault) -> bool:
        """Return whether the fault was all of the answer."""
        if fault.delay:
            time.sleep(fault.delay)
        if fault.hang:
            self.hub.wait(None)
        if fault.hang or fault.drop:
            self.close_connection = True
            return True
        if fault.endless:
            self._endless()
            return True
        if fault.status:
            body = b"{}" if fault.body is None else fault.body
            self._send(fault.status, body, dict(fault.headers), fault.claimed_length)
            return True
        return False

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        while True:
            self.wfile.write(piece)

    def _answer(self, request: Request, fault: Fault | None) -> None:
        status, body, headers = self._found(request)
        if fault is not None:
            body = fault.body if fault.body is not None else body
            headers |= fault.headers
        self._send(status, body, headers, fault.claimed_length if fault else None)

    def _found(self, request: Request) -> tuple[int, bytes, dict[str, str]]:
        if request.path == "/api/models":
            return 200, self._list(request), {"Content-Type": "application/json"}
        path = re.fullmatch(API, request.path) or re.fullmatch(RESOLVE, request.path)
        if path is None:
            return 404, b"", {}
        asked = unquote(path["repo"])
        if asked in self.hub.renamed:
            return (
                307,
                b"",
                {"Location": self.path.replace(path["repo"], self.hub.renamed[asked], 1)},
            )
        repository = self.hub.repositories.get(asked)
        knows = request.headers.get("authorization") == f"Bearer {TOKEN}"
        if repository is None or (repository.private and not knows):
            return (
                404 if knows else 401,
                b"{}",
                {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"},
            )
        fields = path.groupdict()
        revision = unquote(fields.get("revision") or fields.get("tree") or "main")
        if revision in ("main", repository.sha):
            there = repository
        else:
            there = repository.revisions.get(revision)
        if there is None:
            return (
                404,
                b"{}",
                {
                    "X-Error-Code": "RevisionNotFound",
                    "X-Error-Message": f"Invalid rev id: {revision}",
                },
            )
        if fields.get("tree"):
            return 200, _listing(there, (unquote(fields["folder"] or "")).strip("/")), {}
        if not fields.get("file"):
            return (
                200,
                json.dumps(there.description()).encode(),
                {"Content-Type": "application/json"},
            )
        if there.gated and not knows:
            return (
                401,
                b"{}",
                {
                    "X-Error-Code": "GatedRepo",
                    "X-Error-Message": "Access to this model is restricted.",
                },
            )
        return _file(there, unquote(fields["file"]), request.headers)

    def _list(self, request: Request) -> bytes:
        """Repositories that quantize another or hold words, the most downloaded first."""
        (base,) = request.query.get("filter", [""])
        (words,) = request.query.get("search", [""])
        found = [
            one
            for one in self.hub.repositories.values()
            if not one.private
            and (not base or one.quantizes == base.removeprefix("base_model:quantized:"))
            and all(word in one.repo_id.lower() for word in words.lower().split())
        ]
        found.sort(key=lambda one: -one.downloads)
        return json.dumps([listed(one) for one in found[: int(request.query["limit"][0])]]).encode()

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str], length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if length is not None:
            self.close_connection = True


def _listing(repository: Repository, folder: str) -> bytes:
    entries = []
    for name, content in repository.files.items():
        if name.rpartition("/")[0] == folder:
            entries.append(
                {
                    "type": "file",
                    "path": name,
                    "size": repository.sizes.get(name, len(content)),
                    "oid": "0" * 40,
                }
            )
    return json.dumps(entries).encode()


def _file(
    repository: Repository, name: str, asked: Mapping[str, str]
) -> tuple[int, bytes, dict[str, str]]:
    content = repository.files.get(name)
    if content is None:
        return (
            404,
            b"Entry not found",
            {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": repository.sha},
        )
    headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": repository.sha}
    if asked.get("if-none-match") == headers["ETag"]:
        return 304, b"", headers
    if found := re.fullmatch(r"bytes=(\d+)-(\d+)", asked.get("range", "")):
        first, last = int(found[1]), min(int(found[2]), len(content) - 1)
        return (
            206,
            content[first : last + 1],
            headers
            | {"Content-Range": f"bytes {first}-{last}/{repository.sizes.get(name, len(content))}"},
        )
    return 200, content, headers
