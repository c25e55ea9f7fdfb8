"""ZeRO, FSDP and offloading layouts that a framework runs."""

from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError, nearest

EIGHT_BIT = ("adamw_8bit", "paged_adamw_8bit", "lion_8bit")
"""Optimizers of bitsandbytes with quantized states."""


MEGATRON_OPTIMIZERS = ("adamw", "adamw_bf16", "sgd", "sgd_momentum", "muon")
"""Of Megatron-LM's --optimizer (megatron/training/arguments.py)."""


def check_optimizer(workload: TrainingWorkload) -> None:
    """Raise UnsupportedError for an optimizer that Megatron does not have."""
    if workload.framework == "megatron" and workload.optimizer not in MEGATRON_OPTIMIZERS:
        raise UnsupportedError(
            "optimizer",
            f"Megatron has no {workload.optimizer}.",
            ({"optimizer": ("adamw",)}, {"framework": ("fsdp", "deepspeed")}),
        )


def check_zero(workload: TrainingWorkload) -> None:
    """DeepSpeed's pipeline engine asserts ZeRO below 2 (deepspeed/runtime/pipe/engine.py);
    Megatron's distributed optimizer is ZeRO-1; bitsandbytes' 8-bit states cannot be cut as
    ZeRO-3 cuts them; parameters are offloaded only where they are sharded."""
    stage = workload.zero_stage
    if workload.framework == "deepspeed" and workload.pipeline_parallel > 1 and stage > 1:
        detail = f"DeepSpeed forbids ZeRO-{stage} with pipeline parallelism."
        raise UnsupportedError(
            "zero_stage", detail, ({"zero_stage": (1, 0)}, {"pipeline_parallel": (1,)})
        )
    if workload.framework == "megatron" and stage > 1:
        detail = f"Megatron's distributed optimizer is ZeRO-1; it has no stage {stage}."
        raise UnsupportedError(
            "zero_stage", detail, ({"zero_stage": (1, 0)}, {"framework": ("deepspeed", "fsdp")})
        )
    if workload.framework == "deepspeed" and stage == 3 and workload.optimizer in EIGHT_BIT:
        detail = (
            f"{workload.optimizer} does not run under ZeRO-3: its quantized states cannot be cut."
        )
        raise UnsupportedError(
            "optimizer",
            detail,
            ({"optimizer": ("adamw",), "offload": ("optimizer",)}, {"zero_stage": (2,)}),
        )
    if (
        workload.framework == "deepspeed"
        and stage < 3
        and workload.offload in ("parameters", "nvme")
    ):
        raise UnsupportedError(
            "offload",
            "Parameters are offloaded by ZeRO-3 alone.",
            ({"zero_stage": (3,)}, {"offload": ("optimizer",)}),
        )


def check_host(workload: TrainingWorkload) -> None:
    """NVMe is written by ZeRO-Infinity alone (arXiv 2104.07857; torch's CPUOffloadPolicy and
    Megatron's --optimizer-cpu-offload have host memory)."""
    if workload.offload == "nvme" and workload.framework != "deepspeed":
        raise UnsupportedError(
            "offload",
            f"Only DeepSpeed offloads to NVMe; {workload.framework} has host memory alone.",
            ({"framework": ("deepspeed",), "zero_stage": (3,)}, {"offload": ("cpu",)}),
        )


def check_replicas(workload: TrainingWorkload) -> None:
    """Raise UnsupportedError for replicas that a framework does not run."""
    degree, replicas = workload.data_parallel, workload.data_parallel_replicate
    if replicas > 1 and workload.framework != "fsdp":
        detail = f"Hybrid sharding is FSDP's; {workload.framework} has none here."
        raise UnsupportedError(
            "data_parallel_replicate",
            detail,
            ({"framework": ("fsdp",)}, {"data_parallel_replicate": (None,)}),
        )
    if degree % replicas:
        possible = [count for count in range(1, degree + 1) if degree % count == 0]
        detail = f"{replicas} replicas do not divide {degree} data-parallel ranks."
        raise UnsupportedError(
            "data_parallel_replicate",
            detail,
            ({"data_parallel_replicate": nearest(possible, replicas)},),
        )


def check_secondary_partition(workload: TrainingWorkload) -> None:
    """ZeRO++'s second copy belongs to ZeRO-3 (deepspeed/runtime/zero/config.py,
    zero_hpz_partition_size)."""
    size = workload.zero_hpz_partition_size
    if size == 1:
        return
    if workload.framework != "deepspeed" or workload.zero_stage != 3:
        detail = "zero_hpz_partition_size belongs to ZeRO-3 under DeepSpeed."
        raise UnsupportedError(
            "zero_hpz_partition_size",
            detail,
            (
                {"framework": ("deepspeed",), "zero_stage": (3,)},
                {"zero_hpz_partition_size": (None,)},
            ),
        )
    if workload.data_parallel % size:
        possible = [
            count
            for count in range(1, workload.data_parallel + 1)
            if workload.data_parallel % count == 0
        ]
        detail = (
            f"zero_hpz_partition_size {size} does not divide {workload.data_parallel} data-parallel"
            " ranks."
        )
        raise UnsupportedError(
            "zero_hpz_partition_size",
            detail,
            ({"zero_hpz_partition_size": nearest(possible, size)},),
        )
