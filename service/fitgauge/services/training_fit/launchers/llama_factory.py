"""LLaMA-Factory: one YAML. Source: LLaMA-Factory 0.9.6, src/llamafactory/hparams/*.py; examples."""

import re
from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import path_of
from fitgauge.services.training_fit.launchers.accelerate import FSDP, accelerate_config
from fitgauge.services.training_fit.launchers.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import base_format, optimizer_settings
from fitgauge.services.training_fit.launchers.deepspeed import DEEPSPEED, deepspeed_config
from fitgauge.services.training_fit.launchers.file_formats import written, yaml_of
from fitgauge.services.training_fit.launchers.run_settings import TRAINER_NAMES, RunNames
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    FUSED_FROM,
    PREFERENCE,
    SUPERVISED,
    Default,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.trainer import fused_by_liger, unsupported_by_trainer

_FILE = "llama_factory.yaml"
_STAGES = {"sft": {"stage": "sft"}, "reward": {"stage": "rm"}, "dpo": {"stage": "dpo"},
    "kto": {"stage": "kto"}, "ppo": {"stage": "ppo"},
           "orpo": {"stage": "dpo", "pref_loss": "orpo"},
           "simpo": {"stage": "dpo", "pref_loss": "simpo"}}  # fmt: skip
_OWN_OPTIMIZERS = {"muon": "use_muon", "adam_mini": "use_adam_mini"}
_ATTENTION = {"flash": "fa2", "sdpa": "sdpa", "eager": "disabled", "flex": "auto"}


def llama_factory_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the YAML, and `llamafactory-cli train`, or its script under accelerate with FSDP."""
    settings: dict[str, object] = {
        "model_name_or_path": path_of(model),
        **_STAGES.get(setup.algorithm, _STAGES["sft"]),
        "do_train": True,
    }
    settings |= {"reward_model": "REWARD_MODEL"} if setup.algorithm == "ppo" else {}
    settings |= _adapters(model, workload)
    # DeepSpeed casts by itself, and ZeRO-3 refuses pure_bf16 (hparams/parser.py, get_train_args)
    deepspeed_in_bf16 = workload.framework == "deepspeed" and workload.precision == "bf16"
    settings |= {
        "dataset": "DATASET",
        "template": "default",
        "cutoff_len": workload.sequence_length,
        "output_dir": "outputs",
        "per_device_train_batch_size": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        **_optimizer(workload),
        "bf16": workload.precision in ("mixed_bf16", "fp8") or deepspeed_in_bf16,
        "fp16": workload.precision == "mixed_fp16",
        "pure_bf16": workload.precision == "bf16" and not deepspeed_in_bf16,
        "disable_gradient_checkpointing": (
            workload.activation_checkpointing == "none" or workload.framework == "fsdp"
        ),
        "use_unsloth_gc": workload.activation_offload,
        "flash_attn": _ATTENTION[workload.attention],
        "enable_liger_kernel": workload.loss == "fused" or workload.kernels == "liger",
        "torch_compile": workload.compile,
    }
    if workload.framework == "fsdp":
        files = [written(_FILE, yaml_of(settings)), written(FSDP, accelerate_config(workload))]
        return "\n".join([*files, f"accelerate launch --config_file {FSDP} src/train.py {_FILE}"])
    if workload.framework == "deepspeed":
        settings["deepspeed"] = DEEPSPEED
    files = [written(_FILE, yaml_of(settings))]
    if workload.framework == "deepspeed":
        files.append(written(DEEPSPEED, deepspeed_config(workload) + "\n"))
    several = "FORCE_TORCHRUN=1 " if workload.gpus > 1 else ""
    return "\n".join([*files, f"{several}llamafactory-cli train {_FILE}"])


def _optimizer(workload: TrainingWorkload) -> dict[str, object]:
    """Return the Trainer's optimizer, or one of its own (hparams/finetuning_args.py)."""
    if workload.optimizer in _OWN_OPTIMIZERS:
        return {_OWN_OPTIMIZERS[workload.optimizer]: True}
    return dict(optimizer_settings(workload))


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    yield from unsupported_by_trainer(model, workload, setup, _OWN_OPTIMIZERS)
    if workload.lora_experts:
        message = (
            "LLaMA-Factory has no setting for adapters on experts: the command has none there."
        )
        yield lacking("lora_experts", message)
    yield from fused_by_liger(workload)


def _adapters(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    if not workload.uses_adapters:
        return {"finetuning_type": "full"}
    every, stored = workload.lora_targets == "all_linear", base_format(workload)
    config: dict[str, object] = {
        "finetuning_type": "lora",
        "lora_rank": workload.lora_rank,
        **({"lora_dropout": workload.lora_dropout} if workload.lora_dropout else {}),
        "lora_target": "all" if every else ",".join(target_modules(model.spec, workload)),
        "use_dora": workload.method == "dora",
    }
    if stored in ("nf4", "nf4_double", "fp4", "int8"):
        config |= {"quantization_method": "bnb", "quantization_bit": 8 if stored == "int8" else 4}
        config |= (
            {}
            if stored == "int8"
            else {"quantization_type": stored[:3], "double_quantization": stored == "nf4_double"}
        )
    return config


LLAMA_FACTORY = Tool(
    name="llama-factory",
    title="LLaMA-Factory",
    phrases=("llama factory", "llamafactory"),
    sign=re.compile(r"\bllama-?_?factory|\bfinetuning_type\b", re.I),
    version="0.9.6",
    loads_by_transformers=True,
    framework="transformers",
    shards_with=("deepspeed", "fsdp"),
    aliases=("lmf",),
    command=llama_factory_command,
    run_names=RunNames("yaml", TRAINER_NAMES),
    algorithms=PREFERENCE | {"ppo"},
    unsupported=_unsupported,
    steps_under_deepspeed=True,  # examples/deepspeed/ds_z3_config.json
    defaults=(
        Default("optimizer_implementation", "fused", FUSED_FROM),
        Default("precision", "mixed_bf16",
            "src/llamafactory/model/adapter.py, cast_trainable_params_to_fp32; bf16 in examples"),
        Default("base_precision", "half",
            "src/llamafactory/model/patcher.py, compute_dtype; adapter.py", ADAPTERS),
        Default("quantization", "nf4_double",
            "src/llamafactory/hparams/model_args.py, double_quantization", ("qlora",)),
        Default("loss", "fused",
            "src/llamafactory/model/model_utils/liger_kernel.py, apply_liger_kernel",
            algorithms=SUPERVISED, kernels="liger"),
        Default("activation_checkpointing", "full",
            "src/llamafactory/hparams/model_args.py, disable_gradient_checkpointing: False"),
        Default("lora_rank", 8, "src/llamafactory/hparams/finetuning_args.py, lora_rank", ADAPTERS),
        Default("lora_targets", "all_linear",
            "src/llamafactory/hparams/finetuning_args.py, lora_target: all", ADAPTERS),
    ),
)  # fmt: skip
