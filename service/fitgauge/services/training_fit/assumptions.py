"""What a training answer assumes where the request leaves a field out."""

from collections.abc import Mapping

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import Model
from fitgauge.services.common.assumptions import default_of, size_assumed
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.training_fit import images
from fitgauge.services.training_fit.launchers.registry import tool_defaults
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest

Value = str | int | float | bool

_LENGTHS = ("sequence_length", "prompt_length", "completion_length")
"""Each of them bounds a sequence: the default is assumed only where all are left out."""

_DECISIVE = (
    "method",
    "lora_rank",
    "quantization",
    "framework",
    "precision",
    "optimizer",
    "loss",
    "attention",
    "activation_checkpointing",
    "micro_batch_size",
    "sequence_length",
)
"""Fields that change the memory of nearly every training."""


def assumptions(
    request: TrainingRequest,
    model: Model,
    accelerator: Accelerator,
    trained: TrainingEstimate,
    understood: Mapping[str, Value],
) -> list[Assumption]:
    """Return the values of the decisive fields that the request leaves out, and of all that its
    tool sets. understood: the request with every default filled in."""
    filled = tool_defaults(request, trained.asked, understood)
    why = f", the default of {trained.tool.title} {trained.tool.version}" if trained.tool else ""
    assumed = [*size_assumed(model), *images.assumptions(request, trained.workload, model.spec)]
    for field in dict.fromkeys((*_DECISIVE, *filled)):
        if field not in understood or getattr(request, field) is not None:
            continue
        if field == "sequence_length" and any(getattr(request, name) for name in _LENGTHS):
            continue
        reason = why if field in filled else " tokens" * (field == "sequence_length")
        if field == "precision" and understood[field] == "mixed_fp16":
            reason = f", because {accelerator.name} has no bf16 arithmetic"
        assumed.append(default_of(field, understood[field], reason))
    return assumed
