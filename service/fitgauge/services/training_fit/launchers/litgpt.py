"""LitGPT: flags of `litgpt finetune_*`. Source: litgpt 0.5, litgpt/finetune/full.py and lora.py,
litgpt/args.py."""

import re
from collections.abc import Iterator, Sequence

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import flags, joined, path_of, switch
from fitgauge.services.training_fit.launchers.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import (
    base_format,
    nodes,
    processes_per_node,
    sequences_per_step,
)
from fitgauge.services.training_fit.launchers.run_settings import RunNames
from fitgauge.services.training_fit.launchers.tool import (
    ADAPTERS,
    SUPERVISED,
    Default,
    Tool,
    lacking,
)
from fitgauge.services.training_fit.launchers.words_as_files import (
    ConfigFiles,
    flags_of,
    nested,
    place_of,
    settings_file,
)

_PRECISIONS = {
    "bf16": "bf16-true",
    "mixed_bf16": "bf16-mixed",
    "mixed_fp16": "16-mixed",
    "fp32": "32-true",
}
_FORMATS = {
    "nf4": "bnb.nf4",
    "nf4_double": "bnb.nf4-dq",
    "fp4": "bnb.fp4",
    "int8": "bnb.int8-training",
}
_PARTS = {
    "query": ("q_proj", "query_key_value", "qkv_proj"), "key": ("k_proj",),
    "value": ("v_proj", "query_key_value", "qkv_proj"), "projection": ("o_proj", "dense"),
    "mlp": ("gate_proj", "up_proj", "down_proj", "gate_up_proj", "dense_h_to_4h", "dense_4h_to_h"),
}  # fmt: skip


_OPTIMIZERS = {
    "adamw": "AdamW", "sgd": "SGD", "adafactor": "Adafactor",
    "adamw_8bit": "bitsandbytes.optim.AdamW8bit", "paged_adamw": "bitsandbytes.optim.PagedAdamW",
    "paged_adamw_8bit": "bitsandbytes.optim.PagedAdamW8bit", "lion": "bitsandbytes.optim.Lion",
    "lion_8bit": "bitsandbytes.optim.Lion8bit",
}  # fmt: skip
"""Names in torch.optim, or with their module (litgpt/utils.py, instantiate_torch_optimizer and
instantiate_bnb_optimizer)."""


def litgpt_supports(workload: TrainingWorkload) -> bool:
    """Return whether its scripts have these settings: data parallelism with whole shards, and a
    quantized base on one GPU, without mixed precision (litgpt/finetune/lora.py, setup). Only
    full.py checkpoints activations, always and on several GPUs alone."""
    quantized = base_format(workload) is not None
    divided = workload.tensor_parallel * workload.context_parallel * workload.pipeline_parallel
    checkpoints = workload.gpus > 1 and not workload.uses_adapters
    return (
        workload.activation_checkpointing == ("full" if checkpoints else "none")
        and workload.framework == ("fsdp" if workload.gpus > 1 else "transformers")
        and workload.zero_stage in (0, 3)
        and divided * workload.data_parallel_replicate == 1
        and workload.offload == "none"
        and workload.optimizer in _OPTIMIZERS
        and workload.precision in _PRECISIONS
        and workload.method != "dora"
        and not (quantized and (workload.gpus > 1 or workload.precision.startswith("mixed")))
        and base_format(workload) in (None, *_FORMATS)
    )


def litgpt_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`litgpt finetune_full` or `litgpt finetune_lora`; several GPUs are FSDP's."""
    stored, several = base_format(workload) or "", nodes(workload) > 1
    adam = workload.optimizer == "adamw"
    settings = {
        "--precision": _PRECISIONS[workload.precision],
        "--devices": processes_per_node(workload),
        "--num_nodes": nodes(workload) if several else None,
        "--optimizer": None if adam else _OPTIMIZERS[workload.optimizer],
        "--quantize": _FORMATS.get(stored),
        **_adapters(model, workload),
        "--train.micro_batch_size": workload.micro_batch_size,
        "--train.global_batch_size": sequences_per_step(workload),
        "--train.max_seq_length": workload.sequence_length,
    }
    script = "finetune_lora" if workload.uses_adapters else "finetune_full"
    return joined(["litgpt", script, path_of(model), *flags(settings)])


def _adapters(model: Model, workload: TrainingWorkload) -> dict[str, object]:
    if not workload.uses_adapters:
        return {}
    every = workload.lora_targets == "all_linear"
    names = set() if every else set(target_modules(model.spec, workload))
    return {
        "--lora_r": workload.lora_rank,
        "--lora_dropout": f"{workload.lora_dropout:g}",
        **{
            f"--lora_{part}": switch(not names or not names.isdisjoint(modules))
            for part, modules in _PARTS.items()
        },
    }


def _unsupported(model: Model, workload: TrainingWorkload, setup: Setup) -> Iterator[Note]:
    if workload.compile:
        yield lacking("compile", "LitGPT's finetuning scripts compile nothing: set it in code.")


def _files(before: Sequence[str], words: Sequence[str]) -> ConfigFiles | None:
    """Read `litgpt finetune_*`. Source: config_hub/finetune."""
    place = place_of(words, lambda word: word == "litgpt")
    if place is None:
        return None
    settings = {"checkpoint_dir": words[place + 2], **flags_of(words[place + 3 :])}
    start = [*words[: place + 2], "--config", "litgpt.yaml"]
    return settings_file(before, start, "litgpt.yaml", nested(settings))


LITGPT = Tool(
    name="litgpt",
    title="LitGPT",
    phrases=("litgpt", "lit gpt"),
    sign=re.compile(r"\blitgpt\b", re.IGNORECASE),
    version="0.5.13",
    writer="litgpt",
    framework="transformers",
    framework_on_several="fsdp",
    command=litgpt_command,
    files=_files,
    supports=litgpt_supports,
    unsupported=_unsupported,
    run_names=RunNames(
        "flags",
        {
            "epochs": "train.epochs",
            "max_steps": "train.max_steps",
            "save_steps": "train.save_interval",
        },
    ),
    defaults=(
        Default("precision", "bf16", "config_hub/finetune, precision: bf16-true"),
        Default("activation_checkpointing", "full",
            "litgpt/finetune/full.py, activation_checkpointing_policy", ("full",), "several"),
        Default("loss", "chunked", "litgpt/utils.py, chunked_cross_entropy", algorithms=SUPERVISED),
        Default("optimizer_implementation", "foreach",
            "litgpt/utils.py, instantiate_torch_optimizer: torch.optim.AdamW"),
        Default("lora_rank", 8, "litgpt/finetune/lora.py, lora_r", ADAPTERS),
        Default("lora_dropout", 0.05, "litgpt/finetune/lora.py, lora_dropout", ADAPTERS),
        # LoRAQKVLinear has adapters of queries and values in the one linear of all three
        Default("lora_targets", ["query_key_value"],
            "litgpt/lora.py, LoRAQKVLinear", ADAPTERS, families=("falcon", "gpt_neox")),
        Default("lora_targets", ["qkv_proj"],
            "litgpt/lora.py, LoRAQKVLinear", ADAPTERS, families=("phi3",)),
        Default("lora_targets", ["q_proj", "v_proj"],
            "litgpt/finetune/lora.py, lora_query and lora_value", ADAPTERS),
    ),
)  # fmt: skip
