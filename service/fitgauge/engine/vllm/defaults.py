"""What vLLM takes where a flag is left out, and what it refuses to run.

Source: vllm/engine/arg_utils.py, get_batch_defaults (0.33, OpenAI server); model_executor/layers/quantization, get_min_capability.
"""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB

_GB10 = (12, 1)


def default_batch(accelerator: Accelerator, context_length: int) -> tuple[int, int]:
    """(max_num_seqs, max_num_batched_tokens) of the OpenAI server on this card, the latter no more than its requests can fill."""
    sequences, tokens = _tier(accelerator)
    tokens = min(tokens, sequences * context_length)
    return min(sequences, tokens), tokens


def _tier(accelerator: Accelerator) -> tuple[int, int]:
    memory = accelerator.usable.expected
    if memory >= 160 * GIB:
        return 1024, 16384
    small = "a100" in accelerator.name.lower() or accelerator.compute_capability == _GB10
    if memory >= 70 * GIB and not small:
        return 1024, 8192
    return 256, 2048


_MINIMUM_CAPABILITY: dict[str, tuple[int, int]] = {
    "awq": (7, 5), "gptq": (6, 0), "fp8": (7, 5), "mxfp4": (8, 0), "nvfp4": (7, 5), "compressed-tensors": (7, 5), "modelopt": (7, 5),
    "bitsandbytes": (7, 0), "torchao": (7, 5), "gguf": (6, 0),
}  # fmt: skip
"""Least compute capability of a quantization method."""

_MINIMUM = (7, 0)
"""vLLM's wheels are built for Volta and newer."""


def refusal(method: str | None, accelerator: Accelerator) -> str | None:
    """Why vLLM does not run this quantization method on this card, or None where it does (or nothing is known)."""
    capability = accelerator.compute_capability
    if capability is None:
        return None
    needed = max(_MINIMUM, _MINIMUM_CAPABILITY.get(method or "", _MINIMUM))
    if capability >= needed:
        return None
    what = f"{method} weights need" if method and needed > _MINIMUM else "vLLM needs"
    return f"{what} compute capability {needed[0]}.{needed[1]} or newer; {accelerator.name} has {capability[0]}.{capability[1]}."


def flash_attention_note(accelerator: Accelerator) -> str | None:
    """What runs instead where FlashAttention does not, or None."""
    capability = accelerator.compute_capability
    if capability is None or capability >= (8, 0):
        return None
    return (
        f"FlashAttention 2 is unsupported on {accelerator.name} (compute capability {capability[0]}.{capability[1]}, it needs 8.0): "
        "vLLM takes its Triton attention there; with transformers use attn_implementation='sdpa'."
    )
