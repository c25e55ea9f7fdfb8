"""torchtune: a recipe, the configuration of a model, and what it says otherwise. Source:
torchtune 0.7, recipes and recipes/configs."""

import re
from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined
from fitgauge.services.training_fit.launchers.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import base_format, processes_per_node
from fitgauge.services.training_fit.launchers.file_formats import written, yaml_of
from fitgauge.services.training_fit.launchers.run_settings import RunNames
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    SUPERVISED,
    Change,
    Default,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.torchtune_file import settings_of, tuned_model

RECIPE_NAME = r"_(?:finetune|dpo)_(?:distributed|single_device)\b"
"""A recipe's name, behind the method."""

_OPTIMIZERS = {
    "adamw": "torch.optim.AdamW", "adamw_8bit": "bitsandbytes.optim.AdamW8bit",
    "paged_adamw": "bitsandbytes.optim.PagedAdamW",
    "paged_adamw_8bit": "bitsandbytes.optim.PagedAdamW8bit", "sgd": "torch.optim.SGD",
    "sgd_momentum": "torch.optim.SGD",
    "adamw_torch_8bit": "torchao.optim.AdamW8bit", "adamw_torch_4bit": "torchao.optim.AdamW4bit",
    "adamw_torch_fp8": "torchao.optim.AdamWFp8",
    "adafactor": "torch.optim.Adafactor",
    "lion": "bitsandbytes.optim.Lion", "lion_8bit": "bitsandbytes.optim.Lion8bit",
}  # fmt: skip
_LOSSES = {
    "full": "torch.nn.CrossEntropyLoss",
    "chunked": "torchtune.modules.loss.LinearCrossEntropyLoss",
}
_OWN_NAMES = {"o_proj": "output_proj"}
_FILE = "torchtune.yaml"
_MLP = ("gate_proj", "up_proj", "down_proj")


def torchtune_supports(workload: TrainingWorkload) -> bool:
    """Return whether its recipes have these settings: FSDP2 alone on several GPUs, sharded whole,
    and NF4 with quantized scalers as the only format of a base (modules/peft/lora.py)."""
    several = workload.gpus > 1
    return (
        workload.framework == ("fsdp" if several else "transformers")
        and workload.pipeline_parallel * workload.context_parallel == 1
        and workload.data_parallel_replicate == 1
        and workload.precision in ("bf16", "fp32")
        and workload.optimizer in _OPTIMIZERS
        and workload.offload in ("none", "cpu")
        and base_format(workload) in (None, "nf4_double")
    )


def torchtune_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`tune run` of the recipe: with a file of its own for a model that torchtune has a builder
    for, else over CONFIG, which is that of the model and method (`tune ls`)."""
    several, prefers = workload.framework == "fsdp", setup.algorithm == "dpo"
    method = "lora" if workload.uses_adapters else "full"
    gpus = "distributed" if several else "single_device"
    run: list[object] = [
        "tune",
        "run",
        *(["--nproc_per_node", processes_per_node(workload)] if several else []),
        f"{method}_{'dpo' if prefers else 'finetune'}_{gpus}",
        "--config",
    ]
    settings = _settings(model, workload, setup)
    kind = f"{method}{'_dpo' * prefers}{'' if several else '_single_device'}"
    tuned = tuned_model(model.id)
    if tuned is None or tuned.rate(kind) is None:
        overrides = [f"{name}={_override(value)}" for name, value in settings.items()]
        if workload.optimizer != "adamw" and (several or workload.uses_adapters):
            overrides.append("~optimizer.fused")  # of CONFIG's AdamW: no other takes it
        return joined([*run, "CONFIG", *overrides])
    file = written(_FILE, yaml_of(settings_of(tuned, kind, settings)))
    return "\n".join([file, tuned.download(), joined([*run, _FILE])])


def _override(value: object) -> str:
    """Return a setting as the command line has it."""
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _settings(model: Model, workload: TrainingWorkload, setup: Setup) -> dict[str, object]:
    """Return what the estimate says of a run, by torchtune's dotted names."""
    several = workload.framework == "fsdp"
    settings: dict[str, object] = {
        "tokenizer.max_seq_len": workload.sequence_length,
        **({} if setup.algorithm == "dpo" else {"dataset.packed": workload.packed}),
        "batch_size": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.micro_batches,
        "dtype": "fp32" if workload.precision == "fp32" else "bf16",
        "optimizer": _OPTIMIZERS[workload.optimizer],
        "enable_activation_checkpointing": workload.activation_checkpointing != "none",
        "enable_activation_offloading": workload.activation_offload,
    }
    if setup.algorithm == "sft" or not several:  # recipes/*_dpo_distributed.py read no `compile`
        settings["compile"] = workload.compile
    if setup.algorithm == "sft":
        settings["loss"] = _LOSSES.get(workload.loss, _LOSSES["chunked"])
    if workload.optimizer == "sgd_momentum":
        settings["optimizer.momentum"] = 0.9
    if workload.optimizer == "adamw":
        settings["optimizer.fused"] = workload.optimizer_implementation == "fused"
    if workload.uses_adapters:
        names = [_OWN_NAMES.get(name, name) for name in _targets(model, workload)]
        attention = [name for name in names if name not in _MLP]
        settings |= {
            "model.lora_rank": workload.lora_rank,
            "model.lora_alpha": 2 * workload.lora_rank,
            "model.lora_attn_modules": attention,
        }
        settings |= {
            "model.apply_lora_to_mlp": any(name in _MLP for name in names),
            "model.use_dora": workload.method == "dora",
            **({"model.quantize_base": True} if base_format(workload) else {}),
        }
    else:
        settings["optimizer_in_bwd"] = workload.optimizer_in_backward
    if several:
        settings["fsdp_cpu_offload"] = workload.offload != "none"
        settings["fsdp_reshard_after_forward"] = workload.zero_stage == 3
        settings |= (
            {"custom_sharded_layers": ["tok_embeddings", "output"]}
            if workload.shard_embeddings
            else {}
        )
        settings |= (
            {"tensor_parallel_dim": workload.tensor_parallel}
            if workload.tensor_parallel > 1
            else {}
        )
    return settings


