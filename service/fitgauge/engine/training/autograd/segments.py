"""A model cut into segments: the embedding, every kind of layer, and the head with its loss,
each played once on a tape."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import msgspec

from fitgauge.engine.memo import ByIdentity
from fitgauge.engine.model.dtypes import BITS, size_of
from fitgauge.engine.model.spec import Attention, Kind, ModelSpec, Part, Split
from fitgauge.engine.training.autograd.layers.choice import end_recipe, layer_recipe
from fitgauge.engine.training.autograd.layers.context import way_of
from fitgauge.engine.training.autograd.layers.gemma4 import (
    handed_on,
    per_layer_bytes,
    per_layer_segment,
)
from fitgauge.engine.training.autograd.layers.losses import loss_of
from fitgauge.engine.training.autograd.layers.megatron import whole_logits
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.layers.sparse_attention import picked_bytes
from fitgauge.engine.training.autograd.layers.stacks import (
    again,
    bias_bytes,
    embedded,
    pooled_loss,
    reads_vocabulary,
    source_segments,
    written_head,
)
from fitgauge.engine.training.autograd.layers.traits import traits_of
from fitgauge.engine.training.autograd.operations import Value
from fitgauge.engine.training.autograd.segment import (
    Segment,
    joined,
    stream_width,
    tape_of,
    trace_segment,
    used_again,
)
from fitgauge.engine.training.autograd.tape import Pass, Tape
from fitgauge.engine.training.autograd.vision.segments import (
    first_has_gradient,
    image_constants,
    scattered,
    tower_segments,
)
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.states.optimizer_states import gradient_dtype
from fitgauge.engine.training.states.parameters import Parameter, Unit, nominal_linears, units
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy, recomputed_modules

_DECODER = (Part.LANGUAGE, Part.EMBEDDING, Part.HEAD)
_SEVERAL = 2
"""See `_spread`."""


class _Written(NamedTuple):
    """A kind of layer written on a tape: the numbers of its layers, what it reads and what it
    gives."""

    unit: Unit
    layers: tuple[int, ...]
    tape: Tape
    start: Value
    output: Value


class ModelSegments(msgspec.Struct, frozen=True, kw_only=True):
    """A model's segments. `constants`: rotary tables and masks. `tied_bytes`: gradient of a
    weight that embedding and head share."""

    embedding: Segment
    layers: tuple[Segment, ...]
    head: Segment
    constants: int
    tied_bytes: int


@lru_cache(maxsize=256)
def _cut(same: ByIdentity, workload: TrainingWorkload) -> ModelSegments:
    cut = _play(same, workload)
    return (
        msgspec.structs.replace(cut, layers=tuple(_on_host(layer) for layer in cut.layers))
        if workload.activation_offload
        else cut
    )


def _on_host(layer: Segment) -> Segment:
    """Return the layer where everything it keeps is copied to the host after its forward pass and
    back before its backward pass.

    Source: torchtune training/_activation_offloading.py, OffloadActivations; transformers
    modeling_utils.py, gradient checkpointing with offload (torch.autograd.graph.save_on_cpu)."""
    away = layer.forward.end - layer.casts
    forward = Pass(peak=layer.forward.peak, end=layer.forward.end - away)
    return msgspec.structs.replace(
        layer,
        forward=forward,
        backward=Pass(peak=layer.backward.peak + away, end=layer.backward.end + away),
    )


def segments(spec: ModelSpec, workload: TrainingWorkload) -> ModelSegments:
    """Return the segments of a model in one micro-batch on one rank, its heads, MLPs and
    vocabulary divided by tensor parallelism, its tokens by context parallelism. Kept for the
    model and workloads asked about lately."""
    relevant = msgspec.structs.replace(
        workload,
        expert_parallel=_spread(spec, workload),
        expert_tensor_parallel=workload.expert_ways,
        data_parallel=1,
        data_parallel_replicate=1,
        pipeline_parallel=1,
        pipeline_chunks=2,
        last_stage_layers=None,
        micro_batches=1,
        zero_stage=0,
        offload="none",
        optimizer="adamw",
        optimizer_implementation="foreach",
        activation_rule=None,
        runtime_bytes=None,
        **whole_logits(workload),
    )
    return _cut(ByIdentity(spec), relevant)


def layer_context(spec: ModelSpec, workload: TrainingWorkload) -> LayerContext:
    """Return where the recipes of this question play."""
    form = precision_policy(workload)
    width = BITS[form.weights] // 8
    return LayerContext(
        traits=traits_of(spec),
        attention=workload.attention,
        sequence=-(-workload.sequence_length // workload.context_parallel),
        keys=workload.sequence_length,
        batch=workload.micro_batch_size,
        hidden=spec.hidden_size,
        crossed=workload.images * workload.image_tokens,
        crossed_grad=not workload.uses_adapters or workload.train_vision_tower,
        relative=next(
            (
                t.shape[0]
                for block in spec.blocks
                for t in block.tensors
                if t.name == "rel_embeddings.weight"
            ),
            0,
        ),
        rotary=bool(spec.rotary_tables) or spec.model_type == "nominal",
        table_width=width,
        compute_width=BITS[form.compute] // 8,
        heads=workload.tensor_parallel,
        stream=workload.tensor_parallel if workload.sequence_parallel else 1,
        saves_gathered=workload.dtensor,
        experts=workload.expert_parallel,
        expert_heads=workload.expert_ways,
        ranks=workload.context_parallel,
        way=way_of(workload),
    )


def _play(same: ByIdentity, workload: TrainingWorkload) -> ModelSegments:
    """Return the model's segments. What checkpointing does not change is written, and what
    experts do not change is played, once for all of it."""
    spec, scene, kind = (
        same.spec,
        layer_context(same.spec, workload),
        workload.activation_checkpointing,
    )
    asked = workload.uses_adapters and kind != "none"  # for a gradient of the embedding
    shown = "full" if asked else "none"
    start = kind if asked or workload.images or spec.task == "encoder_decoder" else "none"
    ends = _ends(
        same,
        msgspec.structs.replace(
            workload, activation_checkpointing=start, expert_parallel=1, expert_tensor_parallel=None
        ),
    )
    shown = kind if recomputed_modules(workload) else shown
    written = _written(same, msgspec.structs.replace(workload, activation_checkpointing=shown))
    return msgspec.structs.replace(
        ends,
        layers=tuple(_segment(layer, spec, workload) for layer in written),
        constants=constant_bytes(spec, scene)
        + sum(of(spec, scene, workload) for of in (picked_bytes, image_constants, bias_bytes)),
    )


def _spread(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return the degree of expert parallelism that stands for all degrees alike: under Megatron,
    which makes no gradients of weights besides those it keeps, layers hold the same for any
    number of ranks that each have several experts, but not all."""
    several = workload.framework == "megatron" and 1 < workload.expert_parallel < experts(spec)
    return _SEVERAL if several and experts(spec) > _SEVERAL else workload.expert_parallel


