"""The faults, each with the one status that callers are answered with while it lasts."""

import os
import resource
import signal
from base64 import b64encode
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx

from hub_stand_in import HubStandIn, safetensors_repository
from live.process import running
from live.store import SERVER, Store
from soak.load import request

HTML = {"Content-Type": "text/html"}
UNKNOWN_KEY = b64encode(b'{"alg":"ES256","kid":"x"}').decode().rstrip("=")
"""the header of a token whose key must be looked up"""


@dataclass
class Stage:
    """A service with its Hub, and where asked for a store, which a fault breaks and mends."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)
    number: int = 0

    def __enter__(self):
        self.hub = self.stack.enter_context(HubStandIn())
        self.folder.mkdir(parents=True, exist_ok=True)
        self.service = self.stack.enter_context(
            running(self.hub.url, self.folder, FITGAUGE_LOG_LEVEL="error", **self.settings)
        )
        return self

    def __exit__(self, *error):
        self.stack.__exit__(*error)

    def new_model(self):
        """Return a question about a model that nobody asked for."""
        self.number += 1
        name = f"acme/new-{self.number}"
        self.hub.add(safetensors_repository(name))
        return request("/v1/fit", {"model": name, "gpu": "H100"})


@dataclass(frozen=True)
class Fault:
    """A fault: what happens, what is asked meanwhile, the status of the answer."""

    name: str
    what: str
    status: int
    begin: Callable[[Stage], Any] = lambda stage: None
    end: Callable[[Stage], Any] = lambda stage: None
    question: Callable[[Stage], bytes] = Stage.new_model
    settings: dict[str, str] = field(default_factory=dict)
    needs_store: bool = False

    @property
    def concerns_all(self) -> bool:
        """Whether every caller is answered so, by the settings."""
        return bool(self.settings)


def _hub(**what):
    return lambda stage: stage.hub.fault("/api/models", **what)


def _repository(**what):
    """Return what spoils repositories of one owner, which are their own trouble alone."""
    return lambda stage: stage.hub.fault("/api/models/acme/", **what)


def _mend(stage):
    stage.hub.mend()


def _full(stage):
    """Let the service write no byte to a file, as a full disk does."""
    resource.prlimit(stage.service.popen.pid, resource.RLIMIT_FSIZE, (0, -1))


def _room(stage):
    resource.prlimit(stage.service.popen.pid, resource.RLIMIT_FSIZE, (-1, -1))


def _spend(stage):
    """Take the one request that the limit lets pass at once."""
    httpx.get(f"{stage.service.url}/v1/gpus", trust_env=False, timeout=60)


def _question(body, *lines, path="/v1/fit"):
    head = "\r\n".join([f"POST {path} HTTP/1.1", "host: x", *lines, f"content-length: {len(body)}"])
    return lambda stage: f"{head}\r\n\r\n".encode() + body


_JSON = "content-type: application/json"
_KEY = "0" * 64

FAULTS = [
    Fault("hub-slow", "the Hub takes 30 s for each answer", 424, _hub(delay=30.0), _mend),
    Fault("hub-silent", "the Hub accepts and never answers", 424, _hub(hang=True), _mend),
    Fault("hub-down", "the Hub closes every connection", 424, _hub(drop=True), _mend),
    Fault("hub-fails", "the Hub answers 500", 424, _hub(status=500), _mend),
    Fault(
        "hub-portal", "a login page answers for the Hub", 424,
        _hub(body=b"<html>sign in</html>", headers=HTML), _mend,
    ),
    Fault("hub-cut-off", "the Hub's answers are cut off", 424, _hub(claimed_length=10**6), _mend),
    Fault("lies", "descriptions are nonsense", 422, _repository(body=b"[]"), _mend),
    Fault("endless", "descriptions never end", 422, _repository(endless=True), _mend),
    Fault(
        "store-killed", "the shared store is killed (SIGKILL)", 200,
        lambda stage: stage.store.kill(), lambda stage: stage.store.start(), needs_store=True,
    ),
    Fault(
        "store-hangs", "the shared store stands still (SIGSTOP)", 200,
        lambda stage: stage.store.process.send_signal(signal.SIGSTOP),
        lambda stage: stage.store.process.send_signal(signal.SIGCONT), needs_store=True,
    ),
    Fault("disk-full", "the cache's disk takes no byte (RLIMIT_FSIZE)", 200, _full, _room),
    Fault(
        "not-json", "questions that are no JSON", 400, question=_question(b'{"model":', _JSON)
    ),
    Fault("packed", "questions with a Content-Encoding", 415,
        question=_question(b"x", _JSON, "content-encoding: gzip")),
    Fault("too-large", "questions of 100 kB", 413, question=_question(b" " * 100_000, _JSON)),
    Fault("giant-head", "heads of 100 kB", 431,
        question=_question(b"{}", _JSON, "x-pad: " + "x" * 100_000)),
    Fault(
        "too-many", "more requests a second than the limit", 429, _spend,
        settings={"FITGAUGE_REQUESTS_PER_SECOND": "0.001"},
    ),
    Fault(
        "no-key", "callers without a key", 401, settings={"FITGAUGE_API_KEYS": "{folder}/keys"}
    ),
    Fault(
        "provider-down", "the identity provider is away when a token comes", 503,
        question=_question(b"{}", _JSON, f"authorization: Bearer {UNKNOWN_KEY}.e30.e30"),
        settings={
            "FITGAUGE_JWT_KEYS": "https://127.0.0.1:9/keys", "FITGAUGE_JWT_ISSUER": "https://x",
            "FITGAUGE_JWT_AUDIENCE": "fitgauge",
        },
    ),
]  # fmt: skip


def stages(folder):
    """Yield each fault with its stage, which has not begun: one stage for all that need the same;
    None where a store is needed and none is installed."""
    for number, (_, group) in enumerate(
        groupby(FAULTS, lambda one: (one.settings, one.needs_store))
    ):
        with ExitStack() as stack:
            stage = None
            for fault in group:
                if stage is None and not (fault.needs_store and SERVER is None):
                    stage = stack.enter_context(staged(fault, folder / f"stage-{number}"))
                yield fault, stage


@contextmanager
def staged(fault, folder):
    """Provide the stage of a fault, which has not begun."""
    folder.mkdir(parents=True)
    folder.joinpath("keys").write_text(f"nobody {_KEY}\n")
    settings = {name: value.format(folder=folder) for name, value in fault.settings.items()}
    store = None
    if fault.needs_store:
        store = Store(folder)
        store.start()
        settings["FITGAUGE_SHARED_STATE"] = store.url
    try:
        with Stage(folder, settings) as stage:
            stage.store = store
            yield stage
    finally:
        if store:
            store.kill()


def cpu_seconds(pid):
    """Return the processor time of a process [s]."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
