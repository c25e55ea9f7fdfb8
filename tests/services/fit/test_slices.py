"""Slices of a GPU (MIG) each hold a copy of a model, never a part of one."""

import asyncio

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

MODEL, SLICE = "Qwen/Qwen3-4B-AWQ", "H100 MIG 1g.10gb"


def test_a_model_is_not_divided_over_slices(check_fit):
    several = check_fit(model=MODEL, gpu=f"7x {SLICE}", settings="auto")
    assert several.verdict == "unsupported"
    assert "one slice of a GPU only" in several.summary
    first = several.suggestions[0]
    assert first.request == {"gpu_count": 1}
    alone = check_fit(model=MODEL, gpu=SLICE, settings="auto")
    assert (first.verdict, first.required_bytes) == (
        alone.verdict,
        alone.per_gpu.required_bytes.expected,
    )


def test_a_table_says_the_same(questions):
    async def verdicts():
        table = await questions.compare_fit(
            CompareRequest(models=MODEL, gpus=[f"7x {SLICE}", SLICE])
        )
        return [row.verdict async for some in questions.rows(table) for row in some]

    assert asyncio.run(verdicts()) == ["unsupported", "fits"]


def test_a_training_is_not_spread_over_slices(questions):
    asked = TrainingRequest(model="Qwen/Qwen3-4B", gpu="2x H100 MIG 3g.40gb", method="lora")
    _, answer = asyncio.run(questions.check_training_fit(asked))
    assert answer.verdict == "unsupported"
    assert "one slice of a GPU only" in answer.summary


def test_a_plan_is_not_laid_over_slices(questions):
    asked = TrainingPlanRequest(model="Qwen/Qwen3-4B", gpu="2x H100 MIG 3g.40gb", method="lora")
    with pytest.raises(InvalidRequestError, match="one slice of a GPU only") as raised:
        asyncio.run(questions.plan_training(asked))
    assert raised.value.send == {"gpu_count": 1}
