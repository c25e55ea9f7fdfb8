"""What the commands of several tools have in common."""

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.quantization.requested import canonical_name
from fitgauge.engine.training.workload import TrainingWorkload

OPTIMIZERS = {
    "adamw": "adamw_torch", "adamw_8bit": "adamw_bnb_8bit", "paged_adamw": "paged_adamw_32bit",
    "paged_adamw_8bit": "paged_adamw_8bit",
    "adamw_bf16": "adamw_anyprecision", "adafactor": "adafactor", "lion": "lion_32bit",
    "lion_8bit": "lion_8bit", "sgd": "sgd",
    "sgd_momentum": "sgd", "galore_adamw": "galore_adamw", "lomo": "lomo",
    "adamw_torch_8bit": "adamw_torch_8bit",
    "adamw_torch_4bit": "adamw_torch_4bit",
}  # fmt: skip
"""transformers training_args.py, OptimizerNames."""
_OPTIMIZER_ARGUMENTS = {
    "adamw_bf16": "momentum_dtype=bfloat16,variance_dtype=bfloat16,use_kahan_summation=False",
    "sgd_momentum": "momentum=0.9",
}
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def optim(workload: TrainingWorkload) -> str | None:
    """Return the Trainer's name of the optimizer; None where it has none."""
    name = OPTIMIZERS.get(workload.optimizer)
    fused = name == "adamw_torch" and workload.optimizer_implementation == "fused"
    return "adamw_torch_fused" if fused else name


def optimizer_settings(workload: TrainingWorkload) -> dict[str, str]:
    """Return the Trainer's arguments of the optimizer; empty where it has none for it."""
    settings = {} if (name := optim(workload)) is None else {"optim": name}
    if workload.optimizer in _OPTIMIZER_ARGUMENTS:
        settings["optim_args"] = _OPTIMIZER_ARGUMENTS[workload.optimizer]
    if workload.optimizer == "galore_adamw":
        settings["optim_target_modules"] = "all-linear"
    return settings


def base_format(workload: TrainingWorkload) -> str | None:
    """Return the format of a quantized base, such as nf4; None where it is not quantized."""
    quantization = workload.base_quantization
    return None if quantization is None else canonical_name(quantization)


def processes_per_node(workload: TrainingWorkload) -> int:
    """Return the processes of one node."""
    return min(USUAL_NODE, workload.gpus)


def nodes(workload: TrainingWorkload) -> int:
    """Return the nodes that the GPUs fill."""
    return -(-workload.gpus // USUAL_NODE)


def sequences_per_step(workload: TrainingWorkload) -> int:
    """Return the sequences of one optimizer step over all ranks."""
    return workload.micro_batch_size * workload.micro_batches * workload.data_parallel


def attention_name(workload: TrainingWorkload) -> str:
    """Return the attention as transformers names it (attn_implementation)."""
    names = {"flash": "flash_attention_2", "flex": "flex_attention"}
    return names.get(workload.attention, workload.attention)
