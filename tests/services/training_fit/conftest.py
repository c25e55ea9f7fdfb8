"""Answers about training."""

import asyncio

import pytest

from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest


@pytest.fixture(scope="module")
def train(questions, request):
    """Provide the answer to a question given by its fields, on top of the module's ASKED."""
    asked = getattr(request.module, "ASKED", {})
    return lambda **fields: asyncio.run(
        questions.check_training_fit(TrainingRequest(**(asked | fields)))
    )[1]


@pytest.fixture(scope="session")
def plan(questions):
    """Provide the plans of a question given by its fields."""
    return lambda **fields: asyncio.run(questions.plan_training(TrainingPlanRequest(**fields)))[1]
