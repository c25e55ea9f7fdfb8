"""A training step of transformers on this machine, measured by a script (`training_probe.py`)."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fitgauge.engine.quantity import GIB
from fitgauge.measure.start import Start, python_with
from fitgauge.services.explain_log.schemas import LogCase
from fitgauge.services.training_fit.launchers.adapter_names import USUAL_ATTENTION
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

_MARK = "fitgauge-measured "
_SCRIPT = Path(__file__).with_name("training_probe.py")

_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "method": ("full", "lora"),
    "precision": ("mixed_bf16", "bf16", "fp32"),
    "framework": ("transformers",),
    "optimizer": ("adamw",),
    "loss": ("full",),
    "activation_checkpointing": ("none", "full"),
    "attention": ("eager", "sdpa"),
    "kernels": ("none",),
    "gpu_count": (1,),
    "compile": (False,),
    "activation_offload": (False,),
    "optimizer_in_backward": (False,),
    "padded": (False,),
    "ema": ("none",),
    "offload": ("none",),
}
"""What the script can do of the settings that decide a step."""


_TARGETS = {"all_linear": "all-linear", "attention": list(USUAL_ATTENTION)}
"""Adapted modules in PEFT's words."""


class NotMeasuredError(Exception):
    """A step with these settings is not one that the script can run."""


class Printed(msgspec.Struct, frozen=True):
    """What the script prints."""

    version: str
    """The release of transformers."""
    torch: str
    """The release of PyTorch."""
    gpu: str | None
    """The GPU as its driver names it; None: it ran on the CPU."""
    measured: dict[str, int]
    """Sizes [bytes] by name."""


class StepCase(LogCase, kw_only=True, omit_defaults=True):
    """A row of truth about training."""

    operation: str
    """Which question it answers: check_training_fit."""


class MeasuredTerm(msgspec.Struct, kw_only=True):
    """One size of a step, measured and estimated [bytes]."""

    name: str
    """The term, or the phase whose peak it is."""
    measured: int
    """What was counted."""
    estimated: int
    """What was expected."""
    low: int
    """The least that the estimate expects."""
    high: int
    """The most that the estimate expects."""

    @property
    def difference(self) -> float:
        """Measurement / estimate - 1."""
        return self.measured / self.estimated - 1 if self.estimated else 0.0

    @property
    def within(self) -> bool:
        """Whether the measurement lies in the interval."""
        return self.low <= self.measured <= self.high


def step_start(
    request: TrainingRequest, answer: TrainingAnswer, python: Path | None, *, cpu: bool
) -> Start:
    """Return how to run the script for what was answered. Raises NotMeasuredError for a setting
    that it cannot run, NotInstalledError without a Python that has transformers."""
    if answer.per_gpu is None:
        raise NotMeasuredError(answer.summary)
    taken = answer.understood_as
    for name, values in _SETTINGS.items():
        value = taken.get(name)
        if value is not None and value not in values:
            raise NotMeasuredError(
                f"A step with {name} {value} cannot be measured here: send {name}"
                f" {' or '.join(map(str, values))}."
            )
    targets = taken.get("lora_targets")
    settings = {
        "model": request.model,
        "method": taken["method"],
        "precision": taken["precision"],
        "half_base": taken.get("base_precision") == "half",
        "implementation": taken.get("optimizer_implementation", "foreach"),
        "checkpointing": taken["activation_checkpointing"] == "full",
        "attention": taken["attention"],
        "sequence_length": taken["sequence_length"],
        "micro_batch_size": taken["micro_batch_size"],
        "lora_rank": taken.get("lora_rank"),
        "lora_targets": _TARGETS.get(targets, targets) if isinstance(targets, str) else targets,
        "cpu": cpu,
    }
    program = python_with("transformers", python)
    return Start(arguments=(program, str(_SCRIPT), msgspec.json.encode(settings).decode()))


def step_measured(text: str) -> Printed | None:
    """Return what the script measured; None where it did not get so far."""
    for line in text.splitlines():
        if line.startswith(_MARK):
            return msgspec.json.decode(line.removeprefix(_MARK), type=Printed)
    return None


def compared(printed: Printed, answer: TrainingAnswer) -> list[MeasuredTerm]:
    """Return every size that was measured and is estimated, next to its estimate."""
    sizes: dict[str, tuple[int, int, int]] = {
        term.name: (term.bytes, term.low, term.high)
        for term in answer.terms or ()
        if term.name in ("weights", "optimizer_states")
    }
    assert answer.per_gpu is not None  # `step_start` refuses it
    allocated, reserved = answer.per_gpu.allocated_bytes, answer.per_gpu.reserved_bytes
    for phase in answer.phases:
        # the interval of a phase is that of the largest one, moved to it
        moved = phase.bytes - allocated.expected
        sizes[phase.name] = phase.bytes, allocated.low + moved, allocated.high + moved
    sizes["reserved"] = reserved.expected, reserved.low, reserved.high
    return [
        MeasuredTerm(name=name, measured=size, estimated=expected, low=low, high=high)
        for name, size in printed.measured.items()
        for expected, low, high in filter(None, [sizes.get(name)])
    ]


def step_row(printed: Printed, sent: Mapping[str, Any], question: dict[str, Any]) -> StepCase:
    """Return the run as a row of truth. Where it leaves out a field that was sent, only
    its outcome is scored.

    sent: fields of the question; question: what may leave the house of them."""
    measured: dict[str, Any] = {
        f"{name}_gib": round(size / GIB, 4) for name, size in printed.measured.items()
    }
    peaks = [printed.measured[name] for name in ("forward", "backward", "optimizer_step")]
    measured["peak_allocated_gib"] = round(max(peaks) / GIB, 4)
    digest = sha256(msgspec.json.encode([question, printed])).hexdigest()[:12]
    fields = set(question) | {"detail"}
    is_whole = question.get("model") == sent["model"] and fields.issuperset(sent)
    return StepCase(
        operation="check_training_fit",
        id=f"local-{digest}",
        question=question,
        outcome="served",
        measured=measured,
        scores=["training", "outcome"] if is_whole else ["outcome"],
        source=f"local:{digest}",
        build=printed.version,
        settings={"torch": printed.torch, **({"cpu": True} if printed.gpu is None else {})},
    )