@lru_cache(maxsize=64)
def _ends(same: ByIdentity, workload: TrainingWorkload) -> ModelSegments:
    """Return all but layers and constants."""
    spec, scene, all_units = (
        same.spec,
        layer_context(same.spec, workload),
        units(same.spec, workload),
    )
    decoder = [unit for unit in all_units if unit.part in _DECODER]
    apart = handed_on(decoder)
    ends = [
        unit
        for unit in decoder
        if not unit.repeated and unit.part is not Part.EMBEDDING and unit not in apart
    ]
    head = head_segment(ends, decoder, spec, scene, workload)
    own = per_layer_bytes(decoder, scene, workload)
    head = msgspec.structs.replace(
        head, backward=Pass(peak=head.backward.peak, end=head.backward.end + own)
    )
    table = next((p for unit in decoder for p in unit.parameters if p.kind is Kind.EMBEDDING), None)
    tied = (
        spec.tied_embeddings
        and spec.task != "encoder_decoder"
        and table is not None
        and table.trained
    )
    whole = tied and table and workload.framework != "megatron"  # whose head adds to main_grad
    tied_bytes = (
        size_of(table.elements, gradient_dtype(table, workload)) // scene.heads
        if whole and table
        else 0
    )
    return ModelSegments(
        embedding=beginning(all_units, spec, scene, workload, tied_bytes),
        layers=(),
        head=head,
        constants=0,
        tied_bytes=tied_bytes,
    )


