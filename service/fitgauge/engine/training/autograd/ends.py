"""The segments before and after a model's layers: embedding, images, head and loss."""

from dataclasses import replace

import msgspec

from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Part
from fitgauge.engine.training.autograd.layers.choice import end_recipe
from fitgauge.engine.training.autograd.layers.gemma4 import handed_on, per_layer_segment
from fitgauge.engine.training.autograd.layers.losses import loss_of
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.layers.stacks import (
    again,
    embedded,
    pooled_loss,
    reads_vocabulary,
    source_segments,
    written_head,
)
from fitgauge.engine.training.autograd.operations import Value
from fitgauge.engine.training.autograd.segment import (
    Segment,
    joined,
    stream_width,
    tape_of,
    trace_segment,
)
from fitgauge.engine.training.autograd.vision.segments import scattered, tower_segments
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload


def beginning(
    all_units: tuple[Unit, ...],
    spec: ModelSpec,
    context: LayerContext,
    workload: TrainingWorkload,
    tied_bytes: int,
) -> Segment:
    """Return the segment before the first layer of the language model: its embedding, after the
    whole encoder where there is one."""
    apart = handed_on(all_units)
    tables = [unit for unit in all_units if unit.part is Part.EMBEDDING and unit not in apart]
    if spec.task != "encoder_decoder":
        text = embedding_segment(tables, spec, context, workload)
        own = per_layer_segment(all_units, context, workload)
        text = text if own is None else joined("embedding", [text, own])
        seen = tower_segments(all_units, spec, context, workload)
        if seen:
            return joined("embedding", scattered(seen, text, tied_bytes, spec, context, workload))
        return text
    around = [unit for unit in all_units if unit.part is Part.LANGUAGE and not unit.repeated]
    own = embedded(tables[-1:], around, spec, context, workload, counted=tables[-1:])
    if spec.tied_embeddings:
        own = again(own, tables[-1], workload)
    return joined("embedding", [*source_segments(list(all_units), spec, context, workload), own])


def constant_bytes(spec: ModelSpec, context: LayerContext) -> tuple[int, int]:
    """Return (rotary tables, masks that nothing but a checkpoint saves) of a micro-batch [bytes].

    There is a mask for every kind of window. Eager attention adds one (batch x 1 x s x s) in the
    format of the stream to its scores. SDPA takes booleans where a window is no longer than the
    sequence or the family always makes them (s x s, which all sequences share: masking_utils.py,
    sdpa_mask), or where sequences are padded (of each); every layer makes addends of them.
    MPT fills scores by one such mask, which all layers save (modeling_mpt.py)."""
    mixers = [
        m
        for block in spec.blocks
        if block.part is Part.LANGUAGE
        for m in block.mixers
        if isinstance(m, Attention)
    ]
    kinds = {mixer.window or mixer.chunk for mixer in mixers}
    eager = context.traits.eager(context.attention)
    mask = context.sequence * context.keys
    if context.traits.boolean_mask:
        return context.batch * mask, 0
    if eager:
        masks = len(kinds) * context.batch * context.table_width
    elif context.attention == "sdpa" and context.padded:
        masks = len(kinds) * context.batch
    elif context.attention == "sdpa":
        masks = sum(
            context.traits.always_masked or (window is not None and window <= context.keys)
            for window in kinds
        )
    else:
        masks = 0
    tables = 0
    if context.rotary and mixers:
        tables = 2 * max(1, len(spec.rotary_tables)) * context.sequence * mixers[0].head_dim
    return tables * context.table_width, masks * mask


def embedding_segment(
    all_units: list[Unit], spec: ModelSpec, context: LayerContext, workload: TrainingWorkload
) -> Segment:
    """Trace token embedding, learned positions, a norm after them, scaling, dropout.

    With a frozen base the output gets a gradient only where checkpointing asks for one
    (enable_input_require_grads). With a table sharded by vocabulary DTensor makes the whole table's
    gradient on every rank (torch/distributed/tensor/_ops/_embedding_ops.py,
    embedding_dense_backward)."""
    if workload.dtensor:
        context = replace(context, heads=1)
    tape, width = tape_of(workload, accumulates=False), stream_width(workload)
    size = context.tokens * spec.hidden_size // context.stream
    parts: list[Value] = []
    for unit in all_units:
        layer = Modules(tape, unit, context)
        tables = [parameter for parameter in unit.parameters if parameter.kind is Kind.EMBEDDING]
        parts += [
            tape.operation(
                p.name, (layer.weight(p),), size * p.shape[-1] // spec.hidden_size, width
            )
            for p in tables
        ]
    x = parts[0] if parts else tape.input("embedding", size, width, grad=not workload.uses_adapters)
    if workload.uses_adapters and workload.activation_checkpointing != "none":
        x = tape.leaf("embedding.leaf", x)
    for other in parts[1:]:
        x = tape.add("embedding.sum", x, other)
    for unit in all_units:
        layer = Modules(tape, unit, context)
        for name in layer.norms(inside=False) or layer.norms(inside=True):
            x = layer.norm(name, x)
    if context.traits.scales_embedding:
        x = tape.copy("embedding.scaled", x)
    for unit in all_units:
        layer = Modules(tape, unit, context)
        x = layer.dropout("embedding.dropout", "embedding", x)
        for parameter in layer.linears(
            attention=False
        ):  # from the embeddings' width to the layers' (ALBERT, ELECTRA)
            x = layer.linear(parameter, x)
    return trace_segment("embedding", (), tape, x, x, all_units, workload, checkpointed="none")


def head_segment(
    ends: list[Unit],
    decoder: list[Unit],
    spec: ModelSpec,
    context: LayerContext,
    workload: TrainingWorkload,
) -> Segment:
    """Trace final norm, logits and loss in fp32 (loss_utils.py, ForCausalLMLoss)."""
    tape, width = tape_of(workload), stream_width(workload)
    x = start = tape.input(
        "hidden", context.tokens * spec.hidden_size // context.stream, width, grad=True
    )
    if spec.task == "generate":
        for unit in ends:
            layer = end_recipe(tape, unit, context, workload)
            for name in layer.norms(inside=False) or layer.norms(inside=True):
                x = layer.norm(name, x)
        if context.traits.norm == "bare":  # has no weight, so no unit names it
            x = end_recipe(tape, decoder[0], context, workload).norm("norm", x)
    else:
        x = written_head(tape, x, ends, spec, context)
    if context.saves_gathered and context.stream > 1:
        x = tape.copy("hidden.gathered", x, x.elements * context.stream)
    kinds = (Kind.EMBEDDING,) if spec.tied_embeddings else (Kind.HEAD,)
    all_units = next(
        ((unit, p) for unit in decoder for p in unit.parameters if p.kind in kinds), None
    )
    vocabulary = -(-spec.vocabulary_size // context.heads)
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
    tokens = context.tokens
    if workload.logits_tokens is not None and workload.logits_tokens < workload.sequence_length:
        tokens = context.batch * -(-workload.logits_tokens // workload.context_parallel)
        x = tape.copy("hidden.kept", x, tokens * spec.hidden_size)
    if all_units is None:
        weight = tape.parameter(
            "head", vocabulary * spec.hidden_size, width, trained=not workload.uses_adapters
        )
    else:
        weight = Modules(tape, all_units[0], context).weight(all_units[1])
    logits, loss = loss_of(
        tape, x, weight, tokens, vocabulary, spec.hidden_size, context.traits, workload
    )
    head = trace_segment(
        "head", (), tape, start, loss, ends, workload, checkpointed="none", logits=logits
    )
    return msgspec.structs.replace(head, logits=0) if workload.keeps_output else head
