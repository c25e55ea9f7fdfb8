"""What a stage of vLLM holds follows from its question, whatever is remembered of others."""

from typing import Any

import pytest
from msgspec import structs

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.serving.vllm.stage_memory import context_read, stage_memory
from workloads import workload_of

MODELS = [
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3.5-27B",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Pro",
    "google/gemma-3-27b-it",
]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("version", [(0, 8), (0, 19), (0, 33)])
def test_stages_hold_the_same_whatever_other_settings_were_estimated_before(
    name: str, version: tuple[int, int]
) -> None:
    spec, profile = spec_of(name), load_engines().profile("vllm", version)
    known: MixedMemo = Memo(1000)
    one = workload_of(version=version, tensor_parallel=2)
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"context_length": 40_000},
        {"context_length": 100_000, "concurrency": 7},
        {"enforce_eager": True},
        {"kv_cache_dtype": "bf16"},
        {"data_parallel": 2},
        {"expert_parallel": 2},
        {"pipeline_parallel": 2},
        {"pipeline_parallel": 4, "enforce_eager": True},
        {"max_num_seqs": 8},
        {"max_batched_tokens": 2048},
        {"gpu_memory_utilization": 0.5, "cpu_offload_bytes": 2**30},
        {"kv_cache_memory_bytes": 2**30},
        {"other_memory_bytes": 2**30, "float32": True},
        {"tensor_parallel": 1},
        {"tensor_parallel": 1, "pipeline_parallel": 5},
        {"pipeline_parallel": 3},
    )
    for gpu in ("H100", "RTX 4090", "T4", "MI300X"):
        accelerator = bundled().find(gpu).accelerator
        for change in changes:
            asked = structs.replace(one, **change)
            after, afresh = (
                stage_memory(spec, asked, accelerator, profile, memory)
                for memory in (known, Memo())
            )
            assert after == afresh, (gpu, change)


@pytest.mark.parametrize("name", [*MODELS, "state-spaces/mamba-2.8b-hf", "openai/whisper-large-v3"])
@pytest.mark.parametrize("version", [(0, 8), (0, 19), (0, 33)])
def test_stages_hold_the_same_for_all_contexts_that_are_read_alike(
    name: str, version: tuple[int, int]
) -> None:
    """The longest request aside, which layouts log."""
    spec, profile = spec_of(name), load_engines().profile("vllm", version)
    first: dict[Any, Any] = {}
    contexts = (100, 2000, 8000, 8001, 17_000, 40_000, 40_001, 100_000)
    for gpu in ("H100", "T4"):
        accelerator = bundled().find(gpu).accelerator
        for context in contexts:
            asked = workload_of(version=version, context_length=context, pipeline_parallel=2)
            stages = [
                (stage.layers, stage.fixed, stage.cache, stage.layout.with_longest(1))
                for stage in stage_memory(spec, asked, accelerator, profile, Memo())
            ]
            read = gpu, context_read(spec, asked, accelerator)
            assert first.setdefault(read, stages) == stages, (gpu, context)
