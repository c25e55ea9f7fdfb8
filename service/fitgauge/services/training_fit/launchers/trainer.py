"""transformers' Trainer, which several tools train by: the settings it has no argument for."""

from collections.abc import Container, Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import BITSANDBYTES
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.launchers.common import base_format
from fitgauge.services.training_fit.launchers.tool import lacking

_NOT_IN_TRAINER = {
    "muon": "Muon",
    "adam_mini": "Adam-mini",
    "adamw_torch_fp8": "torchao's AdamWFp8",
}


def unsupported_by_trainer(
    model: Model, workload: TrainingWorkload, setup: Setup, own_optimizers: Container[str] = ()
) -> Iterator[Note]:
    """Yield the settings that transformers' Trainer has no argument for. own_optimizers: those
    that a tool around it adds."""
    if workload.framework == "megatron":
        return
    if workload.optimizer in _NOT_IN_TRAINER and workload.optimizer not in own_optimizers:
        yield lacking(
            "optimizer",
            "transformers' Trainer has no --optim for"
            f" {_NOT_IN_TRAINER[workload.optimizer]}: pass the optimizer in code.",
        )
    if workload.optimizer_implementation == "for_loop" and workload.optimizer == "adamw":
        yield lacking(
            "optimizer_implementation", "The Trainer's AdamW uses foreach: set for_loop in code."
        )
    if not workload.uses_adapters and not workload.train_vision_tower:
        yield lacking(
            "train_vision_tower",
            "The command trains the vision tower too: freeze it in code (requires_grad False).",
        )
    yield from _unquantized_base(model, workload)
    yield from _unsupported_degrees(workload)


def _unquantized_base(model: Model, workload: TrainingWorkload) -> Iterator[Note]:
    """Yield that a base is loaded in 16 bit: the script quantizes by bitsandbytes alone, and a
    checkpoint is loaded as it is published."""
    form = base_format(workload)
    if form is not None and form not in BITSANDBYTES and published(model.spec) is None:
        yield lacking(
            "quantization",
            f"The command loads {model.id} in 16 bit, which needs more: name a checkpoint that is"
            f" published in {form}, or send quantization nf4.",
        )


def fused_by_liger(workload: TrainingWorkload) -> list[Note]:
    """Return the loss that Liger's kernels replace: their settings apart are a mapping, for which
    HfArgumentParser has no flag (transformers training_args.py, liger_kernel_config)."""
    if workload.kernels != "liger" or workload.loss == "fused":
        return []
    return [
        lacking(
            "loss",
            "Liger's kernels bring its fused loss: the command computes no whole logits, which"
            " needs less memory.",
        )
    ]


def _unsupported_degrees(workload: TrainingWorkload) -> Iterator[Note]:
    tensors, stages = workload.tensor_parallel > 1, workload.pipeline_parallel > 1
    if workload.framework == "transformers" and tensors:
        yield lacking(
            "tensor_parallel",
            "TRL loads every tensor whole: load the model with"
            f" DistributedConfig(tp_size={workload.tensor_parallel}) in code.",
        )
        if workload.data_parallel > 1:
            yield lacking(
                "data_parallel",
                "accelerate has no replicas with tensor parallelism: framework fsdp shards them.",
            )
    if workload.framework == "fsdp":
        if workload.gradient_dtype == "fp32":
            yield lacking(
                "gradient_dtype",
                "accelerate reduces gradients in the compute format: set fp32 in its FSDP"
                " plugin in code.",
            )
        if workload.fsdp_version == 1 and tensors:
            yield lacking(
                "fsdp_version",
                "accelerate has tensor parallelism with FSDP2 only: send fsdp_version 2.",
            )
        if stages:
            yield lacking(
                "pipeline_parallel",
                "TRL's trainers have no pipelines under FSDP: the command has none. Trainer"
                " torchtitan does.",
            )
    if workload.framework == "deepspeed" and (tensors or stages):
        yield lacking(
            "tensor_parallel",
            "TRL's trainers use neither tensor nor pipeline parallelism under DeepSpeed: the"
            " command has data parallelism only.",
        )
