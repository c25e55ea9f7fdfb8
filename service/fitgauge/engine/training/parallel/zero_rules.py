"""ZeRO, FSDP and offloading layouts that a framework runs."""

from fitgauge.engine.training.parallel.pipeline_rules import listed
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError

EIGHT_BIT = ("adamw_8bit", "paged_adamw_8bit", "lion_8bit")
"""Optimizers of bitsandbytes with quantized states."""


def check_zero(workload: TrainingWorkload) -> None:
    """DeepSpeed's pipeline engine asserts ZeRO below 2 (deepspeed/runtime/pipe/engine.py);
    Megatron's distributed optimizer is ZeRO-1; bitsandbytes' 8-bit states cannot be cut as
    ZeRO-3 cuts them; parameters are offloaded only where they are sharded."""
    stage = workload.zero_stage
    if workload.framework == "deepspeed" and workload.pipeline_parallel > 1 and stage > 1:
        detail = f"DeepSpeed forbids ZeRO-{stage} with pipeline parallelism."
        raise InvalidRequestError(
            detail,
            hint="Send zero_stage 0 or 1, or pipeline_parallel 1.",
            field="zero_stage",
            code="unsupported",
        )
    if workload.framework == "megatron" and stage > 1:
        detail = f"Megatron's distributed optimizer is ZeRO-1; it has no stage {stage}."
        raise InvalidRequestError(
            detail,
            hint="Send zero_stage 0 or 1, or framework deepspeed or fsdp.",
            field="zero_stage",
            code="unsupported",
        )
    if workload.framework == "deepspeed" and stage == 3 and workload.optimizer in EIGHT_BIT:
        detail = (
            f"{workload.optimizer} does not run under ZeRO-3: its quantized states cannot be cut."
        )
        raise InvalidRequestError(
            detail,
            hint="Send optimizer adamw with offload optimizer, or zero_stage 2.",
            field="optimizer",
            code="unsupported",
        )
    if (
        workload.framework == "deepspeed"
        and stage < 3
        and workload.offload in ("parameters", "nvme")
    ):
        raise InvalidRequestError(
            "Parameters are offloaded by ZeRO-3 alone.",
            hint="Send zero_stage 3, or offload optimizer.",
            field="offload",
            code="unsupported",
        )


def check_replicas(workload: TrainingWorkload) -> None:
    """Raise InvalidRequestError for replicas that a framework does not run."""
    degree, replicas = workload.data_parallel, workload.data_parallel_replicate
    if degree % replicas:
        possible = [count for count in range(1, degree + 1) if degree % count == 0]
        detail = f"{replicas} replicas do not divide {degree} data-parallel ranks."
        raise InvalidRequestError(
            detail,
            hint=f"Send data_parallel_replicate {listed(possible)}.",
            field="data_parallel_replicate",
            code="impossible-degrees",
        )
    if replicas > 1 and workload.framework != "fsdp":
        detail = f"Hybrid sharding is FSDP's; {workload.framework} has none here."
        raise InvalidRequestError(
            detail,
            hint="Send framework fsdp, or leave data_parallel_replicate out.",
            field="data_parallel_replicate",
            code="impossible-degrees",
        )


def check_secondary_partition(workload: TrainingWorkload) -> None:
    """ZeRO++'s second copy belongs to ZeRO-3 (deepspeed/runtime/zero/config.py,
    zero_hpz_partition_size)."""
    size = workload.zero_hpz_partition_size
    if size == 1:
        return
    if workload.framework != "deepspeed" or workload.zero_stage != 3:
        detail = "zero_hpz_partition_size belongs to ZeRO-3 under DeepSpeed."
        raise InvalidRequestError(
            detail,
            hint="Send framework deepspeed and zero_stage 3, or leave it out.",
            field="zero_hpz_partition_size",
            code="impossible-degrees",
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
        raise InvalidRequestError(
            detail,
            hint=f"Send {listed(possible)}.",
            field="zero_hpz_partition_size",
            code="impossible-degrees",
        )
