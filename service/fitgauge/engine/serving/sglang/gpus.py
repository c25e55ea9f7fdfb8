"""What SGLang distinguishes GPUs by.

Source: sglang 0.5.23, srt/runtime_context.py (get_platform), srt/utils/common.py."""

from typing import Literal

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB, MIB

Architecture = Literal["hopper", "blackwell", "consumer_blackwell", "other"]

_ARCHITECTURES: dict[int, Architecture] = {9: "hopper", 10: "blackwell", 12: "consumer_blackwell"}
_LARGE = 60 * GIB


def total_mib(accelerator: Accelerator) -> float:
    """Return the GPU's memory as nvidia-smi prints it [MiB]."""
    return (accelerator.total_bytes or accelerator.usable.expected) / MIB


def architecture(accelerator: Accelerator) -> Architecture:
    """Return the architecture by compute capability."""
    capability = accelerator.compute_capability
    return _ARCHITECTURES.get(capability[0], "other") if capability else "other"


def is_blackwell(accelerator: Accelerator) -> bool:
    """Return whether it is a Blackwell GPU or newer."""
    capability = accelerator.compute_capability
    return capability is not None and capability >= (10, 0)


def is_large_hopper(accelerator: Accelerator) -> bool:
    """Return whether it is a Hopper GPU of 60 GiB or more."""
    return architecture(accelerator) == "hopper" and total_mib(accelerator) * MIB >= _LARGE
