"""Where no change helps training on the GPUs that were named, a smaller model of the family is
suggested."""

import pytest


def _smaller(answer):
    return [one for one in answer.suggestions if "a smaller model" in one.change]


@pytest.mark.parametrize(
    ("asked", "smaller"),
    [
        ({"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "H100"}, "Llama-3.1-70B-Instruct"),
        ({"model": "Qwen/Qwen3-32B", "gpu": "RTX 4060"}, "Qwen3-4B"),
        ({"model": "openai/gpt-oss-120b", "gpu": "RTX 4090", "trainer": "unsloth"},
         "gpt-oss-20b"),
        ({"model": "Qwen/Qwen3-235B-A22B", "gpu": "L40S", "trainer": "unsloth"}, "Qwen3-32B"),
    ],
    ids=lambda value: value.get("gpu") if isinstance(value, dict) else None,
)  # fmt: skip
def test_the_nearest_smaller_model_that_trains_is_suggested(train, asked, smaller):
    answer = train(**asked)
    assert answer.verdict == "does_not_fit"
    (one,) = _smaller(answer)
    assert smaller in one.request["model"]
    again = train(**asked | one.request)
    assert (again.verdict, again.launch.command) == ("fits", one.launch.command)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "method": "full"},  # adapters help
        {"model": "405b", "gpu": "RTX 4090"},  # a size has no family
        {"model": "Qwen/Qwen3-32B", "gpu": "H100"},  # it fits
    ],
    ids=lambda asked: asked["model"],
)
def test_else_none_is(train, asked):
    assert not _smaller(train(**asked))


def test_checkpoints_that_were_quantized_to_be_served_are_not(train):
    answer = train(model="Qwen/Qwen2.5-72B-Instruct", gpu="RTX 4090", method="lora")
    (one,) = _smaller(answer)
    assert not one.request["model"].endswith(("AWQ", "Int4", "Int8", "FP8"))
