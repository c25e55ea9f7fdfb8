"""NeMo Automodel: one YAML, which trains transformers' models. Source: NeMo Automodel, main of
August 2026, examples/llm_finetune; nemo_automodel/components/distributed/config.py;
nemo_automodel/components/_peft/lora.py, PeftConfig; README.md, overrides on the command line."""

import re

from fitgauge.engine.model.model import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import path_of
from fitgauge.services.training_fit.launchers.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import (
    attention_name,
    base_format,
    processes_per_node,
    sequences_per_step,
)
from fitgauge.services.training_fit.launchers.file_formats import written, yaml_of
from fitgauge.services.training_fit.launchers.run_settings import RunNames
from fitgauge.services.training_fit.launchers.tool import ADAPTERS, SUPERVISED, Default, Tool

_FILE = "automodel.yaml"
_COMPONENTS = "nemo_automodel.components"
_LOSSES = {
    "full": "masked_ce.MaskedCrossEntropy",
    "chunked": "chunked_ce.ChunkedCrossEntropy",
    "fused": "linear_ce.FusedLinearCrossEntropy",
}
_OPTIMIZERS = {"adamw": "torch.optim.AdamW", "sgd": "torch.optim.SGD"}
_CHECKPOINTING: dict[str, object] = {"none": False, "full": True, "selective": "selective"}


def automodel_supports(workload: TrainingWorkload) -> bool:
    """Return whether its recipes have these settings: FSDP2's policy alone computes fp32 weights in
    bf16 and sums their gradients in fp32 (docs/guides/mixed-precision-training.md), and nothing
    moves to host memory."""
    sharded = workload.framework == "fsdp"
    return (
        workload.framework in ("transformers", "fsdp")
        and workload.pipeline_parallel == 1
        and workload.offload == "none"
        and workload.optimizer in _OPTIMIZERS
        and workload.gradient_dtype in (None, "fp32")
        and workload.loss in _LOSSES
        and workload.precision in (("bf16", "mixed_bf16") if sharded else ("bf16",))
        and base_format(workload) in (None, "nf4", "nf4_double", "fp4", "int8")
    )


def automodel_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """Return the YAML, and `automodel`."""
    settings: dict[str, object] = {
        "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
        "step_scheduler": {
            "global_batch_size": sequences_per_step(workload),
            "local_batch_size": workload.micro_batch_size,
            "num_epochs": 1,
        },
        "model": _model(model, workload),
        "loss_fn": {"_target_": f"{_COMPONENTS}.loss.{_LOSSES[workload.loss]}"},
        "compile": {"enabled": workload.compile},
    }
    settings |= _adapters(model, workload)
    settings["distributed"] = _distributed(workload)
    settings["dataset"] = {
        "_target_": f"{_COMPONENTS}.datasets.llm.column_mapped_text_instruction_dataset"
        ".ColumnMappedTextInstructionDataset",
        "path_or_dataset_id": "DATASET",
        "column_mapping": {"question": "question", "answer": "answer"},
        "seq_length": workload.sequence_length,
        "padding": "max_length",
        "truncation": True,
    }
    settings["dataloader"] = {
        "_target_": "torchdata.stateful_dataloader.StatefulDataLoader",
        "collate_fn": f"{_COMPONENTS}.datasets.utils.default_collater",
        "shuffle": True,
    }
    settings["optimizer"] = {
        "_target_": _OPTIMIZERS[workload.optimizer],
        "lr": 0.00001,
        **({"fused": True} if workload.optimizer_implementation == "fused" else {}),
    }
    several = f" --nproc-per-node {processes_per_node(workload)}" if workload.gpus > 1 else ""
    return "\n".join([written(_FILE, yaml_of(settings)), f"automodel {_FILE}{several}"])


