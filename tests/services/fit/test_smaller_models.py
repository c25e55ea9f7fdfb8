"""Where no change helps on the GPUs that were named, a smaller model of the family is suggested."""

import pytest

from bundled_models import model_of, offline_models
from fitgauge.engine.quantity import GIB
from fitgauge.services.common.smaller_models import SmallerModels


def _smaller(answer):
    return [one for one in answer.suggestions if "a smaller model" in one.change]


@pytest.mark.parametrize(
    ("asked", "family", "size"),
    [
        ({"model": "deepseek-ai/DeepSeek-R1", "gpu": "M3 Max 128GB"}, "DeepSeek-R1-Distill", 70),
        ({"model": "openai/gpt-oss-120b", "gpu": "RTX 4060 Ti 16GB"}, "gpt-oss", 20),
        ({"model": "Qwen/Qwen3-235B-A22B", "gpu": "RTX 4090"}, "Qwen3", 32),
        ({"model": "Qwen/Qwen3-VL-235B-A22B-Instruct", "gpu": "L40S"}, "Qwen3-VL", 33),
        ({"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "H100"}, "Llama-3.1", 70),
        ({"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "H100", "engine": "sglang",
          "quantization": "fp8"}, "Llama-3.1", 8),
    ],
    ids=lambda value: value.get("gpu") if isinstance(value, dict) else None,
)  # fmt: skip
def test_the_nearest_smaller_model_that_fits_is_suggested(check_fit, asked, family, size):
    answer = check_fit(**asked)
    assert answer.verdict == "does_not_fit"
    (smaller,) = _smaller(answer)
    assert family in smaller.request["model"]
    assert f"{size}" in smaller.change
    assert asked.keys() & smaller.request.keys() <= {"model"}
    again = check_fit(**{**asked, **smaller.request})
    assert (again.verdict, again.launch.command) == ("fits", smaller.launch.command)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"},  # AWQ helps
        {"model": "MiniMaxAI/MiniMax-M2", "gpu": "RTX 4090"},  # the family has none that fits
        {"model": "405b", "gpu": "RTX 4090"},  # a size has no family
        {"model": "mistralai/Mixtral-8x22B-Instruct-v0.1", "gpu": "RTX 2060"},
    ],
    ids=lambda asked: asked["model"],
)
def test_else_none_is(check_fit, asked):
    assert not _smaller(check_fit(**asked))


@pytest.mark.parametrize(
    ("model_id", "gib", "first", "never"),
    [
        ("Qwen/Qwen3-235B-A22B", 24, "Qwen/Qwen3-32B", "Coder"),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 80, "Qwen/Qwen3-Coder-30B-A3B-Instruct", "VL"),
        ("deepseek-ai/DeepSeek-R1", 48, "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
         "deepseek-llm"),
        ("mistralai/Mistral-Large-Instruct-2411", 24,
         "mistralai/Mistral-Small-3.2-24B-Instruct-2506", "Mistral-7B-Instruct-v0.1"),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 48,
         "meta-llama/Llama-4-Scout-17B-16E-Instruct", "Guard"),
    ],
)  # fmt: skip
def test_the_nearest_by_name_comes_first(model_id, gib, first, never):
    models = SmallerModels(offline_models())
    found = [one.id for one in models.find(model_of(model_id), gib * GIB)]
    assert found[0] == first
    assert not any(never in one for one in found)
    assert model_id not in found
