"""Behind a gateway, without one: what its headers do, from whom, and the prefix."""

import asyncio

import httpx
import pytest
from litestar.types import Receive, Scope, Send

from fitgauge.api.gateway import PEER, Gateway
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn
from live import client, serving

FORWARDED = {"X-Forwarded-For": "203.0.113.9, 10.1.2.3", "X-Forwarded-Proto": "https"}


def scope_behind(peer, trusted, headers=FORWARDED, path="/v1/fit", root_path=""):
    """Return the scope that the application gets."""
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def ask():
        transport = httpx.ASGITransport(Gateway(app, trusted, root_path), client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://fit") as http:
            await http.get(path, headers=headers)

    asyncio.run(ask())
    return seen[0]


@pytest.mark.parametrize(
    "peer, trusted, client_host, scheme",
    [
        ("10.1.2.3", "10.0.0.0/8", "203.0.113.9", "https"),
        ("10.1.2.3", "10.1.2.3", "203.0.113.9", "https"),
        ("192.0.2.1", "10.0.0.0/8", "192.0.2.1", "http"),
        ("192.0.2.1", "127.0.0.1", "192.0.2.1", "http"),
        ("127.0.0.1", "", "127.0.0.1", "http"),
    ],
)
def test_forwarded_headers_are_believed_from_named_proxies_alone(
    peer, trusted, client_host, scheme
):
    scope = scope_behind(peer, trusted)
    assert (scope["client"][0], scope["scheme"]) == (client_host, scheme)
    assert scope[PEER] == peer


def test_an_address_before_an_unnamed_proxy_is_not_believed():
    sent = {"X-Forwarded-For": "127.0.0.1, 203.0.113.9, 10.1.2.3"}
    assert scope_behind("10.1.2.3", "10.0.0.0/8", sent)["client"][0] == "203.0.113.9"


@pytest.mark.parametrize(
    "path, inner",
    [
        ("/fit/v1/fit", "/v1/fit"),
        ("/v1/fit", "/v1/fit"),
        ("/fit", "/"),
        ("/fitting", "/fitting"),
        ("/fit/fit/x", "/fit/x"),
    ],
)
def test_the_prefix_is_taken_off_whether_the_gateway_does_or_not(path, inner):
    scope = scope_behind("127.0.0.1", "", path=path, root_path="/fit")
    assert (scope["path"], scope["app_root_path"]) == (inner, "/fit")


def test_the_service_answers_below_a_prefix_and_names_it():
    with HubStandIn() as hub, serving(hub, Settings(root_path="/fit")) as url, client(url) as http:
        http.event_hooks = {}  # the document knows no prefix
        for prefix in ("", "/fit"):
            question = {"model": "7b", "gpu": "H100"}
            assert http.post(f"{prefix}/v1/fit", json=question).status_code == 200
            assert http.get(f"{prefix}/health/ready").status_code == 200
        served = http.get("/tools/openapi.json", headers={"X-Forwarded-Proto": "https"}).json()
    assert served["servers"][0]["url"].startswith("https://127.0.0.1")
    assert served["servers"][0]["url"].rstrip("/").endswith("/fit")
