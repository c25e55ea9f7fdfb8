"""Refuse an architecture that no model has, or that costs more to estimate than any real one."""

from collections.abc import Iterable

from fitgauge.engine.model.config import MAX_EXPERTS, MAX_HEADS
from fitgauge.engine.model.mixers import Mixer, Recurrent
from fitgauge.engine.model.spec import Block, ModelSpec, Part
from fitgauge.errors import MalformedModelError

MAX_DIMENSION = 2**30
"""Of one tensor. The largest is 294,126,912: Gemma 3n's tower, which its reader holds as one."""
MAX_PARAMETERS = 2**50
"""The snapshot's largest model has 2.8e12."""
MAX_KINDS = 1024
"""Tensors, those of equal layers once. The snapshot has at most 162 (DeepSeek-V4-Pro)."""
MAX_TENSORS = 12_000
"""Tensors of all layers, experts as one. The snapshot has at most 2,904 (Kimi-K3): times four."""
MAX_STORED = 1_000_000
"""Tensors of all layers and experts. The snapshot has at most 249,924 (Kimi-K3): times four."""

_HINT = "Check that the repository holds a complete config.json."


def check(spec: ModelSpec) -> None:
    """Raise MalformedModelError for a size below 1 or beyond the bounds above."""
    for block in spec.blocks:
        _check_tensors(block)
        for mixer in block.mixers:
            _check_sizes(_sizes(mixer), f"{block.prefix}: {type(mixer).__name__}")
        if block.mlp is not None:
            _check_sizes({"intermediate_size": block.mlp.intermediate_size}, f"{block.prefix}: MLP")
    stacks = [block.part for block in spec.blocks if "{}" in block.prefix and block.layers]
    if not stacks or (spec.task != "encode" and Part.LANGUAGE not in stacks):
        raise MalformedModelError(
            "config.json has no layers.", hint=_HINT, field="num_hidden_layers"
        )
    if spec.max_context_length < 1:
        raise MalformedModelError(
            "config.json has a context length of 0.", hint=_HINT, field="max_position_embeddings"
        )
    _check_cost(spec)


def _check_tensors(block: Block) -> None:
    for tensor in block.tensors:
        name = f"{block.prefix}{tensor.name}"
        if tensor.shape and not (min(tensor.shape) >= 1 and max(tensor.shape) <= MAX_DIMENSION):
            raise MalformedModelError(
                f"config.json gives {name} a shape that no model has: {_shown(tensor.shape)}.",
                hint=_HINT,
            )
        if not 1 <= tensor.count <= MAX_EXPERTS:
            raise MalformedModelError(
                f"config.json gives {name} {_shown([tensor.count])} experts; the limit is"
                f" {MAX_EXPERTS}.",
                hint=_HINT,
            )


def _check_sizes(sizes: dict[str, int], where: str) -> None:
    for name, size in sizes.items():
        high = MAX_HEADS if name.endswith("heads") else MAX_DIMENSION
        if not 1 <= size <= high:
            raise MalformedModelError(
                f"config.json gives {where} a {name} of {_shown([size])}, not from 1 to {high}.",
                hint=_HINT,
                field=name,
            )


def _sizes(mixer: Mixer) -> dict[str, int]:
    """Return what is never 0 of a mixer."""
    if isinstance(mixer, Recurrent):
        return {
            f"{state.name}_{name}": size
            for state in mixer.states
            for name, size in (("heads", state.heads), ("width", state.width))
        }
    names = ("query_heads", "kv_heads", "head_dim", "value_dim", "latent_dim")
    return {name: getattr(mixer, name) for name in names if hasattr(mixer, name)}


def _check_cost(spec: ModelSpec) -> None:
    kinds = sum(len(block.tensors) for block in spec.blocks)
    tensors = sum(len(block.tensors) * len(block.layers) for block in spec.blocks)
    stored = sum(
        tensor.count * len(block.layers) for block in spec.blocks for tensor in block.tensors
    )
    for what, count, most in (
        ("different tensors", kinds, MAX_KINDS),
        ("tensors", tensors, MAX_TENSORS),
        ("tensors of experts", stored, MAX_STORED),
        ("parameters", spec.parameters, MAX_PARAMETERS),
    ):
        if count > most:
            raise MalformedModelError(
                f"config.json describes {count} {what}; the limit is {most}.", hint=_HINT
            )


def _shown(sizes: Iterable[int]) -> str:
    """Return sizes as a message quotes them."""
    return " x ".join(str(size) if abs(size) < 2**64 else "more than 2^64" for size in sizes)