def _targets(model: Model, workload: TrainingWorkload) -> list[str]:
    if workload.lora_targets == "all_linear":
        return ["q_proj", "k_proj", "v_proj", "o_proj", *_MLP]
    return target_modules(model.spec, workload)


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    """Yield that the attention is torchtune's own (torchtune/modules/attention_utils.py)."""
    if workload.attention in ("eager", "flash"):
        yield lacking("attention", "torchtune attends by PyTorch's sdpa, or by flex attention.")


_LARGE = 60e9
"""Parameters from which torchtune's configurations are those of its 70B models."""
_OUTPUTS = ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_WIDER = Change((2024, 11, 7), (0, 4))
"""Adapters on the MLP and on the output of attention too."""

TORCHTUNE = Tool(
    name="torchtune",
    packs=True,
    title="torchtune",
    phrases=("torchtune",),
    sign=re.compile(rf"\btune run\b|\btorchtune\b|{RECIPE_NAME}", re.IGNORECASE),
    version="0.7",
    writer="torchtune",
    framework="transformers",
    framework_on_several="fsdp",
    aliases=("tune",),
    command=torchtune_command,
    run_names=RunNames("overrides", {"epochs": "epochs", "max_steps": "max_steps_per_epoch"}),
    algorithms=frozenset({"sft", "dpo"}),
    supports=torchtune_supports,
    unsupported=_unsupported,
    placeholders="CONFIG",
    steps_in_backward=True,
    defaults=(
        Default("precision", "bf16", "recipes/configs, dtype"),
        Default("activation_checkpointing", "full", "recipes/configs/llama3_1/70B_lora.yaml",
            ("lora", "dora"), "several", _LARGE),
        Default("activation_checkpointing", "none", "recipes/configs/llama3_1/8B_lora.yaml",
            ("lora", "dora"), "several"),
        Default("activation_checkpointing", "full",
            "recipes/configs, enable_activation_checkpointing"),
        Default("loss", "chunked", "recipes/configs, loss: LinearCrossEntropyLoss",
            algorithms=SUPERVISED),
        Default("optimizer", "paged_adamw_8bit",
            "recipes/configs/llama3_1/8B_full_single_device.yaml, optimizer", ("full",), "one"),
        Default("optimizer_in_backward", True,
            "recipes/configs/llama3_1/8B_full_single_device.yaml, optimizer_in_bwd",
                ("full",), "one", accumulates=False),
        Default("optimizer", "adamw", "recipes/configs, optimizer: torch.optim.AdamW"),
        Default("optimizer_implementation", "fused", "recipes/configs, optimizer: fused"),
        Default("quantization", "nf4_double",
            "torchtune/modules/peft/lora.py, NF4Tensor with quantized scalers", ("qlora",)),
        Default("offload", "cpu", "recipes/configs/llama3_1/70B_full.yaml, fsdp_cpu_offload",
            ("full",), "several", _LARGE),
        Default("lora_rank", 16, "recipes/configs/llama3_1/70B_lora.yaml, lora_rank", ADAPTERS,
            "several", _LARGE),
        Default("lora_rank", 8, "recipes/configs/llama3_1/8B_lora.yaml, lora_rank", ADAPTERS),
        Default("lora_targets", _OUTPUTS,
            "recipes/configs/llama3_1/8B_lora.yaml, lora_attn_modules, apply_lora_to_mlp",
            ADAPTERS),
        Default("repeats_keys", True, "torchtune/modules/attention.py, forward: expand, flatten"),
        Default("fsdp_version", 2, "torchtune/training/_distributed.py, shard_model: fully_shard",
            gpus="several"),
        Default("shard_embeddings", True,
            "recipes/configs/llama3_1/8B_full.yaml, custom_sharded_layers", ("full",), "several"),
    ),
    moved=(
        Default("loss", "full", "recipes/configs, loss: torch.nn.CrossEntropyLoss",
            algorithms=SUPERVISED, until=Change((2024, 8, 28), (0, 3))),
        Default("lora_targets", ["q_proj", "k_proj", "v_proj"],
            "recipes/configs/llama3_1/70B_lora.yaml of 0.3, lora_attn_modules", ADAPTERS,
            "several", _LARGE, until=_WIDER),
        Default("lora_targets", ["q_proj", "v_proj"],
            "recipes/configs/llama3_1/8B_lora.yaml of 0.3, lora_attn_modules", ADAPTERS,
            until=_WIDER),
    ),
)  # fmt: skip
