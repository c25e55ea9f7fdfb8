"""How to start the training that was estimated: a command with its settings."""

import shlex

from fitgauge.engine.architecture import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.questions.launch_files import deepspeed_config, reshard_after_forward

_TRL_OPTIMIZERS = {
    "adamw": "adamw_torch", "adamw_8bit": "adamw_bnb_8bit", "paged_adamw": "paged_adamw_32bit", "paged_adamw_8bit": "paged_adamw_8bit",
    "adafactor": "adafactor", "lion": "lion_32bit", "lion_8bit": "lion_8bit", "sgd": "sgd", "galore_adamw": "galore_adamw", "lomo": "lomo",
}  # fmt: skip


def launch_command(model: Model, workload: TrainingWorkload, setup: Setup | None = None) -> str:
    """The command line: Megatron's pretrain_gpt.py under torchrun, else TRL's sft under accelerate."""
    flags = _megatron(workload) if workload.framework == "megatron" else _trl(model, workload)
    command = shlex.join(str(flag) for flag in flags)
    if workload.zero_hpz_partition_size == 1:
        return command
    return f"echo {shlex.quote(deepspeed_config(workload))} > ds_config.json && {command}"


def _megatron(workload: TrainingWorkload) -> list[object]:
    flags: list[object] = ["torchrun", "--nproc-per-node", min(8, workload.gpus)]
    flags += ["--nnodes", -(-workload.gpus // 8), "pretrain_gpt.py"] if workload.gpus > 8 else ["pretrain_gpt.py"]
    for flag, degree in (
        ("--tensor-model-parallel-size", workload.tensor_parallel),
        ("--pipeline-model-parallel-size", workload.pipeline_parallel),
        ("--context-parallel-size", workload.context_parallel),
        ("--expert-model-parallel-size", workload.expert_parallel),
    ):
        if degree > 1:
            flags += [flag, degree]
    flags += ["--seq-length", workload.sequence_length, "--micro-batch-size", workload.micro_batch_size]
    flags += ["--global-batch-size", workload.micro_batch_size * workload.micro_batches * workload.data_parallel]
    if workload.sequence_parallel:
        flags.append("--sequence-parallel")
    if workload.zero_stage:
        flags.append("--use-distributed-optimizer")
    if workload.activation_checkpointing != "none":
        flags += ["--recompute-granularity", workload.activation_checkpointing]
    if workload.activation_checkpointing == "full":
        flags += ["--recompute-method", "uniform", "--recompute-num-layers", 1]
    flags.append({"mixed_fp16": "--fp16", "fp8": "--fp8-format=hybrid"}.get(workload.precision, "--bf16"))
    return flags


def _trl(model: Model, workload: TrainingWorkload) -> list[object]:
    flags: list[object] = ["accelerate", "launch", "--num_processes", workload.gpus]
    if workload.framework == "fsdp":
        flags += ["--use_fsdp", "--fsdp_version", workload.fsdp_version, "--fsdp_reshard_after_forward", reshard_after_forward(workload)]
        flags += ["--fsdp_offload_params", "true"] if workload.offload != "none" else []
    elif workload.framework == "deepspeed":
        flags += ["--use_deepspeed"]
        hpz = workload.zero_hpz_partition_size > 1  # accelerate has no flag for it
        flags += ["--deepspeed_config_file", "ds_config.json"] if hpz else ["--zero_stage", workload.zero_stage]
        if not hpz and workload.offload != "none":
            flags += ["--offload_optimizer_device", "cpu"]
            flags += [] if workload.offload == "optimizer" else ["--offload_param_device", "cpu"]
    flags += ["-m", "trl.scripts.sft", "--model_name_or_path", model.id, "--max_length", workload.sequence_length]
    flags += ["--per_device_train_batch_size", workload.micro_batch_size, "--gradient_accumulation_steps", workload.micro_batches]
    flags += ["--gradient_checkpointing", str(workload.activation_checkpointing != "none").lower()]
    if workload.framework == "fsdp" and workload.fsdp_version == 1 and workload.activation_checkpointing == "full":
        flags += ["--gradient_checkpointing_kwargs", '{"use_reentrant": true}']
    for flag, asked in (("--activation_offloading", workload.activation_offload), ("--torch_compile", workload.compiled)):
        flags += [flag, "true"] if asked else []
    flags += ["--attn_implementation", "flash_attention_2" if workload.attention == "flash" else workload.attention]
    flags += ["--optim", _TRL_OPTIMIZERS.get(workload.optimizer, workload.optimizer)]
    flags += ["--dtype", "float32" if workload.precision in ("mixed_bf16", "mixed_fp16", "fp32") else "bfloat16"]
    if workload.mixed:
        flags += ["--fp16" if workload.precision == "mixed_fp16" else "--bf16", "true"]
    if workload.loss == "fused":
        flags += ["--use_liger_kernel", "true"]
    if workload.adapted:
        flags += ["--use_peft", "--lora_r", workload.lora_rank]
        flags += [] if workload.method != "qlora" else ["--load_in_4bit"]
        flags += [] if workload.method != "dora" else ["--use_dora"]
    return flags
