"""What a card cannot train, and what to send instead."""

from collections.abc import Mapping
from dataclasses import dataclass

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.training.workload import Framework, TrainingWorkload

_WITHOUT: Mapping[str, tuple[Framework, ...]] = {"Apple": ("megatron", "fsdp", "deepspeed"), "Google": ("megatron",)}
"""Megatron calls torch.cuda, which ROCm answers too and Intel's Gaudi has a fork for; torch.distributed has no backend for Apple's GPUs."""
_TITLES: Mapping[Framework, str] = {"megatron": "Megatron", "fsdp": "FSDP", "deepspeed": "DeepSpeed"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a card cannot run a workload, and the `field` that would let it with another `value`."""

    why: str
    field: str
    value: str

    @property
    def instead(self) -> str:
        """What to send, as a sentence."""
        return f"Use {self.field} {self.value}."

    def __str__(self) -> str:
        return f"{self.why} {self.instead}"


def refusal(workload: TrainingWorkload, accelerator: Accelerator) -> Refusal | None:
    """Why this card cannot run it, and what to use instead; None where it can, or where nobody knows."""
    formats = accelerator.formats
    if not runs_on(workload.framework, accelerator):
        return Refusal(f"{_TITLES[workload.framework]} does not run on {accelerator.name}.", "framework", "transformers")
    if workload.attention == "flash" and accelerator.flash_attention_2 is False:
        return Refusal(f"FlashAttention-2 does not run on {accelerator.name}.", "attention", "sdpa")
    if formats is not None and workload.precision in ("mixed_bf16", "bf16") and "bf16" not in formats:
        return Refusal(f"{accelerator.name} has no bf16 arithmetic.", "precision", "mixed_fp16")
    if formats is not None and workload.precision == "fp8" and "fp8" not in formats:
        return Refusal(f"{accelerator.name} has no fp8 arithmetic.", "precision", "mixed_bf16")
    return None


def runs_on(framework: Framework, accelerator: Accelerator) -> bool:
    """Whether a framework drives this maker's cards."""
    return framework not in _WITHOUT.get(accelerator.vendor, ())
