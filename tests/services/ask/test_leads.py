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


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("gemma 3 27b on an M4 Pro 48GB: how fast?", "take an 8-bit checkpoint"),
        ("is llama 3.3 70b on an m3 max 64gb painfully slow?", "take a 4-bit checkpoint"),
    ],
)
def test_how_fast_is_told_of_what_fits_where_the_published_weights_do_not(ask, text, step):
    answer = ask(text).answer
    assert answer["verdict"] == "fits"
    first, second, third = answer["summary"].split(". ")[:3]
    assert (first, second) == ("As asked it does not fit", f"To fit, {step}")
    assert third.startswith("About ")
    assert "tokens/s" in third
