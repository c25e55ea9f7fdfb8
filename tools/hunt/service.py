"""Ask this service the cases of a hunt, in this process."""

import asyncio
import json
import os
from typing import Any, NamedTuple

import httpx

from answers import lifespan

os.environ["HF_HUB_OFFLINE"] = "0"  # the Hub is a stand-in on this machine

from fitgauge.app import create_app
from fitgauge.hub import Hub, HubSettings
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn
from hub_stand_in.repositories import Repository


class Answer(NamedTuple):
    """What this service says of a case."""

    status: int
    body: dict[str, Any]

    @property
    def refused(self) -> bool:
        """Whether it was not estimated."""
        return self.status != 200 or self.body["verdict"] == "unsupported"

    @property
    def reason(self) -> str:
        """Why."""
        return str(self.body.get("detail") or self.body.get("summary"))[:160]


class Outcome(NamedTuple):
    """How one case compares."""

    case: dict[str, Any]
    kind: str
    """`agrees`, `weights`, `tokens`, `refused by ...` an engine, `refused here` or `no answer`."""
    detail: str = ""
    """The terms that differ."""


def ask(cases: list[dict[str, Any]], requests: dict[str, dict[str, Any]]) -> dict[str, Answer]:
    """Return answers by case, to requests of POST /v1/fit by case."""
    return asyncio.run(_ask(cases, requests))


async def _ask(
    cases: list[dict[str, Any]], requests: dict[str, dict[str, Any]]
) -> dict[str, Answer]:
    repositories = [Repository(f"hunt/{case['id']}", _files(case)) for case in cases]
    results = {}
    with HubStandIn(*repositories) as stand_in:
        hub = Hub(HubSettings(endpoint=stand_in.url, offline=False, token=False, cache_dir=None))
        app = create_app(Settings(log_level="error"), hub)
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        async with (
            lifespan(app),
            httpx.AsyncClient(transport=transport, base_url="http://hunt", timeout=60) as client,
        ):
            for name, request in requests.items():
                response = await client.post("/v1/fit", json={"model": f"hunt/{name}", **request})
                results[name] = Answer(response.status_code, response.json())
    return results


def _files(case: dict[str, Any]) -> dict[str, bytes]:
    files = {"config.json": case["config"], "hf_quant_config.json": case.get("quantization")}
    return {name: json.dumps(content).encode() for name, content in files.items() if content}
