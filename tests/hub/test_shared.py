"""What replicas share: each model is looked up once, and nothing that is read is trusted."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
from litestar.stores.memory import MemoryStore

from fitgauge.errors import UnknownModelError
from fitgauge.hub import Reference
from fitgauge.hub.request_context import CALLERS_TOKEN
from fitgauge.hub.shared import MAX_VALUE, SCHEMA
from hub_stand_in import safetensors_repository
from hub_stand_in.repositories import llama_config
from hub_stand_in.server import TOKEN

TINY, MISSING = Reference("acme/tiny"), Reference("acme/missing")


class InMemory:
    """A shared state in one process, on Litestar's store."""

    def __init__(self):
        self.store = MemoryStore()
        self.claims = set()
        self.away = False

    async def get(self, key, limit):
        value = None if self.away else await self.store.get(key)
        return value if value is None or len(value) <= limit else None

    async def put(self, key, value, seconds):
        if not self.away:
            await self.store.set(key, value, expires_in=seconds)

    async def forget(self, key):
        await self.store.delete(key)

    @asynccontextmanager
    async def claim(self, key):
        if self.away or key not in self.claims:
            self.claims.add(key)
            try:
                yield True
            finally:
                self.claims.discard(key)
        else:
            yield False

    async def rewrite(self, change):
        """Change every value."""
        for key in list(self.store._store):
            await self.store.set(key, change(await self.store.get(key)))


@pytest.fixture
def replicas(open_hub):
    """Provide what runs `ask` over several hubs on one state, with settings of their own."""

    def run(ask, *settings, state=None):
        async def running():
            async with AsyncExitStack() as stack:
                hubs = []
                for changes in settings or ({}, {}):
                    hub = await stack.enter_async_context(
                        open_hub(**{"cache_dir": None, **changes})
                    )
                    hub.shared = hub.share(state)
                    hubs.append(hub)
                return await ask(*hubs)

        state = state or InMemory()
        return asyncio.run(running())

    return run


async def at_once(*asked):
    return await asyncio.gather(*asked, return_exceptions=True)


def test_replicas_that_are_asked_at_once_look_a_model_up_once(replicas, stand_in):
    stand_in.fault("/api/models/", delay=0.2)
    models = replicas(lambda *hubs: at_once(*(hub.resolve(TINY) for hub in hubs)), {}, {}, {})
    assert [model.id for model in models] == ["acme/tiny"] * 3
    assert (stand_in.count("/api/models/"), stand_in.count("/resolve/")) == (1, 1)


def test_a_replica_that_starts_later_asks_nobody(replicas, stand_in):
    async def ask(first, second):
        await first.resolve(TINY)
        before = stand_in.count()
        model = await second.resolve(TINY)
        return model.id, stand_in.count() - before

    assert replicas(ask) == ("acme/tiny", 0)


def test_a_refusal_is_shared_with_its_code_and_hint(replicas, stand_in):
    async def ask(first, second):
        errors = await at_once(first.resolve(MISSING))
        before = stand_in.count()
        errors += await at_once(second.resolve(MISSING))
        return errors, stand_in.count() - before

    (one, other), asked = replicas(ask)
    assert type(one) is type(other) is UnknownModelError
    assert (one.detail, one.hint, one.code) == (other.detail, other.hint, other.code)
    assert asked == 0


def test_a_refusal_ends_where_the_repository_appears(replicas, stand_in):
    now = [1_000_000.0]

    async def ask(first, second):
        await at_once(first.resolve(MISSING))
        stand_in.add(safetensors_repository("acme/missing"))
        now[0] += 31
        return (await second.resolve(MISSING)).id

    assert replicas(ask, {"clock": lambda: now[0]}, {"clock": lambda: now[0]}) == "acme/missing"


