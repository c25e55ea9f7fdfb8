"""Configuration files that carry the settings of a training run a command line has no flags for."""

import msgspec

from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.training.zero import BUCKET_ELEMENTS, LIVE_ELEMENTS, PREFETCH_ELEMENTS


def deepspeed_config(workload: TrainingWorkload, indent: int = -1) -> str:
    """DeepSpeed's JSON: batch sizes, precision, ZeRO with the buckets that were counted, offload. See its docs, "Configuration JSON".

    `indent`: -1 for one line.
    """
    half = {"mixed_fp16": "fp16"}.get(workload.precision, "bf16")
    zero: dict[str, object] = {"stage": workload.zero_stage}
    if workload.zero_stage:
        zero |= {"reduce_bucket_size": BUCKET_ELEMENTS, "allgather_bucket_size": BUCKET_ELEMENTS, "contiguous_gradients": True}
    if workload.zero_stage == 3:
        zero |= {
            "overlap_comm": True,
            "stage3_prefetch_bucket_size": PREFETCH_ELEMENTS,
            "stage3_max_live_parameters": LIVE_ELEMENTS,
            "stage3_max_reuse_distance": LIVE_ELEMENTS,
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    if workload.zero_hpz_partition_size > 1:
        zero["zero_hpz_partition_size"] = workload.zero_hpz_partition_size
    if workload.offload != "none" and workload.zero_stage:
        device = "nvme" if workload.offload == "nvme" else "cpu"
        zero["offload_optimizer"] = {"device": device, "pin_memory": True}
        if workload.offload in ("parameters", "cpu", "nvme") and workload.zero_stage == 3:
            zero["offload_param"] = {"device": device, "pin_memory": True}
    config = {
        "train_batch_size": workload.micro_batch_size * workload.micro_batches * workload.data_parallel,
        "train_micro_batch_size_per_gpu": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        half: {"enabled": workload.precision != "fp32"},
        "zero_optimization": zero,
    }
    return msgspec.json.format(msgspec.json.encode(config), indent=indent).decode()


def accelerate_config(workload: TrainingWorkload) -> str:
    """Accelerate's YAML for FSDP. See its docs, "Fully Sharded Data Parallel"."""
    lines = [
        "distributed_type: FSDP",
        f"num_processes: {workload.gpus}",
        f"mixed_precision: {'fp16' if workload.precision == 'mixed_fp16' else 'bf16' if workload.precision == 'mixed_bf16' else 'no'}",
        "fsdp_config:",
        f"  fsdp_version: {workload.fsdp_version}",
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        f"  fsdp_reshard_after_forward: {reshard_after_forward(workload)}",
        f"  fsdp_offload_params: {str(workload.offload in ('parameters', 'cpu')).lower()}",
        f"  fsdp_activation_checkpointing: {str(workload.activation_checkpointing == 'full').lower()}",
    ]
    return "\n".join(lines) + "\n"


def reshard_after_forward(workload: TrainingWorkload) -> str:
    """Accelerate's word for freeing gathered parameters after the forward pass or not: a strategy in FSDP1, a truth value in FSDP2."""
    if workload.fsdp_version == 1:
        return "FULL_SHARD" if workload.zero_stage == 3 else "SHARD_GRAD_OP"
    return str(workload.zero_stage == 3).lower()
