"""Configuration files that carry the settings of a training run a command line has no flags for."""

import msgspec

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.training.parallel.zero import BUCKET_ELEMENTS, LIVE_ELEMENTS, PREFETCH_ELEMENTS
from fitgauge.engine.training.workload import TrainingWorkload

DEEPSPEED = "ds_config.json"
FSDP = "fsdp.yaml"


def deepspeed_config(workload: TrainingWorkload, indent: int = -1) -> str:
    """DeepSpeed's JSON: batch sizes, precision, optimizer, ZeRO with the buckets that were counted,
    offload. See its docs, "Configuration JSON". AdamW stands in it, as DeepSpeed takes its own on
    the host then (CPUAdam); "auto" is filled in by transformers.

    `indent`: -1 for one line.
    """
    half = {"mixed_fp16": "fp16"}.get(workload.precision, "bf16")
    zero: dict[str, object] = {"stage": workload.zero_stage}
    if workload.zero_stage:
        zero |= {
            "reduce_bucket_size": BUCKET_ELEMENTS,
            "allgather_bucket_size": BUCKET_ELEMENTS,
            "contiguous_gradients": True,
        }
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
        if device == "nvme":
            for name in ("offload_optimizer", "offload_param"):
                if name in zero:
                    zero[name] = {"device": device, "nvme_path": "/nvme", "pin_memory": True}
    config: dict[str, object] = {
        "train_batch_size": (
            workload.micro_batch_size * workload.micro_batches * workload.data_parallel
        ),
        "train_micro_batch_size_per_gpu": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        half: {"enabled": workload.precision != "fp32"},
        "zero_optimization": zero,
    }
    if (
        workload.optimizer != "adamw" and workload.zero_stage
    ):  # an optimizer that is not DeepSpeed's own (deepspeed/runtime/engine.py)
        config["zero_allow_untested_optimizer"] = True
        config |= {"zero_force_ds_cpu_optimizer": False} if workload.offload != "none" else {}
    if workload.gradient_dtype is not None:
        config["data_types"] = {"grad_accum_dtype": workload.gradient_dtype}
    if workload.optimizer == "adamw":
        config["optimizer"] = {
            "type": "AdamW",
            "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
        }
    return msgspec.json.format(msgspec.json.encode(config), indent=indent).decode()


def accelerate_config(workload: TrainingWorkload) -> str:
    """Accelerate's YAML for FSDP. Checkpointing stands in it, and not among the script's flags:
    the Trainer refuses both. See its docs, "Fully Sharded Data Parallel"."""
    precision = {"mixed_fp16": "fp16", "mixed_bf16": "bf16", "fp8": "fp8"}.get(
        workload.precision, "no"
    )
    lines = [
        "distributed_type: FSDP",
        f"num_processes: {workload.gpus}",
        f"num_machines: {-(-workload.gpus // USUAL_NODE)}",
    ]
    lines.append(f"mixed_precision: {precision}")
    if precision == "fp8":
        lines += ["fp8_config:", "  backend: TE", "  fp8_format: HYBRID"]
    lines += [
        "fsdp_config:",
        f"  fsdp_version: {workload.fsdp_version}",
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
    ]
    if workload.fsdp_version == 2:
        lines.append(f"  fsdp_reshard_after_forward: {_said(workload.zero_stage == 3)}")
    else:
        lines.append(
            "  fsdp_sharding_strategy:"
            f" {'FULL_SHARD' if workload.zero_stage == 3 else 'SHARD_GRAD_OP'}"
        )
    lines.append(f"  fsdp_offload_params: {_said(workload.offload != 'none')}")
    lines.append(
        f"  fsdp_activation_checkpointing: {_said(workload.activation_checkpointing == 'full')}"
    )
    if workload.data_parallel_replicate * workload.tensor_parallel * workload.context_parallel > 1:
        lines += [
            "parallelism_config:",
            f"  parallelism_config_dp_replicate_size: {workload.data_parallel_replicate}",
            (
                "  parallelism_config_dp_shard_size:"
                f" {workload.data_parallel // workload.data_parallel_replicate}"
            ),
            f"  parallelism_config_tp_size: {workload.tensor_parallel}",
            f"  parallelism_config_cp_size: {workload.context_parallel}",
        ]
    return "\n".join(lines) + "\n"


def _said(value: bool) -> str:
    return str(value).lower()
