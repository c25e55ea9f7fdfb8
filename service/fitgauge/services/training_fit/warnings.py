"""Warnings of a training answer: what was assumed, what the framework does besides, and what of
the question contradicts itself."""

from collections.abc import Mapping

from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.accelerator import USUAL_NODE, Accelerator
from fitgauge.engine.model.spec import Model
from fitgauge.services.common.display_memory import desktop_note, drives_screens
from fitgauge.services.training_fit import megatron
from fitgauge.services.training_fit import rl_setup as algorithm_setups
from fitgauge.services.training_fit.activation_warnings import recipe_notes
from fitgauge.services.training_fit.launchers.command import unsupported_settings
from fitgauge.services.training_fit.launchers.registry import defaults_message
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest

Value = str | int | float | bool

HOPELESS = (
    "No change of settings that was tried makes it fit: POST /v1/recommend with task training names"
    " cards that hold it."
)
"""Said where no suggestion is left."""


def notes(
    request: TrainingRequest,
    model: Model,
    found: GpuMatch,
    trained: TrainingEstimate,
    understood: Mapping[str, Value],
) -> list[str]:
    """Return what a reader must know: of model and card, of what was taken for granted, and of
    what contradicts itself. `understood`: the question with every default filled in."""
    workload, spec = trained.workload, model.spec
    said = [*model.warnings, *spec.notes]
    if found.note:
        said.append(found.note)
    said += recipe_notes(spec, workload)
    if workload.precision == "fp8":
        said.append(
            "fp8: the copies of weights that Transformer Engine keeps are counted, what it saves on"
            " activations is not."
        )
    if workload.framework != algorithm_setups.asked_framework(trained.asked):
        said.append("A copy on every card (DDP) does not fit: parameters are sharded with FSDP.")
    if request.precision is None and workload.precision == "mixed_fp16":
        said.append(
            f"{found.accelerator.name} has no bf16 arithmetic: precision mixed_fp16 was taken."
        )
    if found.accelerator.vendor not in ("NVIDIA", "AMD", "custom"):
        said.append(
            f"What allocator and process add was measured under CUDA; {found.accelerator.vendor}'s"
            " may differ."
        )
    if (own := defaults_message(request, trained.asked, understood)) is not None:
        said.append(own)
    if request.gpu_count is not None and found.count not in (1, request.gpu_count):
        said.append(
            f"gpu names {found.count} cards and gpu_count {request.gpu_count}: {request.gpu_count}"
            " were taken."
        )
    if workload.framework == "deepspeed" and workload.offload == "cpu" and workload.zero_stage < 3:
        said.append(
            f"ZeRO-{workload.zero_stage} has the optimizer alone in host memory: send zero_stage 3"
            " for the parameters too."
        )
    if algorithm_setups.hands_over(trained.asked):
        said.append("transformers leaves ZeRO and offload to DeepSpeed: counted and started so.")
    if algorithm_setups.cuts_sequences(trained.asked):
        said.append("transformers divides sequences under FSDP2 alone: counted and started so.")
    if (
        request.sequence_length is None
        and request.prompt_length is None
        and request.completion_length is None
    ):
        said.append(
            f"No sequence_length was asked for: {workload.sequence_length} tokens were taken."
        )
    said += algorithm_setups.warnings(request, trained.setup, workload, trained.probability)
    said += unsupported_settings(model, workload, trained.setup, trained.tool) + megatron.notes(
        request, workload, model.spec
    )
    if workload.tensor_parallel > USUAL_NODE:
        said.append(
            f"tensor_parallel {workload.tensor_parallel} reaches beyond a node of {USUAL_NODE}"
            " GPUs: its exchanges leave the fast link."
        )
    if workload.gpus < trained.count:
        said.append(
            f"{trained.count - workload.gpus} of {trained.count} GPUs are idle: the degrees make"
            f" {workload.gpus} ranks."
        )
    return said


def desktops(
    request: TrainingRequest, accelerator: Accelerator, trained: TrainingEstimate
) -> list[str]:
    """Return a warning where a screen's share of the card would change the verdict."""
    if (
        request.other_memory_gib is not None
        or trained.verdict == "does_not_fit"
        or not drives_screens(accelerator)
    ):
        return []
    note = desktop_note(accelerator.usable.expected - trained.fullest.need.expected)
    return [note] if note else []
