"""Serving with TensorRT-LLM: the KV cache is a fraction of what is free once weights are loaded and
a largest batch has been run.

Source: tensorrt_llm/_torch/pyexecutor/_util.py, KvCacheCreator._cal_max_memory: available =
(total - peak) x free_gpu_memory_fraction; whole blocks of tokens_per_block (32). Documentation:
reference/memory. Windows are kept whole unless max_attention_window is set by hand."""

from collections.abc import Sequence

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exact_term, exactly
from fitgauge.engine.serving.estimate import Estimate, StageMemory
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.warmup import (
    loaded_stages,
    warmed_estimate,
    warmed_stages,
    with_reserve,
)
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights

TOKENS_PER_BLOCK = 32
MAX_BATCH_SIZE, MAX_NUM_TOKENS = 2048, 8192
"""Defaults of trtllm-serve. Source: tensorrt_llm/llmapi/llm_args.py, BuildConfig."""


def default_batch(
    accelerator: Accelerator, context_length: int, version: tuple[int, ...], spec: ModelSpec
) -> tuple[int, int]:
    """Return (max_batch_size, max_num_tokens), the same on every GPU."""
    return MAX_BATCH_SIZE, MAX_NUM_TOKENS


def estimate(
    spec: ModelSpec,
    sharded: ShardedWeights,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
) -> Estimate:
    """Return the Estimate of every pipeline stage."""
    loaded = loaded_stages(spec, sharded, workload, accelerator)
    other_memory = for_accelerator(
        loaded, stage_memory(spec, workload, accelerator, profile, Memo()), workload, accelerator
    )
    return warmed_estimate(accelerator, workload, loaded, other_memory)


def stage_memory(
    spec: ModelSpec,
    workload: Workload,
    accelerator: Accelerator,
    profile: EngineProfile,
    memo: MixedMemo,
) -> tuple[StageMemory, ...]:
    """Return what every stage holds in addition to its weights, whatever the GPU."""
    return warmed_stages(spec, workload, profile, block=TOKENS_PER_BLOCK)


def for_accelerator(
    loaded: Sequence[tuple[Term, ...]],
    other_memory: Sequence[StageMemory],
    workload: Workload,
    accelerator: Accelerator,
) -> tuple[StageMemory, ...]:
    """Return the same on this GPU, by its memory: with what is held back of it."""
    return with_reserve(loaded, other_memory, workload, accelerator, left_free)


def left_free(taken: int, usable: int, workload: Workload) -> Term:
    """Return the term `reserve`: (1 - free_gpu_memory_fraction) of what is free [bytes]."""
    free = max(0, usable - taken)
    formula = (
        f"(1 - {workload.gpu_memory_utilization:g}) x {exactly(free)}; of what is free,"
        " 1 - free_gpu_memory_fraction"
    )
    size = int(free * (1 - workload.gpu_memory_utilization))
    return exact_term(
        "reserve",
        size,
        "computed",
        formula,
        "tensorrt_llm 1.2 tensorrt_llm/_torch/pyexecutor/_util.py, _cal_max_memory",
    )
