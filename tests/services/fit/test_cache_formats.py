"""Number formats of vLLM's KV cache, by the names of its own flag."""

import pytest

from fitgauge.errors import InvalidRequestError


def pool(answer) -> int:
    return next(term.bytes for term in answer.terms if term.name == "kv_cache")


def test_scales_by_token_and_head_add_four_bytes_to_each_key_and_value(check_fit):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "context_length": 8192}
    wide = pool(check_fit(**asked, kv_cache_dtype="bf16")) / (2 * 128 * 2)
    for name, head in (("int8", 128), ("fp8", 128), ("int4", 64)):
        narrow = check_fit(**asked, kv_cache_dtype=f"{name}_per_token_head")
        assert pool(narrow) == wide * 2 * (head + 4)
        assert f"--kv-cache-dtype {name}_per_token_head" in narrow.launch.command


@pytest.mark.parametrize(
    "model, gpu, dtype, runs",
    [
        ("Qwen/Qwen3-8B", "RTX 3090", "int8_per_token_head", True),
        ("Qwen/Qwen3-8B", "RTX 3090", "fp8_per_token_head", False),  # Triton's fp8 starts at 8.9
        ("Qwen/Qwen3-8B", "RTX 4090", "fp8_per_token_head", True),
        ("deepseek-ai/DeepSeek-V2-Lite", "H100", "int4_per_token_head", False),
    ],
)
def test_only_triton_reads_scales_by_token_and_head(check_fit, model, gpu, dtype, runs):
    answer = check_fit(model=model, gpu=gpu, kv_cache_dtype=dtype, context_length=2048)
    assert (answer.verdict != "unsupported") == runs


def test_a_format_of_another_engine_is_unknown(check_fit):
    with pytest.raises(InvalidRequestError) as raised:
        check_fit(
            model="Qwen/Qwen3-8B", gpu="H100", engine="sglang", kv_cache_dtype="int4_per_token_head"
        )
    assert raised.value.code == "unknown-kv-cache-dtype"


def test_what_stands_in_brackets_behind_a_format_is_left_out(check_fit):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "H100"}
    noted = check_fit(**asked, kv_cache_dtype="fp8_e4m3 (fp8)")
    assert pool(noted) == pool(check_fit(**asked, kv_cache_dtype="fp8_e4m3"))


def test_a_checkpoints_cache_goes_with_its_weights(check_fit):
    """What a checkpoint says of its cache holds for its own weights, not for others' of it."""
    asked = {"gpu": "8x B200", "context_length": 8192}
    model = "nvidia/Llama-3.1-70B-Instruct-FP8"
    published = check_fit(model=model, **asked)
    assert pool(check_fit(model=model, quantization="bf16", **asked)) == 2 * pool(published)
