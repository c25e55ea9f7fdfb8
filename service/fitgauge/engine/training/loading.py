"""What lies on a GPU before training starts, where that is more than a step takes."""

from collections.abc import Callable

from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.requested import BITSANDBYTES
from fitgauge.engine.training.amounts import Phase, in_words, phase
from fitgauge.engine.training.states.parameters import base_scheme
from fitgauge.engine.training.states.sharding import RankStates, is_sharded
from fitgauge.engine.training.workload import TrainingWorkload


def loading(
    spec: ModelSpec,
    workload: TrainingWorkload,
    rank: RankStates,
    states_of: Callable[[TrainingWorkload], RankStates],
) -> tuple[Phase, ...]:
    """Return the moment before a quantized base is sharded, where it lies whole on every GPU.
    `rank`: this rank's states, `states_of`: those of its stage under another workload.

    FSDP2 makes all shards before the first whole matrix goes, since accelerate holds the state
    dictionary until it returns (accelerate 1.15, utils/fsdp_utils.py, fsdp2_prepare_model: the
    "VRAM spike"); FSDP1 and ZeRO-3 divide layer by layer."""
    if not loads_whole(spec, workload):
        return ()
    whole = states_of(
        replace(
            workload,
            framework="transformers",
            zero_stage=0,
            data_parallel=1,
            data_parallel_replicate=1,
            context_parallel=1,
            offload="none",
        )
    )
    shards = rank.weights if workload.framework == "fsdp" and workload.fsdp_version == 2 else 0
    size = whole.weights + shards
    words = f"the base whole, {whole.weights:,} B, before it is sharded"
    if shards:
        words += f", and this rank's shards, {shards:,} B"
    return (phase("loading", [in_words("weights", size, words)]),)


def loads_whole(spec: ModelSpec, workload: TrainingWorkload) -> bool:
    """Return whether the base is one of bitsandbytes' that is sharded once it lies on the GPU."""
    ranks = workload.data_parallel * workload.context_parallel
    scheme = base_scheme(spec, workload)
    return (
        workload.loads_whole
        and ranks > 1
        and is_sharded("weights", workload)
        and scheme is not None
        and scheme.name in BITSANDBYTES
    )
