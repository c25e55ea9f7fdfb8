"""A model that is only a size: layers with the linears and norms of its shape, and as many
gradients as its nominal count of parameters."""

import msgspec

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.families.nominal import nominal_linears
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Split
from fitgauge.engine.training.autograd.segment import Segment
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.states.optimizer_states import gradient_dtype
from fitgauge.engine.training.states.parameters import Parameter, Unit
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


def drawn_unit(unit: Unit, workload: TrainingWorkload) -> Unit:
    """Return a unit that is only a count of parameters with the linears and norms of a layer of its
    shape."""
    mixer = next(mixer for mixer in unit.block.mixers if isinstance(mixer, Attention))
    width, form = mixer.query_heads * mixer.head_dim, precision_policy(workload)
    drawn = [
        Parameter(
            name=t.name,
            shape=t.shape,
            kind=t.kind,
            split=t.split,
            units=t.units,
            count=1,
            dtype=form.weights,
            form=unit.parameters[0].form,
            trained=not workload.uses_adapters,
        )
        for t in nominal_linears(unit.block)
    ]
    norms = [
        Parameter(
            name=f"{name}.weight", shape=(width,), kind=Kind.NORM, split=Split.NONE, units=0,
            count=1, dtype=form.weights,
            trained=not workload.uses_adapters,
        )
        for name in ("input_layernorm", "post_attention_layernorm")
    ]  # fmt: skip
    adapters = [parameter for parameter in unit.parameters if parameter.adapter]
    return msgspec.structs.replace(unit, parameters=(*drawn, *norms, *adapters))


def counted_layer(
    segment: Segment, drawn: Unit, spec: ModelSpec, workload: TrainingWorkload
) -> Segment:
    """Return a layer with its part of the nominal gradients: those of the head apart, the layers
    share them alike."""
    each = (spec.parameters - _of_head(spec, workload)) // spec.layers
    return _counted(segment, each, drawn.elements(trained=True), drawn.parameters[0], workload)


def counted_head(
    segment: Segment, unit: Unit, spec: ModelSpec, workload: TrainingWorkload
) -> Segment:
    """Return the head with its gradients and the remainder that does not divide among the
    layers."""
    own = _of_head(spec, workload)
    rest = (spec.parameters - own) % spec.layers
    table = spec.vocabulary_size * spec.hidden_size
    return _counted(segment, own + rest, table, unit.parameters[0], workload)


def _of_head(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return how many of the nominal parameters belong to the head: its table, at most half of the
    size; none where no loss is computed."""
    if workload.loss == "none":
        return 0
    return min(spec.vocabulary_size * spec.hidden_size, spec.parameters // 2)


def _counted(
    segment: Segment, count: int, drawn: int, parameter: Parameter, workload: TrainingWorkload
) -> Segment:
    """Return a segment with the gradients of `count` parameters instead of those `drawn`."""
    if workload.uses_adapters:
        return segment
    released = segment.released * count // drawn
    end = segment.backward.end + released - segment.released
    return msgspec.structs.replace(
        segment,
        gradients=size_of(count, gradient_dtype(parameter, workload)),
        released=released,
        backward=Pass(
            peak=max(segment.backward.peak, end),
            end=end,
            parameter_gradients=segment.backward.parameter_gradients
            if segment.backward.peak > end
            else released,
        ),
    )
