"""Tables of n-grams, which SGLang gathers from pinned host memory (--ple-offload-embedding).

Source: sglang 0.5.23, srt/arg_groups/model_overrides/qwen4_exp.py (the default under CUDA for a
model in bfloat16); srt/models/qwen4_exp_ple_table.py; srt/arg_groups/memory_hook.py,
handle_offload_compatibility."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.runtime import elsewhere
from fitgauge.engine.serving.weights import layer_tables, stages_of
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.sharding import ShardedWeights

_SINCE = (0, 5, 23)
"""The release that was read; earlier ones are taken to load them onto the GPU."""


def host_tables(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[int, ...]:
    """Return what a rank of every pipeline stage keeps of such tables in host memory [bytes]; where
    that is the GPU's memory too, they are counted on the GPU."""
    offloads = workload.engine_version >= _SINCE and spec.dtype == "BF16"
    if not offloads or accelerator.unified_memory or elsewhere(accelerator.vendor):
        return (0,) * workload.pipeline_parallel
    return tuple(
        layer_tables(sharded, workload, stage.layers) for stage in stages_of(spec, workload)
    )


def check_offload(workload: Workload, tables: tuple[int, ...]) -> None:
    """Raise UnsupportedError where layers are offloaded too, which SGLang refuses."""
    if workload.cpu_offload_bytes and any(tables):
        raise UnsupportedError(
            "cpu_offload_gib",
            "SGLang offloads this model's tables of n-grams, and layers not with them.",
            ({"cpu_offload_gib": (0,)},),
        )
