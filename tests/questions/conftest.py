"""Questions over the bundled snapshot, without a Hub."""

import asyncio
from collections.abc import Callable

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.models import Snapshot
from fitgauge.hub import Hub, HubSettings
from fitgauge.questions import Questions
from fitgauge.questions.models import Models
from fitgauge.questions.schemas import FitAnswer, FitRequest


@pytest.fixture(scope="session")
def questions() -> Questions:
    """Every answer, offline."""
    return Questions(Models(Hub(HubSettings(offline=True, cache_dir=None, token=False)), Snapshot()), load_engines(), bundled())


@pytest.fixture(scope="session")
def check_fit(questions: Questions) -> Callable[..., FitAnswer]:
    """The answer to a question given by its fields."""
    return lambda **fields: asyncio.run(questions.check_fit(FitRequest(**fields)))[1]
