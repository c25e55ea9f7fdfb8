"""Layers of every kind, each kind's operations recorded once on a tape and simulated once from
it."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fitgauge.engine.model.families.nominal import is_count
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.autograd.layers.attention import asks_for_mask
from fitgauge.engine.training.autograd.layers.choice import layer_recipe
from fitgauge.engine.training.autograd.layers.modules import LayerContext
from fitgauge.engine.training.autograd.nominal import counted_layer, drawn_unit
from fitgauge.engine.training.autograd.operations import Value
from fitgauge.engine.training.autograd.segment import (
    Segment,
    stream_width,
    tape_of,
    trace_segment,
    used_again,
)
from fitgauge.engine.training.autograd.tape import Tape
from fitgauge.engine.training.autograd.vision.segments import first_has_gradient
from fitgauge.engine.training.states.parameters import Unit, units
from fitgauge.engine.training.workload import TrainingWorkload, recomputed_modules


class RecordedLayers(NamedTuple):
    """Layers of one kind on a tape."""

    unit: Unit
    """The layers' parameters."""
    layers: tuple[int, ...]
    """Numbers of the layers."""
    tape: Tape
    """Their operations."""
    start: Value
    """What the layer reads."""
    output: Value
    """What it returns."""


def recorded_layers(
    spec: ModelSpec, context: LayerContext, workload: TrainingWorkload
) -> tuple[RecordedLayers, ...]:
    """Return the layers of each kind on a tape: the same one for kinds that run the same
    operations."""
    recorded: list[tuple[Unit, RecordedLayers]] = []
    layers = []
    for unit in units(spec, workload):
        if unit.part is not Part.LANGUAGE or not unit.repeated:
            continue
        read = _as_recorded(unit, context, workload)
        for numbers in filter(None, _alike(unit.layers, workload)):
            is_first = numbers[0] == 0 and not first_has_gradient(workload)
            layer = None if is_first else next((one for of, one in recorded if of == read), None)
            if layer is None:
                layer = _layer(spec, unit, numbers, context, workload)
                if not is_first:
                    recorded.append((read, layer))
            layers.append(layer._replace(unit=unit, layers=numbers))
    return tuple(layers)


def _as_recorded(unit: Unit, context: LayerContext, workload: TrainingWorkload) -> Unit:
    """Return a unit without what its operations do not depend on: the numbers of its layers, and a
    window without a mask of its own, as all of Megatron's are."""
    is_megatron = workload.framework == "megatron"
    mixers = tuple(
        msgspec.structs.replace(mixer, window=None)
        if isinstance(mixer, Attention) and (is_megatron or not asks_for_mask(mixer, context))
        else mixer
        for mixer in unit.block.mixers
    )
    block = msgspec.structs.replace(unit.block, layers=(), mixers=mixers)
    return msgspec.structs.replace(unit, layers=(), block=block)


def _alike(layers: tuple[int, ...], workload: TrainingWorkload) -> tuple[tuple[int, ...], ...]:
    """Split layers by whether their input gets a gradient: over a frozen base the first layer's
    gets none."""
    if first_has_gradient(workload):
        return (layers,)
    return tuple(number for number in layers if number == 0), tuple(
        number for number in layers if number
    )


def _layer(
    spec: ModelSpec,
    unit: Unit,
    numbers: tuple[int, ...],
    context: LayerContext,
    workload: TrainingWorkload,
) -> RecordedLayers:
    """Return the layers `numbers` of one kind, recorded by their layer model."""
    tape, width = tape_of(workload), stream_width(workload)
    grad = first_has_gradient(workload) or 0 not in numbers
    x = tape.input("hidden", context.tokens * spec.hidden_size // context.stream, width, grad=grad)
    drawn = drawn_unit(unit, workload) if is_count(unit.block) else unit
    return RecordedLayers(
        unit, numbers, tape, x, layer_recipe(tape, drawn, spec, context, workload).forward(x)
    )


def layer_segments(
    recorded: Iterable[RecordedLayers], spec: ModelSpec, workload: TrainingWorkload
) -> tuple[Segment, ...]:
    """Return the segments of layers; of those on one tape it is the same but for their numbers."""
    of_tapes: dict[int, Segment] = {}
    for layer in recorded:
        if id(layer.tape) not in of_tapes:
            of_tapes[id(layer.tape)] = _segment(layer, spec, workload)
    return tuple(
        msgspec.structs.replace(of_tapes[id(layer.tape)], layers=layer.layers) for layer in recorded
    )


def _segment(layers: RecordedLayers, spec: ModelSpec, workload: TrainingWorkload) -> Segment:
    unit, numbers, tape, x, output = layers
    checkpointed = "none" if recomputed_modules(workload) else workload.activation_checkpointing
    segment = trace_segment(
        unit.prefix, numbers, tape, x, output, [unit], workload, checkpointed=checkpointed
    )
    if is_count(unit.block):
        return counted_layer(segment, drawn_unit(unit, workload), spec, workload)
    return segment if spec.layer_uses == 1 else used_again(segment, spec.layer_uses, unit, workload)
