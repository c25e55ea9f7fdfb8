"""Questions over the bundled snapshot, without a Hub."""

import asyncio
from collections.abc import Callable

import pytest

from bundled_models import shared_questions
from fitgauge.services.ask.schemas import AskAnswer, AskRequest
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.facade import Services


@pytest.fixture(scope="session")
def questions() -> Services:
    """Provide every answer, offline."""
    return shared_questions()


@pytest.fixture(scope="session")
def ask(questions: Services) -> Callable[[str], AskAnswer]:
    """Provide the answer to a question in words."""
    return lambda text: asyncio.run(questions.ask(AskRequest(question=text)))


@pytest.fixture(scope="session")
def check_fit(questions: Services) -> Callable[..., FitAnswer]:
    """Provide the answer to a question given by its fields, with the engine's own settings unless
    it says otherwise."""
    return lambda **fields: asyncio.run(
        questions.check_fit(FitRequest(**{"settings": "defaults", **fields}))
    )[1]
