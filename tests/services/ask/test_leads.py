"""The most that a launch holds: what of an answer is taken for it."""

import asyncio

import pytest
from msgspec import structs

from fitgauge.services.ask.leads import most_of
from fitgauge.services.common.schemas import FitRequest


@pytest.fixture(scope="module")
def asked(questions):
    """Return a request that does not fit, and its answer."""
    request = FitRequest(
        model="deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", gpu="3090", quantization="awq",
        context_length=32768,
    )  # fmt: skip
    return request, asyncio.run(questions.check_fit(request))[1]


def test_a_shorter_context_on_the_same_gpus_is_taken(asked):
    request, answer = asked
    most, sentence = most_of("context_length", request, answer)
    assert most.context_length < 32768
    assert sentence == f"{most.context_length:,} tokens of context at most. "


@pytest.mark.parametrize("more", [{"gpu_count": 2}, {"model": "Qwen/Qwen3-8B"}])
def test_that_of_more_gpus_or_another_model_is_not(asked, more):
    request, answer = asked
    others = [structs.replace(one, request={**one.request, **more}) for one in answer.suggestions]
    assert most_of("context_length", request, structs.replace(answer, suggestions=others)) is None
