"""Tables of n-grams, which vLLM looks up in pinned host memory (--engram-config, cpu_offload).

Source: vllm 0.30.0 envs.py (VLLM_PLE_CPU_OFFLOAD), 0.31.0 to 0.33.0 config/engram.py, where it is
the default; models/qwen4_exp/common/ngram_embedding.py, Qwen4ExpPLEPinnedHostEmbedding."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.weights import ranks_of, stages_of
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.rank_bytes import ranks, table_bytes
from fitgauge.engine.weights.sharding import ShardedWeights


def host_tables(
    spec: ModelSpec, sharded: ShardedWeights, workload: Workload, accelerator: Accelerator
) -> tuple[int, ...]:
    """Return what a rank of every pipeline stage keeps of such tables in host memory [bytes].

    Where the GPU's memory is the host's, they are counted on the GPU."""
    if accelerator.unified_memory:
        return (0,) * workload.pipeline_parallel
    return tuple(on_host(sharded, workload, stage.layers) for stage in stages_of(spec, workload))


def has_tables(sharded: ShardedWeights) -> bool:
    """Return whether a layer looks up tables of its own."""
    return sharded.once("has tables", lambda: table_bytes(sharded, ranks(sharded, 1, 1, 1)) > 0)


def on_host(sharded: ShardedWeights, workload: Workload, layers: range) -> int:
    """Return the bytes of the tables of a stage's layers on one rank; 0 for the releases that load
    them onto the GPU."""
    if workload.engine_version < releases.TABLES_ON_HOST or not has_tables(sharded):
        return 0
    return table_bytes(sharded, ranks_of(sharded, workload), layers)
