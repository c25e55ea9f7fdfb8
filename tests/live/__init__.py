"""The real service under its real server, over a stand-in for the Hub, and a client that holds
every response to the OpenAPI document.

with (HubStandIn(safetensors_repository("acme/tiny")) as hub, serving(hub) as url,
          client(url) as http):
    http.get("/v1/models/acme/tiny")
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

import fitgauge_plugin.mcp_in_process  # noqa: F401 - once, not while a first test runs
from fitgauge.app import create_app
from fitgauge.hub import Hub, HubSettings
from fitgauge.serve import OPTIONS
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn
from live.conformance import conform

__all__ = ["PATIENCE", "app_over", "client", "conform", "listening", "serving"]

PATIENCE = 60
"""How long the service computes and a client waits [s]: a loaded machine is no failure."""


def app_over(stand_in: HubStandIn, settings: Settings | None = None, **hub_settings: Any) -> Any:
    """Return the application, with its Hub at the stand-in; keywords are HubSettings."""
    usual: dict[str, Any] = {
        "endpoint": stand_in.url,
        "offline": False,
        "token": False,
        "cache_dir": None,
        "first_delay_seconds": 0.01,
    }
    return create_app(
        settings or Settings(log_level="warning", question_seconds=PATIENCE),
        Hub(HubSettings(**{**usual, **hub_settings})),
    )


@contextmanager
def serving(
    stand_in: HubStandIn,
    settings: Settings | None = None,
    *,
    options: Any = None,
    **hub_settings: Any,
) -> Iterator[str]:
    """Provide the service on a free port of 127.0.0.1: its address. `options`: of uvicorn,
    instead of the service's own."""
    with listening(app_over(stand_in, settings, **hub_settings), options=options) as url:
        yield url


@contextmanager
def listening(app: Any, *, options: Any = None) -> Iterator[str]:
    """Provide an ASGI application on a free port of 127.0.0.1, under the service's own server:
    its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(uvicorn.Config(app, **{**OPTIONS, **(options or {})}))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the service did not start")
        time.sleep(0.002)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


def client(url: str, **options: Any) -> httpx.Client:
    """Return a client each of whose responses is held to the OpenAPI document. It lets go of idle
    connections well before the server does, after 5 s."""
    return httpx.Client(
        base_url=url,
        trust_env=False,
        timeout=2 * PATIENCE,
        limits=httpx.Limits(keepalive_expiry=2),
        event_hooks={"response": [conform]},
        **options,
    )


def every_gpu(http: httpx.Client) -> list[dict[str, Any]]:
    """Return all rows of the catalog, page by page, each as long as an answer may be."""
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = http.get("/v1/gpus", params={"limit": 1000, "offset": offset})
        assert len(page.text) < 100_000
        rows += page.json()["items"]
        offset = page.json()["next_offset"]
    return rows
