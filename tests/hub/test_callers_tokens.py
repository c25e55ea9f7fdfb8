"""A caller's own token: it shows what it may show to that caller, and nothing of it to others."""

import asyncio
from pathlib import Path

import pytest

from fitgauge.errors import GatedModelError, HubBusyError, UnknownModelError
from fitgauge.hub import Reference
from fitgauge.hub.request_context import CALLERS_TOKEN, token_id
from hub_stand_in import safetensors_repository
from hub_stand_in.server import TOKEN

PRIVATE, GATED, TINY = (Reference(f"acme/{name}") for name in ("private", "gated", "tiny"))
STRANGER = "hf_stranger"


@pytest.fixture(autouse=True)
def repositories(stand_in):
    stand_in.add(safetensors_repository("acme/private", private=True))
    stand_in.add(safetensors_repository("acme/gated", gated=True))


async def as_caller(token, hub, reference):
    """Resolve in a task of its own, as a request does."""

    async def resolve():
        CALLERS_TOKEN.set(token)
        return await hub.resolve(reference)

    return await asyncio.create_task(resolve())


def run(open_hub, work, **settings):
    async def opened():
        async with open_hub(**settings) as hub:
            return await work(hub)

    return asyncio.run(opened())


@pytest.mark.parametrize("reference", [PRIVATE, GATED])
def test_memory_and_refusals_are_of_one_token(stand_in, open_hub, reference):
    async def work(hub):
        for stranger in ("", STRANGER):
            with pytest.raises((UnknownModelError, GatedModelError)):
                await as_caller(stranger, hub, reference)
        model = await as_caller(TOKEN, hub, reference)
        before = stand_in.count()
        assert await as_caller(TOKEN, hub, reference) is model
        assert stand_in.count() == before
        for stranger in ("", STRANGER):
            with pytest.raises((UnknownModelError, GatedModelError)):
                await as_caller(stranger, hub, reference)
            assert hub.peek(reference) is None

    run(open_hub, work)


def test_callers_who_ask_at_once_share_no_flight(stand_in, open_hub):
    async def work(hub):
        stand_in.fault(delay=0.1)
        tokens = [TOKEN, STRANGER, "", TOKEN]
        return await asyncio.gather(
            *(as_caller(token, hub, PRIVATE) for token in tokens), return_exceptions=True
        )

    mine, theirs, nobodys, again = run(open_hub, work)
    assert mine is again
    assert [type(other) for other in (theirs, nobodys)] == [UnknownModelError] * 2


def test_nothing_that_a_callers_token_shows_is_written_to_disk(open_hub, tmp_path):
    run(open_hub, lambda hub: as_caller(TOKEN, hub, PRIVATE))
    assert [path for path in Path(tmp_path).rglob("*") if path.is_file()] == []

    async def later(hub):
        with pytest.raises(UnknownModelError):
            await hub.resolve(PRIVATE)

    run(open_hub, later)


def test_what_everybody_may_see_is_read_once_and_without_callers_tokens(stand_in, open_hub):
    async def work(hub):
        return [await as_caller(token, hub, TINY) for token in (TOKEN, STRANGER, "")]

    models = run(open_hub, work)
    assert len({id(model) for model in models}) == 1
    assert stand_in.count("/config.json") == 1
    assert all("authorization" not in request.headers for request in stand_in.requests)


def test_a_rate_limit_of_one_token_stops_nobody_else(stand_in, open_hub):
    async def work(hub):
        with pytest.raises(UnknownModelError):
            await hub.resolve(PRIVATE)
        stand_in.fault("acme/private", status=429, headers={"Retry-After": "30"})
        with pytest.raises(HubBusyError):
            await as_caller(TOKEN, hub, PRIVATE)
        assert (await hub.resolve(TINY)).source == "hub"

    run(open_hub, work)


def test_a_token_that_the_hub_rejects_is_named_as_the_callers(stand_in, open_hub):
    async def work(hub):
        with pytest.raises(UnknownModelError):
            await hub.resolve(PRIVATE)
        sent = {"X-Error-Message": "Invalid credentials in Authorization header"}
        stand_in.fault("acme/private", status=401, headers=sent)
        with pytest.raises(GatedModelError) as refused:
            await as_caller(STRANGER, hub, PRIVATE)
        assert "X-HF-Token" in refused.value.detail

    run(open_hub, work)


def test_a_token_is_named_by_a_keyed_hash_alone():
    CALLERS_TOKEN.set(TOKEN)
    mine = token_id()
    CALLERS_TOKEN.set(STRANGER)
    assert mine != token_id()
    assert TOKEN not in mine
    CALLERS_TOKEN.set("")
    assert token_id() == ""
