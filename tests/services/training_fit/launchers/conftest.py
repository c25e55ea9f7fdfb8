"""A training fit on one B300, and its command."""

import asyncio

import pytest

from fitgauge.services.training_fit.schemas import TrainingRequest

MODEL = {"model": "Qwen/Qwen3-8B", "gpu": "B300", "method": "full"}


@pytest.fixture(scope="module")
def answer(questions):
    return lambda **fields: asyncio.run(
        questions.check_training_fit(TrainingRequest(**MODEL | fields))
    )[1]


@pytest.fixture(scope="module")
def command(answer):
    return lambda **fields: answer(**fields).launch.command
