"""Caches and counts of GPUs that llama.cpp refuses."""

import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.serving.registry import ENGINES
from workloads import workload_of


@pytest.mark.parametrize(
    ("model", "cache", "refused"),
    [
        ("microsoft/phi-2", "Q8_0", True),
        ("microsoft/phi-2", "F16", False),
        ("microsoft/phi-2", "auto", False),
        ("Qwen/Qwen3-8B", "Q8_0", False),
        ("deepseek-ai/DeepSeek-V3", "Q4_0", False),
    ],
)
def test_blocks_of_a_cache_divide_a_head(model: str, cache: str, *, refused: bool) -> None:
    workload = workload_of(
        "llama.cpp",
        (1,),
        context_length=2048,
        kv_cache_dtype=cache,
        max_num_seqs=4,
        max_batched_tokens=512,
    )
    reason = ENGINES["llama.cpp"].refusal(
        spec_of(model), workload, bundled().find("RTX 4090").accelerator
    )
    assert (reason is not None) == refused
