"""verl without sampling: overrides of `verl.trainer.sft_trainer`. Source: verl 0.7,
verl/trainer/config/sft_trainer_engine.yaml."""

from fitgauge.engine.model.spec import Model
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common.shell import joined, path_of
from fitgauge.services.training_fit.adapter_names import target_modules
from fitgauge.services.training_fit.launchers.common import base_format, on_node

_OPTIMIZERS = {
    "adamw": ("torch.optim", "AdamW"), "adamw_8bit": ("bitsandbytes.optim", "AdamW8bit"),
    "paged_adamw": ("bitsandbytes.optim", "PagedAdamW32bit"),
    "paged_adamw_8bit": ("bitsandbytes.optim", "PagedAdamW8bit"),
    "sgd": ("torch.optim", "SGD"),
}  # fmt: skip
"""Module and class (verl/workers/config/optimizer.py, build_optimizer)."""
_PRECISIONS = {
    "mixed_bf16": ("fp32", "bfloat16"),
    "mixed_fp16": ("fp32", "float16"),
    "bf16": ("bfloat16", "bfloat16"),
}
"""Format of the weights, and the one it computes in (verl/trainer/config/engine/fsdp.yaml,
model_dtype and dtype)."""


def verl_supports(workload: TrainingWorkload) -> bool:
    """Return whether its FSDP engine has these settings: it quantizes no base, divides no
    tensors or sequences as accelerate does."""
    divided = workload.tensor_parallel * workload.context_parallel * workload.pipeline_parallel > 1
    known = workload.optimizer in _OPTIMIZERS and workload.precision in _PRECISIONS
    moved = workload.offload == "none" or workload.fsdp_version == 2
    return (
        workload.framework == "fsdp"
        and known
        and moved
        and not divided
        and base_format(workload) is None
        and workload.method != "dora"
    )


def verl_sft_command(model: Model, workload: TrainingWorkload, setup: Setup) -> str:
    """`verl.trainer.sft_trainer` under torchrun. Batches of as many tokens as come are turned
    off, so that micro-batches have a size."""
    stored, computed = _PRECISIONS[workload.precision]
    library, optimizer = _OPTIMIZERS[workload.optimizer]
    settings: dict[str, object] = {
        "data.train_files": "DATA.parquet",
        "data.train_batch_size": (
            workload.micro_batch_size * workload.micro_batches * workload.data_parallel
        ),
        "data.use_dynamic_bsz": False,
        "data.micro_batch_size_per_gpu": workload.micro_batch_size,
        "data.max_length": workload.sequence_length,
        "model.path": path_of(model),
        "model.enable_gradient_checkpointing": workload.activation_checkpointing != "none",
        "model.enable_activation_offload": workload.activation_offload,
        "model.use_liger": workload.kernels == "liger" or workload.loss == "fused",
        "engine.strategy": "fsdp2" if workload.fsdp_version == 2 else "fsdp",
        "engine.reshard_after_forward": workload.zero_stage == 3,
        "engine.model_dtype": stored,
        "engine.dtype": computed,
        "engine.offload_policy": workload.offload != "none",
        "engine.fsdp_size": workload.data_parallel // workload.data_parallel_replicate,
        "optim.optimizer_impl": library,
        "optim.optimizer": optimizer,
    }
    if workload.uses_adapters:
        targets = target_modules(model.spec, workload)
        named = "all-linear" if workload.lora_targets == "all_linear" else f"[{','.join(targets)}]"
        settings |= {"model.lora_rank": workload.lora_rank, "model.target_modules": named}
    words = [
        "torchrun",
        "--standalone",
        f"--nproc-per-node={on_node(workload)}",
        "-m",
        "verl.trainer.sft_trainer",
    ]
    return joined([*words, *(f"{name}={value}" for name, value in settings.items())])