@lru_cache(maxsize=32)
def _written(same: ByIdentity, workload: TrainingWorkload) -> tuple[_Written, ...]:
    """Return every kind of layer on a tape."""
    spec, scene = same.spec, layer_context(same.spec, workload)
    return tuple(
        _layer(spec, unit, numbers, scene, workload)
        for unit in units(spec, workload)
        if unit.part is Part.LANGUAGE and unit.repeated
        for numbers in _alike(unit.layers, workload)
        if numbers
    )


def beginning(
    all_units: tuple[Unit, ...],
    spec: ModelSpec,
    scene: LayerContext,
    workload: TrainingWorkload,
    tied_bytes: int,
) -> Segment:
    """Return all before the first layer of the language model: its embedding, and the whole
    encoder whose output it reads."""
    apart = handed_on(all_units)
    tables = [unit for unit in all_units if unit.part is Part.EMBEDDING and unit not in apart]
    if spec.task != "encoder_decoder":
        text = embedding_segment(tables, spec, scene, workload)
        own = per_layer_segment(all_units, scene, workload)
        text = text if own is None else joined("embedding", [text, own])
        seen = tower_segments(all_units, spec, scene, workload)
        return (
            joined("embedding", scattered(seen, text, tied_bytes, spec, scene, workload))
            if seen
            else text
        )
    around = [unit for unit in all_units if unit.part is Part.LANGUAGE and not unit.repeated]
    own = embedded(tables[-1:], around, spec, scene, workload, counted=tables[-1:])
    if spec.tied_embeddings:
        own = again(own, tables[-1], workload)
    return joined("embedding", [*source_segments(list(all_units), spec, scene, workload), own])


def constant_bytes(spec: ModelSpec, scene: LayerContext) -> int:
    """Cosine and sine tables of the sequence, and a mask (batch x 1 x s x s) for every kind of
    window: eager attention adds one to its scores in the format of the stream, SDPA is given one
    of booleans where a window is no longer than the sequence."""
    mixers = [
        m
        for block in spec.blocks
        if block.part is Part.LANGUAGE
        for m in block.mixers
        if isinstance(m, Attention)
    ]
    kinds = {mixer.window or mixer.chunk for mixer in mixers}
    eager = scene.traits.eager(scene.attention)
    masks = len(kinds) * scene.table_width if eager else 0
    if scene.attention == "sdpa" and not eager:
        masks = sum(window is not None and window <= scene.keys for window in kinds)
    tables = (
        2 * max(1, len(spec.rotary_tables)) * scene.sequence * mixers[0].head_dim
        if scene.rotary and mixers
        else 0
    )
    return tables * scene.table_width + masks * scene.batch * scene.sequence * scene.keys


def embedding_segment(
    all_units: list[Unit], spec: ModelSpec, scene: LayerContext, workload: TrainingWorkload
) -> Segment:
    """Token embedding, learned positions, a norm after them, scaling, dropout.

    With a frozen base its output gets a gradient only where checkpointing asks for one
    (enable_input_require_grads). DTensor makes the gradient of a table cut by vocabulary whole
    on every rank (torch/distributed/tensor/_ops/_embedding_ops.py, embedding_dense_backward)."""
    if workload.dtensor:
        scene = replace(scene, heads=1)
    tape, width = tape_of(workload, accumulates=False), stream_width(workload)
    size = scene.tokens * spec.hidden_size // scene.stream
    made: list[Value] = []
    for unit in all_units:
        layer = Modules(tape, unit, scene)
        tables = [parameter for parameter in unit.parameters if parameter.kind is Kind.EMBEDDING]
        made += [
            tape.operation(
                p.name, (layer.weight(p),), size * p.shape[-1] // spec.hidden_size, width
            )
            for p in tables
        ]
    x = made[0] if made else tape.input("embedding", size, width, grad=not workload.uses_adapters)
    if workload.uses_adapters and workload.activation_checkpointing != "none":
        x = tape.leaf("embedding.leaf", x)
    for other in made[1:]:
        x = tape.add("embedding.sum", x, other)
    for unit in all_units:
        layer = Modules(tape, unit, scene)
        for name in layer.norms(inside=False):
            x = layer.norm(name, x)
    if scene.traits.scales_embedding:
        x = tape.copy("embedding.scaled", x)
    for unit in all_units:
        layer = Modules(tape, unit, scene)
        x = layer.dropout("embedding.dropout", "embedding", x)
        for parameter in layer.linears(
            attention=False
        ):  # from the embeddings' width to the layers' (ALBERT, ELECTRA)
            x = layer.linear(parameter, x)
    return trace_segment("embedding", (), tape, x, x, all_units, workload, checkpointed="none")


