"""Fleets over the bundled snapshot, without a Hub."""

import asyncio

import pytest

from bundled_models import offline_models
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fleet.fleet_file import read_fleet
from fitgauge.services.fleet.service import WHOLE, FleetService
from fitgauge.services.fleet.summary import FleetSummary


@pytest.fixture(scope="session")
def service():
    """Provide fleets, offline."""
    models = offline_models()
    return FleetService(models.find, Checkpoints(models), load_engines(), bundled())


@pytest.fixture
def batches(service):
    """Return the batches of a file's text."""

    def run(text, known=None, shard=WHOLE):
        async def collect():
            question = service.question(read_fleet(text))
            return [one async for one in service.batches(question, known or {}, shard)]

        return asyncio.run(collect())

    return run


@pytest.fixture
def answer(service, batches):
    """Return the answer to a file's text."""

    def run(text, shard=WHOLE):
        summary = FleetSummary(service.question(read_fleet(text)), shard)
        for batch in batches(text, shard=shard):
            summary.add(batch)
        return summary.answer()

    return run
