"""The service behind a real nginx and a real Envoy: prefix, TLS, callers, timeouts, MCP.

Without them these tests are skipped, unless FITGAUGE_SYSTEM is set, as `make system` does.
tests/api/test_gateway.py is the short form, without servers."""

import asyncio
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urljoin, urlsplit

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from fitgauge.api.access.api_keys import key_hash, new_key
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from identity_provider import AUDIENCE, ISSUER, QUESTION, Provider, asked, bearer
from live import serving
from system.gateways import COMMANDS, PREFIX, USER_HEADER, running

CALLER = "127.0.0.5"
"""A caller of the gateway, who is no proxy."""
KEY = new_key()


@pytest.fixture(scope="module")
def stand_in():
    with HubStandIn(safetensors_repository("acme/tiny")) as hub:
        yield hub


@pytest.fixture(scope="module")
def service(stand_in, tmp_path_factory):
    """Provide the address of a service that takes keys, tokens and a gateway's word."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "keys").write_text(f"ci {key_hash(KEY)}\n")
    settings = Settings(
        root_path=PREFIX,
        trusted_proxies="127.0.0.1",
        caller_header=USER_HEADER,
        api_keys=str(folder / "keys"),
        jwt_keys=str(Provider(folder / "jwks.json").path),
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        compression=True,
    )
    with serving(stand_in, settings, wait_seconds=20.0) as url:
        yield url


@pytest.fixture(scope="module", params=COMMANDS)
def gateway(request, service, tmp_path_factory):
    name = request.param
    if COMMANDS[name] is None and not os.environ.get("FITGAUGE_SYSTEM"):
        pytest.skip(f"no {name}")
    folder = tmp_path_factory.mktemp(name)
    with running(name, folder, urlsplit(service).port) as started:
        yield started


def client(gateway, url):
    transport = httpx.HTTPTransport(verify=gateway.trust, local_address=CALLER)
    return httpx.Client(base_url=url, transport=transport, timeout=30)


@pytest.fixture
def signed_in(gateway):
    with client(gateway, gateway.signed_in) as http:
        yield http


@pytest.fixture
def plain(gateway):
    with client(gateway, gateway.plain) as http:
        yield http


def test_the_prefix_is_in_every_address_whether_it_is_stripped_or_not(signed_in, plain):
    for http, headers in ((signed_in, {}), (plain, bearer(KEY))):
        assert asked(http, headers).status_code == 200
        (server,) = http.get("/tools/openapi.json", headers=headers).json()["servers"]
        assert server["url"].rstrip("/") == str(http.base_url).rstrip("/")


def test_the_page_finds_its_files_below_the_prefix(signed_in):
    page = signed_in.get("/")
    files = re.findall(r'(?:src|href)="([^"#]+\.(?:js|css))"', page.text)
    assert files
    for file in files:
        assert signed_in.get(urljoin(str(page.url), file)).status_code == 200


def test_the_gateways_request_id_is_answered_and_logged(signed_in, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    one, other = asked(signed_in), asked(signed_in)
    ids = [answer.headers["x-request-id"] for answer in (one, other)]
    assert all(re.fullmatch(r"[0-9a-f-]{32,36}", one) for one in ids)
    lines = [record.getMessage() for record in caplog.records if record.name == "fitgauge.audit"]
    assert [line.rpartition("request_id=")[2] for line in lines] == ids


def test_the_gateway_names_the_caller_and_the_caller_cannot(signed_in, plain, service, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    forged = {USER_HEADER: "root"}
    assert asked(signed_in, forged).status_code == 200
    assert asked(plain, forged).status_code == 401
    direct = httpx.HTTPTransport(local_address=CALLER)
    with httpx.Client(base_url=service, transport=direct) as around:
        assert asked(around, forged).status_code == 401
        assert asked(around, {**forged, "X-Forwarded-For": "127.0.0.1"}).status_code == 401
    assert caplog.text.count('caller="gateway:alice"') == 1
    assert "root" not in caplog.text


def test_where_to_get_a_token_can_be_read_through_the_gateway(plain):
    refused = plain.post("/mcp", json={})
    address = refused.headers["www-authenticate"].rpartition('resource_metadata="')[2].strip('"')
    described = plain.get(address)
    assert refused.status_code == 401
    assert described.json()["resource"] == f"{str(plain.base_url).rstrip('/')}/mcp"
    assert described.json()["authorization_servers"] == [ISSUER]


def test_compressed_answers_and_their_tags_pass(signed_in):
    first = signed_in.get("/v1/gpus")
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["cache-control"] == "private, no-cache"
    again = signed_in.get("/v1/gpus", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_question_past_the_gateways_patience_is_a_504_and_costs_the_next_one_nothing(
    signed_in, stand_in
):
    stand_in.fault("acme/slow", hang=True)
    started = time.monotonic()
    late = asked(signed_in, model="acme/slow")
    assert (late.status_code, time.monotonic() - started < 15) == (504, True)
    stand_in.mend()
    assert asked(signed_in).status_code == 200


def test_many_at_once_are_all_answered(signed_in):
    with ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(lambda _: asked(signed_in).status_code, range(200))]
    assert answers == [200] * 200


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_mcp_is_spoken_through_the_gateway(gateway, signed_in, mode):
    async def call():
        async with (
            httpx2.AsyncClient(verify=gateway.trust) as sender,
            Client(
                streamable_http_client(f"{gateway.signed_in}/mcp", http_client=sender), mode=mode
            ) as host,
        ):
            return await host.call_tool("check_fit", QUESTION)

    assert not asyncio.run(call()).is_error
    assert signed_in.get("/mcp").status_code == 405
