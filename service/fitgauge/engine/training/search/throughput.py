"""How fast a layout trains, in the speed of one GPU that computes nothing twice and never waits."""

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.flops import TokenFlops, token_flops
from fitgauge.engine.training.parallel.pipeline import bubble_share, imbalance
from fitgauge.engine.training.workload import TrainingWorkload

A100_FLOPS_PER_BYTE = 312e12 / 300e9
"""What an A100 SXM computes in bf16 while NVLink moves one byte. Source: NVIDIA A100 data sheet."""


def throughput(
    spec: ModelSpec, workload: TrainingWorkload, flops_per_byte: float = A100_FLOPS_PER_BYTE
) -> float:
    """Return GPUs, less what is computed twice, what tensor parallelism exchanges and what waits
    in a pipeline.

    Every token costs a layer 8 (t - 1) / t x hidden numbers of 16 bit on the link, which nothing
    overlaps (arXiv 2104.04473, section 3.2); `flops_per_byte`: what a GPU computes at its peak
    while its link moves one byte. What data and context parallelism exchange overlaps with
    computation where the micro-batch is large enough, and is left out.
    """
    return throughput_at(spec, workload, flops_of(spec, workload), flops_per_byte)


def flops_of(spec: ModelSpec, workload: TrainingWorkload) -> TokenFlops:
    """Return the FLOPs of a token under a layout's checkpointing."""
    return token_flops(
        spec,
        workload.sequence_length,
        checkpointing=workload.activation_checkpointing,
        frozen_base=workload.uses_adapters,
    )


def throughput_at(
    spec: ModelSpec, workload: TrainingWorkload, flops: TokenFlops, flops_per_byte: float
) -> float:
    """Return `throughput` where the FLOPs of a token are known already."""
    ways = workload.tensor_parallel
    moved = 2 * 8 * (ways - 1) / ways * spec.layers * spec.hidden_size
    waiting = bubble_share(
        workload.pipeline_schedule,
        workload.pipeline_parallel,
        workload.micro_batches,
        workload.pipeline_chunks,
    )
    return (
        workload.gpus
        * flops.model
        / (flops.hardware + ways * moved * flops_per_byte)
        / ((1 + waiting) * imbalance(max(1, spec.layers), workload))
    )