def _model(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    return {
        "_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
        "pretrained_model_name_or_path": path_of(model),
        "torch_dtype": "bf16" if workload.precision == "bf16" else "float32",
        "attn_implementation": attention_name(workload),
        "use_liger_kernel": workload.kernels == "liger",
    }


def _adapters(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    """Return the adapters and the format of the weights that they are added to."""
    if not workload.uses_adapters:
        return {}
    every = workload.lora_targets == "all_linear"
    targets = (
        {"match_all_linear": True}
        if every
        else {"target_modules": [f"*.{name}" for name in target_modules(model.spec, workload)]}
    )
    adapters: dict[str, object] = {
        "_target_": f"{_COMPONENTS}._peft.lora.PeftConfig",
        **targets,
        "dim": workload.lora_rank,
        "use_dora": workload.method == "dora",
        **({"dropout": workload.lora_dropout} if workload.lora_dropout else {}),
    }
    stored = base_format(workload)
    if stored is None:
        return {"peft": adapters}
    if stored == "int8":
        return {"peft": adapters, "quantization": {"load_in_8bit": True}}
    quantization = {
        "load_in_4bit": True,
        "bnb_4bit_compute_dtype": "bfloat16",
        "bnb_4bit_use_double_quant": stored == "nf4_double",
        "bnb_4bit_quant_type": stored[:3],
    }
    return {"peft": adapters, "quantization": quantization}


def _distributed(workload: TrainingWorkload) -> dict[str, object]:
    """Return how GPUs share the training, and what is computed again."""
    config: dict[str, object] = {
        "strategy": "fsdp2",
        "tp_size": workload.tensor_parallel,
        "cp_size": workload.context_parallel,
        "sequence_parallel": workload.sequence_parallel,
        "activation_checkpointing": _CHECKPOINTING[workload.activation_checkpointing],
    }
    if workload.expert_parallel > 1:
        config["ep_size"] = workload.expert_parallel
    if workload.data_parallel_replicate > 1:
        config["dp_replicate_size"] = workload.data_parallel_replicate
    if workload.gpus > 1:
        config["reshard_after_forward"] = workload.zero_stage == 3
    return config


AUTOMODEL = Tool(
    name="nemo-automodel",
    title="NeMo Automodel",
    phrases=("nemo automodel", "automodel"),
    sign=re.compile(r"\bnemo_automodel\b|\bautomodel \S+\.ya?ml\b"),
    version="main of August 2026",
    selective=True,
    writer="other",
    framework="transformers",
    framework_on_several="fsdp",
    command=automodel_command,
    run_names=RunNames(
        "flags",
        {
            "epochs": "step_scheduler.num_epochs",
            "max_steps": "step_scheduler.max_steps",
            "save_steps": "step_scheduler.ckpt_every_steps",
        },
    ),
    supports=automodel_supports,
    defaults=(
        Default("precision", "bf16",
            "nemo_automodel/_transformers/auto_model.py, torch_dtype: the checkpoint's"),
        Default("kernels", "liger",
            "nemo_automodel/_transformers/auto_model.py, use_liger_kernel"),
        Default("attention", "flash",
            "nemo_automodel/_transformers/kernel_patches.py, DEFAULT_ATTN_IMPLEMENTATION"),
        Default("loss", "full",
            "examples/llm_finetune/llama3_2/llama3_2_1b_squad.yaml, loss_fn: MaskedCrossEntropy",
            algorithms=SUPERVISED),
        Default("keeps_output", True,
            "nemo_automodel/recipes/llm/train_ft.py, _forward_backward_step: out"),
        Default("activation_checkpointing", "none",
            "nemo_automodel/components/distributed/config.py, activation_checkpointing"),
        Default("lora_rank", 8, "nemo_automodel/components/_peft/lora.py, PeftConfig: dim",
            ADAPTERS),
        Default("gradient_dtype", "fp32",
            "nemo_automodel/components/distributed/config.py, FSDP2Config: mp_policy",
            gpus="several"),
        Default("fsdp_version", 2,
            "nemo_automodel/components/distributed/parallelizer.py, fully_shard", gpus="several"),
    ),
)  # fmt: skip