def _alike(layers: tuple[int, ...], workload: TrainingWorkload) -> tuple[tuple[int, ...], ...]:
    """Return layers whose input gets a gradient, and the first where it does not: of a frozen
    base, whose embedding gets none."""
    if first_has_gradient(workload):
        return (layers,)
    return tuple(number for number in layers if number == 0), tuple(
        number for number in layers if number
    )


def _layer(
    spec: ModelSpec,
    unit: Unit,
    numbers: tuple[int, ...],
    scene: LayerContext,
    workload: TrainingWorkload,
) -> _Written:
    """Return the layers `numbers` of one kind by their recipe."""
    tape, width = tape_of(workload), stream_width(workload)
    grad = first_has_gradient(workload) or 0 not in numbers
    x = tape.input("hidden", scene.tokens * spec.hidden_size // scene.stream, width, grad=grad)
    drawn = (
        _nominal(unit, workload)
        if unit.block.tensors and unit.block.tensors[0].shape[1:] == (1,)
        else unit
    )
    return _Written(
        unit, numbers, tape, x, layer_recipe(tape, drawn, spec, scene, workload).play(x)
    )


def _segment(written: _Written, spec: ModelSpec, workload: TrainingWorkload) -> Segment:
    unit, numbers, tape, x, output = written
    checkpointed = "none" if recomputed_modules(workload) else workload.activation_checkpointing
    made = trace_segment(
        unit.prefix, numbers, tape, x, output, [unit], workload, checkpointed=checkpointed
    )
    return made if spec.layer_uses == 1 else used_again(made, spec.layer_uses, unit, workload)


def head_segment(
    ends: list[Unit],
    decoder: list[Unit],
    spec: ModelSpec,
    scene: LayerContext,
    workload: TrainingWorkload,
) -> Segment:
    """Trace final norm, logits and loss in fp32 (loss_utils.py, ForCausalLMLoss). The caller holds
    the logits until after the backward pass."""
    tape, width = tape_of(workload), stream_width(workload)
    x = start = tape.input(
        "hidden", scene.tokens * spec.hidden_size // scene.stream, width, grad=True
    )
    if spec.task == "generate":
        for unit in ends:
            layer = end_recipe(tape, unit, scene, workload)
            for name in layer.norms(inside=False) or layer.norms(inside=True):
                x = layer.norm(name, x)
    else:
        x = written_head(tape, x, ends, spec, scene)
    if scene.saves_gathered and scene.stream > 1:
        x = tape.copy("hidden.gathered", x, x.elements * scene.stream)
    kinds = (Kind.EMBEDDING,) if spec.tied_embeddings else (Kind.HEAD,)
    all_units = next(
        ((unit, p) for unit in decoder for p in unit.parameters if p.kind in kinds), None
    )
    vocabulary = -(-spec.vocabulary_size // scene.heads)
    if workload.loss == "none":
        return trace_segment("head", (), tape, start, x, ends, workload, checkpointed="none")
    if not reads_vocabulary(spec):
        return trace_segment(
            "head",
            (),
            tape,
            start,
            pooled_loss(tape, x),
            ends,
            workload,
            checkpointed="none",
            logits=x.bytes,
        )
    tokens = scene.tokens
    if workload.logits_tokens is not None and workload.logits_tokens < workload.sequence_length:
        tokens = scene.batch * -(-workload.logits_tokens // workload.context_parallel)
        x = tape.copy("hidden.kept", x, tokens * spec.hidden_size)
    if all_units is None:
        weight = tape.parameter(
            "head", vocabulary * spec.hidden_size, width, trained=not workload.uses_adapters
        )
    else:
        weight = Modules(tape, all_units[0], scene).weight(all_units[1])
    logits, loss = loss_of(
        tape, x, weight, tokens, vocabulary, spec.hidden_size, scene.traits, workload
    )
    return trace_segment(
        "head", (), tape, start, loss, ends, workload, checkpointed="none", logits=logits
    )


def _nominal(unit: Unit, workload: TrainingWorkload) -> Unit:
    """Return a layer that is only a count of parameters, drawn with the linears and norms of its
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
