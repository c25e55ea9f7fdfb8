"""The snapshot in the Hub's place: who waits for the Hub, and when."""

import asyncio

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.hub import Hub, HubSettings
from fitgauge.services.common import model_resolver
from fitgauge.services.common.model_resolver import ModelResolver
from hub_stand_in import HubStandIn, safetensors_repository

NAME = "Qwen/Qwen3-8B"


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def stand_in():
    with HubStandIn() as hub:
        yield hub


def asked(stand_in, ask):
    """Return what `ask` gets from a resolver over the stand-in, and its clock."""

    async def run():
        clock = Clock()
        hub = Hub(
            HubSettings(
                endpoint=stand_in.url,
                offline=False,
                token=False,
                cache_dir=None,
                wait_seconds=5.0,
                attempts=1,
            ),
            monotonic=clock,
        )
        await hub.start()
        try:
            return await ask(ModelResolver(hub, Snapshot(), clock), clock)
        finally:
            await hub.close()

    return asyncio.run(run())


def test_nobody_waits_twice_for_a_hub_that_fails(stand_in):
    stand_in.fault("/api/models", status=500)

    async def ask(models, clock):
        first = await models.resolve(NAME)
        clock.seconds = model_resolver.SECOND_BEST_SECONDS - 1
        assert models.peek(NAME) is first
        assert models.hub.lookups_under_way == 0
        clock.seconds = model_resolver.SECOND_BEST_SECONDS
        assert models.peek(NAME) is first
        assert models.hub.lookups_under_way == 1

    asked(stand_in, ask)


def test_the_hub_is_heard_again_without_anybody_waiting(stand_in):
    stand_in.fault("/api/models", status=500)

    async def ask(models, clock):
        assert (await models.resolve(NAME)).source == "snapshot"
        stand_in.mend()
        stand_in.add(safetensors_repository(NAME))
        clock.seconds = model_resolver.SECOND_BEST_SECONDS
        async with asyncio.timeout(10):
            while models.peek(NAME).source == "snapshot":
                await asyncio.sleep(0.01)
        return models.peek(NAME).source

    assert asked(stand_in, ask) == "hub"


def test_an_old_answer_is_waited_for_again(stand_in):
    stand_in.fault("/api/models", status=500)

    async def ask(models, clock):
        await models.resolve(NAME)
        clock.seconds = model_resolver.SECOND_BEST_SECONDS + model_resolver.STALE_SECONDS
        return models.peek(NAME)

    assert asked(stand_in, ask) is None
