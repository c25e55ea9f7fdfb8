"""What an impossible setting, an unknown model or GPU, and a model that cannot be read get."""

import pytest

from refusals import refused


@pytest.mark.parametrize(
    "fields,field,named",
    [
        ({"tensor_parallel": 3}, "tensor_parallel", "1, 2, 4, 8"),
        ({"gpu_count": 1, "tensor_parallel": 2}, "gpu_count", "gpu_count 2"),
        ({"gpu_count": 8, "pipeline_parallel": 8}, "pipeline_parallel", "at most 2"),
        (
            {"gpu_count": 4, "data_parallel": 2, "tensor_parallel": 2, "expert_parallel": 3},
            "expert_parallel",
            "4",
        ),
        ({"engine": "nothing"}, "engine", "vllm"),
        ({"engine_version": "newest"}, "engine_version", "0."),
        ({"kv_cache_dtype": "int3"}, "kv_cache_dtype", "fp8"),
        ({"quantization": "nothing"}, "quantization", "bf16"),
        ({"quantization": "xyzzy"}, "quantization", "awq"),
        ({"engine": "\x00"}, "engine", "vllm"),
    ],
)
def test_an_impossible_question_is_a_422_that_names_what_would_do(ask, fields, field, named):
    problem = refused(ask(**fields), 422, "impossible-question")
    assert problem["field"] == field
    assert named in problem["hint"]


@pytest.mark.parametrize(
    "text",
    [
        "acme/tyni",
        "Qwen/Qwen3-23B",
        "qwen/qwen3 32b",
        "no such thing at all",
        "../../etc/passwd",
        "\x00",
        "a/b/c",
        "ÿ",
    ],
)
def test_an_unknown_model_is_a_404_with_a_hint(ask, text):
    problem = refused(ask(model=text), 404, "unknown-model")
    assert len(problem["matches"]) <= 5


def test_a_misspelt_model_gets_near_matches(ask):
    assert "Qwen/Qwen3-32B" in refused(ask(model="Qwen/Qwen3-23B"), 404, "unknown-model")["matches"]


def test_an_unknown_gpu_is_a_404_with_near_matches(ask):
    problem = refused(ask(gpu="RTX 4095"), 404, "unknown-accelerator")
    assert problem["field"] == "gpu"
    assert "RTX 4090" in problem["matches"]


@pytest.mark.parametrize(
    "text", ["\x00", "🙂", " ", "0x4090", "-1x H100", "x" * 200, "GPU; DROP TABLE"]
)
def test_a_gpu_that_is_none_is_refused(ask, text):
    assert ask(gpu=text).status_code in (404, 422)


def test_a_gated_model_is_a_403(ask):
    refused(ask(model="acme/gated"), 403, "gated-model")


def test_a_repository_without_weights_is_a_422(ask):
    refused(ask(model="acme/adapter"), 422, "model-without-weights")
