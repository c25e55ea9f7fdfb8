"""kv_cache_dtype turboquant_*: keys and values packed into a slot, in vLLM."""

from collections.abc import Callable

import pytest

from bundled_models import spec_of
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import clean_lines
from fitgauge.engine.serving.vllm.kv_cache.turboquant import workspace_terms
from fitgauge.services.common.fit_schemas import FitAnswer
from workloads import workload_of

Check = Callable[..., FitAnswer]

PLANNED = [
    ("Qwen/Qwen3-8B", 1, "turboquant_k8v4", 64_512),
    ("Qwen/Qwen3-8B", 1, "turboquant_k3v4_nc", 92_160),
    ("Qwen/Qwen3-32B", 2, "turboquant_4bit_nc", 106_432),
    ("Qwen/Qwen3-32B", 2, "turboquant_3bit_nc", 131_456),
    ("Qwen/Qwen3.5-27B", 1, "turboquant_k8v4", 30_161),
    ("Qwen/Qwen3.5-27B", 1, "turboquant_3bit_nc", 33_587),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2, "turboquant_k8v4", 116_549),
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 1, "turboquant_k8v4", 18_711),
    ("meta-llama/Llama-3.2-1B-Instruct", 1, "turboquant_3bit_nc", 321_088),
    ("microsoft/phi-2", 1, "turboquant_k8v4", 28_224),
    ("Qwen/Qwen2.5-VL-7B-Instruct", 1, "turboquant_3bit_nc", 238_816),
    ("zai-org/GLM-4.5-Air", 4, "turboquant_k8v4", 208_896),
]
"""(model, tensor parallel, format, tokens of a pool of 4 GiB) of vLLM 0.33's own planner; hybrids
for requests of 4,096 and 2,048 tokens."""
CONTEXTS = {
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 2048,
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": 2048,
    "microsoft/phi-2": 2048,
}


@pytest.mark.parametrize(("model", "ranks", "cache", "tokens"), PLANNED)
def test_vllm_plans_as_many_tokens(
    check_fit: Check, model: str, ranks: int, cache: str, tokens: int
) -> None:
    answer = check_fit(
        model=model, gpu="H200", gpu_count=ranks, kv_cache_dtype=cache, kv_cache_memory_gib=4,
        context_length=CONTEXTS.get(model, 4096), engine_version="0.33.0", max_num_seqs=8,
    )  # fmt: skip
    assert answer.limits is not None
    assert answer.limits.kv_cache_tokens == tokens
    assert answer.launch is not None
    assert f"--kv-cache-dtype {cache}" in answer.launch.command
    parser = ENGINES["vllm"].log_parser
    assert parser is not None
    assert parser.read(clean_lines(answer.launch.command)).flags["kv_cache_dtype"] == cache


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-oss-20b", "google/gemma-3-12b-it", "google/gemma-2-9b-it",
        "mistralai/Mistral-7B-v0.1", "deepseek-ai/DeepSeek-V2-Lite",
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    ],
)  # fmt: skip
def test_models_of_windows_latents_and_sinks_are_refused(check_fit: Check, model: str) -> None:
    """As by vLLM 0.33: no attention backend."""
    answer = check_fit(model=model, gpu="8x H200", kv_cache_dtype="turboquant_k8v4")
    assert answer.verdict == "unsupported"


@pytest.mark.parametrize(
    "fields",
    [
        {"engine_version": "0.19.0"},
        {"gpu": "2x H100", "pipeline_parallel": 2},
        {"model": "Qwen/Qwen3.5-27B", "engine_version": "0.32.0"},
    ],
)
def test_what_is_not_counted_is_said(check_fit: Check, fields: dict[str, str | int]) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "kv_cache_dtype": "turboquant_4bit_nc"}
    assert check_fit(**asked).verdict == "fits"
    assert check_fit(**asked | fields).verdict == "unsupported"


def test_a_hybrid_is_planned_over_pipeline_stages(check_fit: Check) -> None:
    """60,695 tokens of two pools of 4 GiB, of vLLM 0.33's own planner."""
    answer = check_fit(
        model="Qwen/Qwen3.5-27B", gpu="2x H100", pipeline_parallel=2, context_length=4096,
        kv_cache_dtype="turboquant_k8v4", kv_cache_memory_gib=4, engine_version="0.33.0",
        max_num_seqs=8,
    )  # fmt: skip
    assert answer.limits is not None
    assert answer.limits.kv_cache_tokens == 60_695


def test_what_is_unpacked_of_a_long_prompt_lies_beyond_the_budget() -> None:
    """128 Ki tokens of 8 KV heads of 128, keys and values in 16 bit: 0.5 GiB, joined once more; and
    256 requests of 32 heads, 32 splits each, where prompts are short."""

    def size(context_length: int, max_num_seqs: int) -> int:
        workload = workload_of(
            context_length=context_length,
            kv_cache_dtype="turboquant_3bit_nc",
            tensor_parallel=1,
            max_num_seqs=max_num_seqs,
        )
        return sum(term.bytes for term in workspace_terms(spec_of("Qwen/Qwen3-8B"), workload, 0))

    assert size(131_072, 1) == 2 * 2**29
    assert size(4096, 256) == 256 * 32 * (32 * 129 * 4 + 128 * 2 + 4)
