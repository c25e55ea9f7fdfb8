"""Answers about training."""

import asyncio

import pytest

from fitgauge.services.training_fit.schemas import TrainingRequest


@pytest.fixture(scope="module")
def train(questions, request):
    """Provide the answer to a question given by its fields, on top of the module's ASKED."""
    asked = getattr(request.module, "ASKED", {})
    return lambda **fields: asyncio.run(
        questions.check_training_fit(TrainingRequest(**(asked | fields)))
    )[1]
