"""OpenRLHF without sampling: flags of `openrlhf.cli.train_sft`. Source: openrlhf 0.11,
openrlhf/cli/train_sft.py."""

from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined, path_of
from fitgauge.services.training_fit.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import base_format, on_node

_OPTIMIZERS = {"adamw": "adam", "muon": "muon"}
_ATTENTION = {"flash": "flash_attention_2"}
_DTYPES = {"mixed_fp16": "fp16", "bf16": "bf16", "mixed_bf16": "bf16"}


def openrlhf_supports(workload: TrainingWorkload) -> bool:
    """Return whether its DeepSpeed strategy has these settings: no other optimizers, nor
    parameters in host memory, nor DeepSpeed's Ulysses."""
    stored = (None, "nf4", "nf4_double") if workload.precision != "mixed_fp16" else (None,)
    known = (
        workload.optimizer in _OPTIMIZERS
        and workload.precision in _DTYPES
        and base_format(workload) in stored
    )
    moved = (
        workload.offload in ("none", "optimizer")
        and workload.context_parallel * workload.pipeline_parallel == 1
    )
    return workload.framework == "deepspeed" and known and moved and workload.method != "dora"


def openrlhf_sft_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`openrlhf.cli.train_sft` under DeepSpeed's launcher; a 4-bit base is double quantized
    (openrlhf/models/actor.py)."""
    words: list[object] = [
        "deepspeed",
        "--num_gpus",
        on_node(workload),
        "--module",
        "openrlhf.cli.train_sft",
    ]
    words += [
        "--model.model_name_or_path",
        path_of(model),
        "--data.dataset",
        "DATASET",
        "--data.max_len",
        workload.sequence_length,
    ]
    words += ["--train.micro_batch_size", workload.micro_batch_size]
    words += [
        "--train.batch_size",
        workload.micro_batch_size * workload.micro_batches * workload.data_parallel,
    ]
    words += (
        ["--model.gradient_checkpointing_enable"]
        if workload.activation_checkpointing != "none"
        else []
    )
    words += [
        "--ds.zero_stage",
        workload.zero_stage,
        "--ds.param_dtype",
        _DTYPES[workload.precision],
    ]
    words += ["--ds.attn_implementation", _ATTENTION.get(workload.attention, workload.attention)]
    words += (
        ["--ds.zpg", workload.zero_hpz_partition_size]
        if workload.zero_hpz_partition_size > 1
        else []
    )
    words += (
        ["--ds.tensor_parallel_size", workload.tensor_parallel]
        if workload.tensor_parallel > 1
        else []
    )
    words += ["--ds.adam_offload"] if workload.offload == "optimizer" else []
    words += (
        ["--ds.grad_accum_dtype", workload.gradient_dtype]
        if workload.gradient_dtype is not None
        else []
    )
    words += (
        ["--ds.use_liger_kernel"] if workload.kernels == "liger" or workload.loss == "fused" else []
    )
    words += ["--optim", _OPTIMIZERS[workload.optimizer]]
    if workload.uses_adapters:
        words += ["--ds.lora.rank", workload.lora_rank]
        words += (
            []
            if workload.lora_targets == "all_linear"
            else ["--ds.lora.target_modules", *target_modules(model.spec, workload)]
        )
        words += ["--ds.load_in_4bit"] if base_format(workload) is not None else []
    return joined(words)
