"""LitGPT: flags of `litgpt finetune_*`. Source: litgpt 0.5, litgpt/finetune/full.py and lora.py,
litgpt/args.py."""

from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined, path_of, said
from fitgauge.services.training_fit.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import base_format, on_node

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
    "query": ("q_proj",), "key": ("k_proj",), "value": ("v_proj",), "projection": ("o_proj",),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}  # fmt: skip


def litgpt_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`litgpt finetune_full` or `litgpt finetune_lora`; several cards are FSDP's."""
    words: list[object] = [
        "litgpt",
        "finetune_lora" if workload.uses_adapters else "finetune_full",
        path_of(model),
    ]
    words += [
        "--precision",
        _PRECISIONS.get(workload.precision, "bf16-true"),
        "--devices",
        on_node(workload),
    ]
    stored = base_format(workload)
    words += ["--quantize", _FORMATS[stored]] if stored in _FORMATS else []
    if workload.uses_adapters:
        names = (
            () if workload.lora_targets == "all_linear" else target_modules(model.spec, workload)
        )
        words += ["--lora_r", workload.lora_rank]
        for part, modules in _PARTS.items():
            words += [f"--lora_{part}", said(not names or any(name in modules for name in names))]
    batch = workload.micro_batch_size * workload.micro_batches * workload.data_parallel
    words += [
        "--train.micro_batch_size",
        workload.micro_batch_size,
        "--train.global_batch_size",
        batch,
    ]
    words += ["--train.max_seq_length", workload.sequence_length]
    return joined(words)
