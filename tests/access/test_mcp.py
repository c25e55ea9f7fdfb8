"""/mcp and the tools follow the rules of /v1, and say where to get a token (RFC 9728)."""

import asyncio

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import ProtectedResourceMetadata

from hub_stand_in.server import TOKEN
from identity_provider import AUDIENCE, ISSUER, QUESTION, bearer

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture(scope="module")
def tokens(guarded, provider):
    with guarded(
        jwt_keys=str(provider.path),
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        jwt_scope="fit",
        caller_header="X-Auth-User",
        caller_hub_tokens=True,
    ) as http:
        yield http


def call(http, headers, mode="auto", **changes):
    """Return the result of check_fit, called by the official client."""

    async def asks():
        async with (
            httpx2.AsyncClient(headers=headers) as sender,
            Client(
                streamable_http_client(f"{http.base_url}/mcp", http_client=sender), mode=mode
            ) as client,
        ):
            return await client.call_tool("check_fit", {**QUESTION, **changes})

    return asyncio.run(asks())


def test_mcp_says_where_to_get_a_token(tokens):
    refused = tokens.post("/mcp", json=LIST)
    assert refused.status_code == 401
    address = extract_resource_metadata_from_www_auth(refused)
    described = ProtectedResourceMetadata.model_validate(tokens.get(address).json())
    assert str(described.resource) == f"{tokens.base_url}/mcp"
    assert [str(server).rstrip("/") for server in described.authorization_servers] == [ISSUER]
    assert described.scopes_supported == ["fit"]


def audit_lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "fitgauge.audit"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_caller_of_mcp_is_the_caller_of_its_tools(tokens, provider, mode, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    for headers, name in (
        (bearer(provider.token(scope="fit")), "token:alice"),
        ({"X-Auth-User": "bob"}, "gateway:bob"),
    ):
        caplog.clear()
        assert not call(tokens, headers, mode).is_error
        lines = audit_lines(caplog)
        (tool,) = [line for line in lines if "route=/tools/{name}" in line]
        assert tool.startswith(f'decision=allowed caller="{name}"')
        assert all(f'caller="{name}"' in line for line in lines)


def test_calls_at_once_keep_their_callers_apart(tokens, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    names = [f"caller-{number}" for number in range(10)]

    async def asks(name):
        sent = {"X-Auth-User": name, "X-Request-ID": name}
        async with httpx2.AsyncClient(headers=sent) as sender:
            transport = streamable_http_client(f"{tokens.base_url}/mcp", http_client=sender)
            async with Client(transport) as client:
                for _ in range(3):
                    await client.call_tool("check_fit", QUESTION)

    async def all_ask():
        await asyncio.gather(*map(asks, names))

    asyncio.run(all_ask())
    lines = audit_lines(caplog)
    calls = [line for line in lines if "route=/tools/{name}" in line]
    assert len(calls) == 3 * len(names)
    for line in calls:
        name = line.partition('caller="gateway:')[2].partition('"')[0]
        assert line.endswith(f"request_id={name}")


def test_a_callers_token_of_the_hub_goes_with_the_calls_of_mcp(tokens):
    mine, theirs = {"X-Auth-User": "alice", "X-HF-Token": TOKEN}, {"X-Auth-User": "bob"}
    for headers, refused in ((theirs, True), (mine, False), (theirs, True), (mine, False)):
        assert call(tokens, headers, model="acme/private").is_error is refused


def test_limits_of_tools_hold_for_mcp(guarded):
    with guarded(caller_header="X-Auth-User", caller_requests_per_day=2) as http:
        results = [call(http, {"X-Auth-User": "alice"}) for _ in range(3)]
        assert [result.is_error for result in results] == [False, False, True]
        assert "quota-exceeded" in results[2].content[0].text
        assert not call(http, {"X-Auth-User": "bob"}).is_error
