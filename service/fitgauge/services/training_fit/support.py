"""What a GPU cannot train, and what to send instead."""

from collections.abc import Mapping

from fitgauge.engine.accelerator import Accelerator, slices_refusal
from fitgauge.engine.quantization.requested import BITSANDBYTES, canonical_name
from fitgauge.engine.training.parallel.zero_rules import EIGHT_BIT
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError

_WITHOUT: Mapping[str, tuple[Framework, ...]] = {
    "Apple": ("megatron", "fsdp", "deepspeed"),
    "Google": ("megatron", "deepspeed"),
}
"""Megatron calls torch.cuda, which ROCm answers too and Intel's Gaudi has a fork for; DeepSpeed
has no TPU among its accelerators (accelerator/real_accelerator.py, SUPPORTED_ACCELERATOR_LIST);
torch.distributed has no backend for Apple's GPUs."""
_BITSANDBYTES_MAKERS = ("AMD", "Intel", "Apple", "custom")
_MIN_COMPUTE_CAPABILITY, _INT8 = (6, 0), (7, 5)
"""Vendors besides NVIDIA that bitsandbytes supports, and NVIDIA's least compute capabilities for
4-bit bases and 8-bit optimizers, and for LLM.int8(). Source: bitsandbytes 0.50 docs,
Installation Guide."""
_TITLES: Mapping[Framework, str] = {
    "megatron": "Megatron",
    "fsdp": "FSDP",
    "deepspeed": "DeepSpeed",
}


def refusal(workload: TrainingWorkload, accelerator: Accelerator) -> UnsupportedError | None:
    """Return why this GPU cannot run it, and what to use instead; None where it can, or where that
    is unknown."""
    if (apart := slices_refusal(accelerator, workload.gpus)) is not None:
        return apart
    formats = accelerator.formats
    if not runs_on(workload.framework, accelerator):
        return _unsupported(
            f"{_TITLES[workload.framework]} does not run on {accelerator.name}.",
            "framework",
            "transformers",
        )
    if workload.attention == "flex" and workload.framework == "megatron":
        return _unsupported("Megatron has no flex attention.", "attention", "flash")
    if workload.attention == "flash" and accelerator.flash_attention_2 is False:
        return _unsupported(
            f"FlashAttention-2 does not run on {accelerator.name}.", "attention", "sdpa"
        )
    if (
        formats is not None
        and workload.precision in ("mixed_bf16", "bf16")
        and "bf16" not in formats
    ):
        return _unsupported(
            f"{accelerator.name} has no bf16 arithmetic.", "precision", "mixed_fp16"
        )
    if formats is not None and workload.precision == "fp8" and "fp8" not in formats:
        return _unsupported(f"{accelerator.name} has no fp8 arithmetic.", "precision", "mixed_bf16")
    base = _bitsandbytes_base(workload)
    if base is not None and not _runs_bitsandbytes(
        accelerator, _INT8 if base == "int8" else _MIN_COMPUTE_CAPABILITY
    ):
        return _unsupported(
            f"bitsandbytes has no {base} for {accelerator.name}.", "quantization", "bf16"
        )
    if workload.optimizer in EIGHT_BIT and not _runs_bitsandbytes(
        accelerator, _MIN_COMPUTE_CAPABILITY
    ):
        return _unsupported(
            f"bitsandbytes has no 8-bit optimizers for {accelerator.name}.", "optimizer", "adamw"
        )
    return None


def _unsupported(reason: str, field: str, value: str) -> UnsupportedError:
    """Return why a GPU cannot run a workload. field, value: what it can run."""
    return UnsupportedError(field, reason, ({field: (value,)},))


def _bitsandbytes_base(workload: TrainingWorkload) -> str | None:
    """Return the bitsandbytes format of the frozen base; None without one."""
    name = (
        None if workload.base_quantization is None else canonical_name(workload.base_quantization)
    )
    return name if name in BITSANDBYTES else None


def _runs_bitsandbytes(accelerator: Accelerator, least: tuple[int, int]) -> bool:
    """Return whether its kernels run on a GPU: of NVIDIA's, on those with that compute
    capability."""
    if accelerator.vendor == "NVIDIA":
        return accelerator.compute_capability is None or accelerator.compute_capability >= least
    return accelerator.vendor in _BITSANDBYTES_MAKERS


def runs_on(framework: Framework, accelerator: Accelerator) -> bool:
    """Return whether a framework runs on this vendor's GPUs."""
    return framework not in _WITHOUT.get(accelerator.vendor, ())
