"""DeepSpeed's configuration file, with the settings that no command line has flags for."""

import msgspec

from fitgauge.engine.training.parallel.zero import BUCKET_ELEMENTS, LIVE_ELEMENTS, PREFETCH_ELEMENTS
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.launchers.common import sequences_per_step

DEEPSPEED = "ds_config.json"


def deepspeed_config(workload: TrainingWorkload, indent: int = -1) -> str:
    """Return DeepSpeed's JSON: batch sizes, precision, optimizer, ZeRO with the buckets of the
    estimate, offload. Source: its docs, "Configuration JSON".

    AdamW is in it, since DeepSpeed then takes its own, fused or on the host (CPUAdam), unless
    transformers' Trainer is to make it; transformers fills in "auto". `indent`: -1 for one line.
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
        "train_batch_size": sequences_per_step(workload),
        "train_micro_batch_size_per_gpu": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        half: {"enabled": workload.precision != "fp32"},
        "zero_optimization": zero,
    }
    if workload.optimizer != "adamw" and workload.zero_stage:
        # an optimizer that is not DeepSpeed's own (deepspeed/runtime/engine.py)
        config["zero_allow_untested_optimizer"] = True
        config |= {"zero_force_ds_cpu_optimizer": False} if workload.offload != "none" else {}
    if workload.gradient_dtype is not None:
        config["data_types"] = {"grad_accum_dtype": workload.gradient_dtype}
    own = workload.offload != "none" or workload.optimizer_implementation == "fused"
    if workload.optimizer == "adamw" and own:
        config["optimizer"] = {
            "type": "AdamW",
            "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
        }
    return msgspec.json.format(msgspec.json.encode(config), indent=indent).decode()