def test_one_token_never_reads_what_another_was_told(replicas, stand_in):
    stand_in.add(safetensors_repository("acme/private", private=True))
    private = Reference("acme/private")

    async def ask(with_token, without):
        return await at_once(with_token.resolve(private), without.resolve(private))

    async def later(with_token, without):
        models = await at_once(with_token.resolve(private))
        return models + await at_once(without.resolve(private))

    for order in (ask, later):
        model, error = replicas(order, {"token": TOKEN}, {"token": False})
        assert model.id == "acme/private"
        assert isinstance(error, UnknownModelError)


def test_a_state_that_is_away_costs_nothing_but_requests(replicas, stand_in):
    state = InMemory()
    state.away = True
    models = replicas(
        lambda *hubs: at_once(*(hub.resolve(TINY) for hub in hubs)), {}, {}, state=state
    )
    assert [model.id for model in models] == ["acme/tiny"] * 2
    assert stand_in.count("/resolve/") == 2


def test_a_replica_whose_claim_is_held_by_none_that_lives_looks_the_model_up(replicas, stand_in):
    """The claim of a killed replica ends in the store; whoever waits then takes it."""
    state = InMemory()

    async def ask(hub):
        key = hub.shared.key(TINY, "")
        state.claims.add(key)
        asyncio.get_running_loop().call_later(0.3, state.claims.discard, key)
        return (await hub.resolve(TINY)).id

    assert replicas(ask, {}, state=state) == "acme/tiny"


def altered(**changes):
    """Return what changes fields of an encoded value."""

    def change(encoded):
        return msgspec.msgpack.encode({**msgspec.msgpack.decode(encoded), **changes})

    return change


def with_facts(**changes):
    def change(encoded):
        value = msgspec.msgpack.decode(encoded)
        return msgspec.msgpack.encode({**value, "facts": {**value["facts"], **changes}})

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda _: b"\xff" * 100,
        lambda encoded: encoded[:-1],
        lambda encoded: encoded + b"\xc0",
        lambda _: b"\x91" * 100_000,
        altered(schema=SCHEMA + 1),
        altered(reference="acme/other"),
        altered(endpoint="https://elsewhere.example"),
        altered(facts=None),
        altered(more=1),
        with_facts(elements={"BF16": -1}),
        with_facts(elements={"BF16": 2**62}),
        with_facts(elements={"BF16": "1"}),
        with_facts(config=b"no json"),
    ],
)
def test_a_value_that_another_wrote_is_checked_and_else_looked_up(change, replicas, stand_in):
    state = InMemory()

    async def ask(first, second):
        expected = await first.resolve(TINY)
        await state.rewrite(change)
        model = await second.resolve(TINY)
        return expected == model

    assert replicas(ask, state=state)
    assert stand_in.count("/resolve/") == 2


def test_a_value_beyond_the_limit_is_not_shared(replicas, stand_in):
    stand_in.add(
        safetensors_repository("acme/wide", config={**llama_config(), "padding": "x" * MAX_VALUE})
    )

    async def ask(first, second):
        return [(await hub.resolve(Reference("acme/wide"))).id for hub in (first, second)]

    assert replicas(ask) == ["acme/wide"] * 2
    assert stand_in.count("/resolve/") == 2


def test_what_is_shared_holds_no_token(replicas):
    state = InMemory()
    replicas(lambda hub: hub.resolve(TINY), {"token": TOKEN}, state=state)
    stored = repr(state.store._store)
    assert "acme/tiny" in stored
    assert TOKEN not in stored


def test_what_a_callers_token_shows_is_shared_with_no_replica(stand_in, replicas):
    stand_in.add(safetensors_repository("acme/private", private=True))
    private, state = Reference("acme/private"), InMemory()

    async def ask(one, other):
        CALLERS_TOKEN.set(TOKEN)
        await one.resolve(private)
        shared = [await state.store.get(key) for key in state.store._store]
        CALLERS_TOKEN.set("")
        with pytest.raises(UnknownModelError):
            await other.resolve(private)
        return shared

    shared = replicas(ask, state=state)
    assert len(shared) == 1  # that strangers may not see it
    assert b"hidden_size" not in shared[0]
