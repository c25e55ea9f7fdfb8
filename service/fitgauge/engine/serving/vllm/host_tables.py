"""Tables of n-grams, which vLLM looks up in pinned host memory (--engram-config, cpu_offload).

Source: vllm 0.30.0 envs.py (VLLM_PLE_CPU_OFFLOAD), 0.31.0 to 0.33.0 config/engram.py, where it is
the default; models/qwen4_exp/common/ngram_embedding.py, Qwen4ExpPLEPinnedHostEmbedding."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.weights import layer_tables, stages_of
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights


def host_tables(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[int, ...]:
    """Return what a rank of every pipeline stage keeps of such tables in host memory [bytes]."""
    return tuple(
        on_host(sharded, workload, accelerator, stage.layers) for stage in stages_of(spec, workload)
    )


def on_host(
    sharded: ShardedWeights, workload: Workload, accelerator: Accelerator, layers: range
) -> int:
    """Return the same of the layers of a stage; 0 for the releases that load them onto the GPU, and
    where its memory is the host's too, which counts them there."""
    if accelerator.unified_memory or workload.engine_version < releases.TABLES_ON_HOST:
        return 0
    return layer_tables(sharded, workload, layers)
