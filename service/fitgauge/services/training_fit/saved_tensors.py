"""Saved activations of a model: every tensor with its shape and format, part by part."""

from typing import Literal

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.operations import Saved
from fitgauge.engine.training.autograd.segment import Segment
from fitgauge.engine.training.autograd.segments import layer_context, segments
from fitgauge.engine.training.parallel import fsdp
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy
from fitgauge.services.training_fit.schemas import SavedSegment, SavedTensor

Form = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int64", "bool"]
_SCORES = frozenset(
    f"attention.{name}"
    for name in (
        "scores",
        "scaled",
        "tanh",
        "masked",
        "float",
        "softmax",
        "weights",
        "weights_dropout",
        "weights_dropout.mask",
        "mask",
    )
)
_HALVES: dict[str, Form] = {"BF16": "bf16", "F16": "fp16"}


def saved_segments(spec: ModelSpec, workload: TrainingWorkload) -> list[SavedSegment]:
    """Return the tensors that embedding, every kind of layer and head save."""
    run = fsdp.computed(workload) if workload.framework == "fsdp" else workload
    parts, context = segments(spec, run), layer_context(spec, run)
    weights = {unit.prefix + p.name: p.shape for unit in units(spec, run) for p in unit.parameters}
    return [
        _segment(part, context, weights, workload)
        for part in (parts.embedding, *parts.layers, parts.head)
    ]


def _segment(
    part: Segment,
    context: LayerContext,
    weights: dict[str, tuple[int, ...]],
    workload: TrainingWorkload,
) -> SavedSegment:
    tensors = [
        SavedTensor(
            name=saved.name,
            read_by=saved.by,
            shape=shape_of(saved, context, weights),
            dtype=_form(saved, workload),
            bytes=saved.bytes,
        )
        for saved in part.saved
    ]
    return SavedSegment(
        name=part.name,
        layers=list(part.layers),
        bytes=sum(tensor.bytes for tensor in tensors),
        tensors=tensors,
    )


def shape_of(saved: Saved, context: LayerContext, weights: dict[str, tuple[int, ...]]) -> list[int]:
    """Return the shape: [batch, sequence, features]; of scores [batch, heads, sequence, keys]; of a
    cast weight its own; else the number of elements."""
    own = weights.get(saved.name.removesuffix(".cast"))
    if own is not None:
        return list(own)
    each, rest = divmod(saved.elements, context.tokens)
    if rest:
        return [saved.elements]
    heads, left = divmod(each, context.keys)
    if saved.name in _SCORES and heads and not left:
        return [context.batch, heads, context.sequence, context.keys]
    return (
        [context.batch, context.sequence, each] if each > 1 else [context.batch, context.sequence]
    )


def _form(saved: Saved, workload: TrainingWorkload) -> Form:
    if saved.width == 1:
        if saved.name.endswith(".mask"):
            return "bool"
        if workload.precision == "fp8":
            return "fp8"
        return "int8"
    policy = precision_policy(workload)
    half: Form = next(
        (_HALVES[name] for name in (policy.compute, policy.weights) if name in _HALVES), "bf16"
    )
    if saved.width == 8:
        return "int64"
    return half if saved.width == 2 else "fp32"
