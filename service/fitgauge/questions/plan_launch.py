"""How to start a plan: the command, and the configuration files that carry what a command line cannot."""

import msgspec

from fitgauge.engine.architecture import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.training.zero import BUCKET_ELEMENTS, LIVE_ELEMENTS, PREFETCH_ELEMENTS
from fitgauge.questions.plan_schemas import PlanLaunch
from fitgauge.questions.training_launch import launch_command

_DEEPSPEED, _ACCELERATE = "ds_config.json", "fsdp.yaml"


def plan_launch(model: Model, workload: TrainingWorkload) -> PlanLaunch:
    """The launch of check_training_fit; under DeepSpeed and FSDP the settings stand in a file that `accelerate launch` reads."""
    command = launch_command(model, workload)
    if workload.framework == "deepspeed":
        text = msgspec.json.format(msgspec.json.encode(deepspeed_config(workload)), indent=2).decode()
        return PlanLaunch(command=_with_file(command, f"--use_deepspeed --deepspeed_config_file {_DEEPSPEED}"), files={_DEEPSPEED: text})
    if workload.framework == "fsdp":
        return PlanLaunch(command=_with_file(command, f"--config_file {_ACCELERATE}"), files={_ACCELERATE: accelerate_config(workload)})
    return PlanLaunch(command=command, files={})


def _with_file(command: str, flags: str) -> str:
    """`accelerate launch` with a file in the place of its own flags; the script's flags stay."""
    launcher, _, script = command.partition(" -m ")
    count = launcher.split("--num_processes ")[1].split(" ")[0]
    return f"accelerate launch --num_processes {count} {flags} -m {script}"


def deepspeed_config(workload: TrainingWorkload) -> dict[str, object]:
    """DeepSpeed's JSON: batch sizes, precision, ZeRO with the buckets that were counted, offload. See its docs, "Configuration JSON"."""
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
    if workload.offload != "none" and workload.zero_stage:
        device = "nvme" if workload.offload == "nvme" else "cpu"
        zero["offload_optimizer"] = {"device": device, "pin_memory": True}
        if workload.offload in ("parameters", "cpu", "nvme") and workload.zero_stage == 3:
            zero["offload_param"] = {"device": device, "pin_memory": True}
    return {
        "train_batch_size": workload.micro_batch_size * workload.micro_batches * workload.data_parallel,
        "train_micro_batch_size_per_gpu": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        half: {"enabled": workload.precision != "fp32"},
        "zero_optimization": zero,
    }


def accelerate_config(workload: TrainingWorkload) -> str:
    """Accelerate's YAML for FSDP2. See its docs, "Fully Sharded Data Parallel"."""
    lines = [
        "distributed_type: FSDP",
        f"num_processes: {workload.gpus}",
        f"mixed_precision: {'fp16' if workload.precision == 'mixed_fp16' else 'bf16' if workload.precision == 'mixed_bf16' else 'no'}",
        "fsdp_config:",
        "  fsdp_version: 2",
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        f"  fsdp_reshard_after_forward: {str(workload.zero_stage == 3).lower()}",
        f"  fsdp_offload_params: {str(workload.offload in ('parameters', 'cpu')).lower()}",
        f"  fsdp_activation_checkpointing: {str(workload.activation_checkpointing == 'full').lower()}",
    ]
    return "\n".join(lines) + "\n"
