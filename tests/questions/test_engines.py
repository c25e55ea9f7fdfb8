"""What every engine's answer must hold to, asked as callers ask."""

from collections.abc import Callable
from typing import Any, get_args

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.engine.workload import EngineName
from fitgauge.errors import InvalidQuestion
from fitgauge.questions.schemas import FitAnswer

Check = Callable[..., FitAnswer]
CARDS = {"mlx": ("M2 16GB", "M2 Max 64GB"), "llama.cpp": ("RTX 4060 Ti 16GB", "RTX 5090")}


@pytest.mark.parametrize("engine", get_args(EngineName))
def test_terms_add_up_and_a_larger_card_holds_no_less(check_fit: Check, engine: EngineName) -> None:
    small, large = CARDS.get(engine, ("RTX 4090", "H100 80GB"))
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-8B", "engine": engine, "context_length": 4096, "detail": "full"}
    if engine in ("llama.cpp", "ollama"):
        asked["quantization"] = "q4_k_m"
    answers = [check_fit(gpu=card, **asked) for card in (small, large)]
    for answer in answers:
        assert answer.verdict in ("fits", "tight", "does_not_fit")
        assert sum(term.bytes for term in answer.terms) == pytest.approx(answer.per_gpu.required_bytes.expected, abs=2)
        assert all(term.low <= term.bytes <= term.high and term.formula and term.source for term in answer.terms)
    assert answers[0].limits.kv_cache_tokens <= answers[1].limits.kv_cache_tokens  # type: ignore[operator]
    assert answers[0].launch.command


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "tgi"])
def test_a_pool_given_outright_decides_alone(check_fit: Check, engine: str) -> None:
    """10 GiB of Qwen3-8B's cache at 147456 bytes a token."""
    answer = check_fit(model="Qwen/Qwen3-8B", gpu="H100 80GB", engine=engine, context_length=4096, kv_cache_memory_gib=10.0)
    assert answer.limits.kv_cache_tokens == pytest.approx(10 * GIB / 147_456, abs=32)


def test_mlx_sizes_a_4_bit_model_as_it_was_posted(check_fit: Check) -> None:
    """Qwen3-4B 4-bit, 2048 + 128 tokens on an M3 Pro: peak 3.30 x 10^9 bytes."""
    answer = check_fit(model="Qwen/Qwen3-4B-Instruct-2507", gpu="M3 Pro 18GB", engine="mlx", quantization="int4", context_length=2176)
    required = answer.per_gpu.required_bytes
    assert required.low <= 3.30e9 <= required.high
    assert required.expected == pytest.approx(3.30e9, rel=0.06)


def test_host_memory_takes_what_does_not_fit(check_fit: Check) -> None:
    """A 30B mixture in 4 bit on a 12 GB card: not whole, but with the experts of its first layers on the host."""
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "RTX 3060 12GB", "engine": "llama.cpp", "quantization": "q4_k_m", "context_length": 8192}
    assert check_fit(**asked).verdict == "does_not_fit"
    assert check_fit(**asked, cpu_offload_gib=9.0).verdict == "fits"


def test_what_does_not_fit_whole_is_offered_with_weights_on_the_host(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "RTX 3060 12GB", "engine": "llama.cpp", "quantization": "q4_k_m", "context_length": 8192}
    offered = [suggestion.request for suggestion in check_fit(**asked).suggestions if "cpu_offload_gib" in suggestion.request]
    assert offered
    assert "-ngl" not in check_fit(**asked, **offered[0]).launch.command
    assert "-ngl all" in check_fit(**asked).launch.command


@pytest.mark.parametrize(
    ("engine", "fields", "flags"),
    [
        ("sglang", {"gpu_memory_utilization": 0.8, "max_batched_tokens": 4096}, "--mem-fraction-static 0.8 --chunked-prefill-size 4096"),
        ("tensorrt-llm", {"gpu_memory_utilization": 0.8}, "--kv_cache_free_gpu_memory_fraction 0.8"),
        ("llama.cpp", {"quantization": "q4_k_m", "kv_cache_dtype": "q8_0"}, "--cache-type-k q8_0 --cache-type-v q8_0"),
        ("ollama", {"quantization": "q4_k_m", "kv_cache_dtype": "q8_0"}, "OLLAMA_KV_CACHE_TYPE=q8_0"),
        ("tgi", {"gpu_memory_utilization": 0.8}, "--cuda-memory-fraction 0.8"),
    ],
)
def test_commands_carry_the_settings(check_fit: Check, engine: str, fields: dict[str, Any], flags: str) -> None:
    assert flags in check_fit(model="Qwen/Qwen3-8B", gpu="H100 80GB", engine=engine, **fields).launch.command


@pytest.mark.parametrize(
    ("written", "engine"),
    [
        ("TensorRT LLM", "tensorrt-llm"),
        ("trtllm", "tensorrt-llm"),
        ("llama-server", "llama.cpp"),
        ("LLaMA.cpp", "llama.cpp"),
        ("mlx-lm", "mlx"),
    ],
)
def test_engines_are_understood_as_people_write_them(check_fit: Check, written: str, engine: str) -> None:
    answer = check_fit(model="Qwen/Qwen3-0.6B", gpu="24GB", engine=written)
    assert answer.understood_as["engine"] == engine


def test_a_cache_format_of_another_engine_is_refused_with_those_that_exist(check_fit: Check) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        check_fit(model="Qwen/Qwen3-0.6B", gpu="24GB", engine="llama.cpp", kv_cache_dtype="fp8")
    assert "q8_0" in refused.value.hint
