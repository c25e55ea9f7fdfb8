"""Questions over the bundled snapshot, without a Hub."""

import asyncio
from collections.abc import Callable

import pytest

from bundled_models import offline_questions
from fitgauge.services import Questions
from fitgauge.services.common.schemas import FitAnswer, FitRequest


@pytest.fixture(scope="session")
def questions() -> Questions:
    """Every answer, offline."""
    return offline_questions()


@pytest.fixture(scope="session")
def check_fit(questions: Questions) -> Callable[..., FitAnswer]:
    """The answer to a question given by its fields."""
    return lambda **fields: asyncio.run(questions.check_fit(FitRequest(**fields)))[1]
