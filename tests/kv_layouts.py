"""vLLM's KV cache of one rank by its arguments alone, for tests that hold it to vLLM's own
planner."""

from typing import Any

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.vllm.kv_cache.groups import on_stage
from fitgauge.engine.serving.vllm.kv_cache.layout import (
    KvCacheConfig,
    batches_in_flight,
    model_groups,
    stage_layout,
)

NEWEST = (0, 33, 0)


def kv_layout(
    spec: ModelSpec,
    *,
    max_model_len: int,
    max_batched_tokens: int,
    max_num_seqs: int = 0,
    layers: range | None = None,
    version: tuple[int, ...] = NEWEST,
    pipeline_parallel: int = 1,
    **asked: Any,
) -> KvCacheConfig:
    """Return the stage that holds `layers`, None for all. max_num_seqs: 0 where no CUDA graphs
    are captured. The rest: see `model_groups`."""
    groups = model_groups(
        spec,
        max_model_len=max_model_len,
        max_batched_tokens=max_batched_tokens,
        version=version,
        **asked,
    )
    in_flight = batches_in_flight(pipeline_parallel, version) * max_batched_tokens
    return stage_layout(
        on_stage(groups, layers),
        max_model_len,
        in_flight,
        max_num_seqs=max_num_seqs,
        version=version,
    )


HOPPER = (9, 0)
