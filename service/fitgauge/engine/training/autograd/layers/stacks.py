"""Encoders and encoder-decoders: BERT, BART, T5, Whisper and their kin, written on a tape as
transformers' modelling code calls them.

A layer is attention, in a decoder cross-attention, and an MLP, each with a norm before it or
after its sum with the stream. The source of an encoder-decoder is as long as `sequence_length`,
except where it is a spectrogram, whose length the model fixes. Source: transformers 5.23,
models/{bert,distilbert,mpnet,modernbert,nomic_bert,bart,m2m_100,whisper,t5}/modeling_*.py."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.mixers import Attention, CrossAttention
from fitgauge.engine.model.spec import Kind, ModelSpec, Part
from fitgauge.engine.training.autograd.layers.layer import Layer
from fitgauge.engine.training.autograd.layers.modules import LayerContext, Modules
from fitgauge.engine.training.autograd.operations import FLOAT, Value
from fitgauge.engine.training.autograd.segment import Segment, stream_width, tape_of, trace_segment
from fitgauge.engine.training.autograd.tape import Pass, Tape
from fitgauge.engine.training.states.optimizer_states import gradient_dtype
from fitgauge.engine.training.states.parameters import Unit
from fitgauge.engine.training.workload import TrainingWorkload

_CROSS = ("encoder_attn", "EncDecAttention", "cross_attn")
_MEL_FRAMES = 2
"""Frames of a spectrogram for every position of the encoder: the second convolution's stride
(WhisperEncoder)."""


class StackLayer(Layer):
    """A layer of an encoder, or of a decoder with one, which reads `source`: the encoder's
    output, counted with the encoder."""

    def __init__(
        self, tape: Tape, unit: Unit, context: LayerContext, source: Value | None = None
    ) -> None:
        super().__init__(tape, unit, context)
        self.source = source

    def forward(self, x: Value) -> Value:
        """Attention, cross-attention where there is a source, MLP; as `unknown` where the
        tensors are others."""
        own = next(
            (mixer for mixer in self.unit.block.mixers if isinstance(mixer, Attention)), None
        )
        across = [
            parameter
            for parameter in self.linears(attention=True)
            if any(name in parameter.name for name in _CROSS)
        ]
        mine = [parameter for parameter in self.linears(attention=True) if parameter not in across]
        if (
            own is None
            or len(mine) not in (2, 4)
            or len(self.linears(attention=False)) not in (2, 3)
        ):
            return self.unknown(x)
        norms = [
            p.name.removesuffix(".weight")
            for p in self.unit.parameters
            if p.kind is Kind.NORM and p.name.endswith(".weight")
        ]
        norms = [""] * (2 + bool(across) - len(norms)) + norms
        x = self._added("attention", x, norms[0], lambda y: self.attention(y, own, mine))
        if across:
            other = msgspec.structs.replace(own, causal=False)
            x = self._added(
                "cross_attention",
                x,
                norms[1],
                lambda y: self.attention(y, other, across, self.source),
            )
        return self._added("mlp", x, norms[-1], self.feed_forward)

    def _added(self, name: str, x: Value, norm: str, branch: Callable[[Value], Value]) -> Value:
        after = self.traits.norms_after
        x = self.tape.add(
            f"{name}.residual", x, branch(x if after or not norm else self.norm(norm, x))
        )
        return self.norm(norm, x) if after and norm else x

    def eager(self, q: Value, k: Value, v: Value, heads: int, mixer: Attention) -> Value:
        """Return scores written out; DeBERTa's with two more: contents by positions, positions
        by contents (DisentangledSelfAttention)."""
        if not self.context.relative:
            return super().eager(q, k, v, heads, mixer)
        tape, count = self.tape, self.context.tokens * self.context.keys * heads
        scores = tape.matmul("attention.scores", q, tape.copy("key.scaled", k), count)
        rows = self.context.relative
        relative = tape.constant("relative", rows * self.context.hidden, q.width, grad=True)
        relative = tape.operation(
            "relative.dropout",
            (relative,),
            relative.elements,
            q.width,
            extra=[("relative.dropout.mask", relative.elements, 1)],
        )
        projections = self.linears(attention=True)
        for name, content, parameter in (("key", q, projections[1]), ("query", k, projections[0])):
            positions = self.linear(parameter, relative, rows)
            repeated = tape.copy(
                f"relative.{name}_repeated", positions, self.context.batch * positions.elements
            )
            product = tape.matmul(
                f"attention.by_relative_{name}",
                content,
                repeated,
                self.context.tokens * heads * rows,
            )
            index = [(f"relative.{name}_index", self.context.sequence * self.context.keys, 8)]
            gathered = tape.operation(
                f"attention.gathered_{name}",
                (product,),
                count,
                q.width,
                saves=(product,),
                extra=index,
            )
            scores = tape.add(
                "attention.summed", scores, tape.copy(f"attention.scaled_{name}", gathered)
            )
        mask = [("attention.mask", self.context.tokens * self.context.keys, 1)]
        scores = tape.operation("attention.masked", (scores,), count, scores.width, extra=mask)
        wide = tape.to(scores, FLOAT, "attention.float") if tape.compute else scores
        weights = tape.to(
            tape.pointwise("attention.softmax", wide, of_output=True), q.width, "attention.weights"
        )
        weights = self.dropout("attention.weights_dropout", "weights", weights)
        return tape.copy(
            "attention.output",
            tape.matmul(
                "attention.product", weights, v, self.context.tokens * heads * mixer.value_dim
            ),
        )

    def keys(self, k: Value, mixer: Attention, heads: int) -> int:
        """As many as there are: a decoder's queries also meet those of the source."""
        return k.elements // (mixer.head_dim * heads * self.context.batch)

    def explicit(self, mixer: Attention) -> bool:
        """Return whether a decoder with an encoder gets its causal mask as a tensor
        (create_causal_mask with a cache of two parts)."""
        return mixer.causal and self.source is not None and self.traits.explicit_mask


def speech(spec: ModelSpec) -> bool:
    """Return whether the source is a spectrogram."""
    return any(
        tensor.kind is Kind.CONV
        for block in spec.blocks
        if block.part is Part.ENCODER
        for tensor in block.tensors
    )


def source_tokens(spec: ModelSpec, context: LayerContext) -> int:
    """Return the tokens of a source: as many as of the sequence, or what a spectrogram's encoder
    is made for."""
    fixed = next(
        (
            m.source_tokens
            for block in spec.blocks
            for m in block.mixers
            if isinstance(m, CrossAttention)
        ),
        context.sequence,
    )
    return fixed if speech(spec) else context.sequence


def source_segments(
    all_units: list[Unit], spec: ModelSpec, context: LayerContext, workload: TrainingWorkload
) -> list[Segment]:
    """Return the encoder of an encoder-decoder: its embeddings, its layers, what follows them."""
    tokens, width = source_tokens(spec, context), stream_width(workload)
    encoder_context = replace(context, sequence=tokens, keys=tokens)
    size = encoder_context.tokens * spec.hidden_size
    units = [unit for unit in all_units if unit.part is Part.ENCODER]
    around = [unit for unit in units if not unit.repeated]
    tables = [unit for unit in all_units if unit.part is Part.EMBEDDING]
    first = embedded(
        tables[:1], around, spec, encoder_context, workload, counted=[*around, *tables[:-1]]
    )
    line = [again(first, tables[0], workload) if len(tables) == 1 and not speech(spec) else first]
    line += _layers([unit for unit in units if unit.repeated], size, encoder_context, workload)
    tape = tape_of(workload)
    x = y = tape.input("hidden", size, width, grad=True)
    for unit in around:
        y = final(Modules(tape, unit, encoder_context), y)
    if y is not x:
        return [
            *line,
            trace_segment("encoder.end", (), tape, x, y, [], workload, checkpointed="none"),
        ]
    return line


def _layers(
    all_units: list[Unit], size: int, context: LayerContext, workload: TrainingWorkload
) -> list[Segment]:
    """Return a segment for every layer of an encoder, in order: those made alike are simulated
    once, the first of a frozen base by itself."""
    frozen = workload.uses_adapters and workload.activation_checkpointing == "none"
    traced: dict[tuple[int, bool], Segment] = {}
    line = []
    for number, kind in sorted(
        (number, kind) for kind, unit in enumerate(all_units) for number in unit.layers
    ):
        key, unit = (kind, not (frozen and number == 0)), all_units[kind]
        if key not in traced:
            tape = tape_of(workload)
            x = tape.input("hidden", size, stream_width(workload), grad=key[1])
            y = StackLayer(tape, unit, context).forward(x)
            traced[key] = trace_segment(
                unit.prefix,
                (),
                tape,
                x,
                y,
                [unit],
                workload,
                checkpointed=workload.activation_checkpointing,
            )
        line.append(traced[key])
    return line


def embedded(
    tables: list[Unit],
    around: list[Unit],
    spec: ModelSpec,
    context: LayerContext,
    workload: TrainingWorkload,
    *,
    counted: list[Unit],
) -> Segment:
    """Return words (or a spectrogram through two convolutions), learned positions, a norm after
    them, dropout.

    `counted`: the units whose gradients no other segment counts.
    """
    tape, width = tape_of(workload), stream_width(workload)
    size = context.tokens * spec.hidden_size
    named = {parameter.name: (unit, parameter) for unit in around for parameter in unit.parameters}
    if "conv1.weight" in named:
        first, second = (
            Modules(tape, unit, context).weight(p)
            for unit, p in (named["conv1.weight"], named["conv2.weight"])
        )
        x = spectrogram(tape, first, second, size, width)
    else:
        words = next(
            (unit, p) for unit in tables for p in unit.parameters if p.kind is Kind.EMBEDDING
        )
        x = tape.operation(
            "words", (Modules(tape, words[0], context).weight(words[1]),), size, width
        )
        if workload.uses_adapters and workload.activation_checkpointing != "none":
            x = tape.leaf("words.leaf", x)
    if "embed_positions.weight" in named:
        unit, table = named["embed_positions.weight"]
        positions = tape.operation(
            "positions",
            (Modules(tape, unit, context).weight(table),),
            context.sequence * spec.hidden_size,
            width,
        )
        x = tape.add("embedding.sum", x, positions)
    if "layernorm_embedding.weight" in named:
        x = Modules(tape, named["layernorm_embedding.weight"][0], context).norm(
            "layernorm_embedding", x
        )
    if around:
        x = Modules(tape, around[0], context).dropout("embedding.dropout", "embedding", x)
    return trace_segment("embedding", (), tape, x, x, counted, workload, checkpointed="none")


def again(segment: Segment, words: Unit, workload: TrainingWorkload) -> Segment:
    """Return a segment whose gradient of the words meets one that is there already: their sum is
    a third, and one of them stays."""
    size = sum(
        size_of(p.elements, gradient_dtype(p, workload))
        for p in words.parameters
        if p.trained and p.kind is Kind.EMBEDDING
    )
    backward = Pass(peak=segment.backward.peak + size, end=segment.backward.end - size)
    return msgspec.structs.replace(segment, backward=backward)


def spectrogram(tape: Tape, first: Value, second: Value, size: int, width: int) -> Value:
    """gelu(conv(gelu(conv(mel)))): the first convolution at every frame, the second at every
    other one (WhisperEncoder.forward)."""
    mel = tape.constant("mel", 1, width)
    early = tape.matmul("conv1", mel, first, _MEL_FRAMES * size)
    return tape.pointwise(
        "conv2.gelu", tape.matmul("conv2", tape.pointwise("conv1.gelu", early), second, size)
    )


def final(modules: Modules, x: Value) -> Value:
    """Return the norm at a stack's end, where it has one, and dropout."""
    for name in modules.norms(inside=False):
        if name != "layernorm_embedding":
            x = modules.norm(name, x)
    return modules.dropout("final.dropout", "final", x)


def written_head(
    tape: Tape, x: Value, ends: list[Unit], spec: ModelSpec, context: LayerContext
) -> Value:
    """Return what an encoder has between its layers and its logits: a dense layer, gelu, a norm."""
    for unit in ends:
        modules = Modules(tape, unit, context)
        if unit.part is not Part.HEAD:
            x = final(modules, x)
            continue
        dense = next(
            (
                p
                for p in unit.parameters
                if p.kind is Kind.LINEAR and "dense" in p.name and "pooler" not in p.name
            ),
            None,
        )
        if dense is not None and reads_vocabulary(spec):
            x = modules.activation(modules.linear(dense, x))
        for name in modules.norms(inside=True):
            x = modules.norm(name, x)
    return x


def bias_bytes(spec: ModelSpec, context: LayerContext, workload: TrainingWorkload) -> int:
    """Return the bytes of T5's trained biases by distance (heads x s x s), one for each kind of
    attention. SDPA and checkpoints save them; eager scores add them and save nothing."""
    saved = workload.activation_checkpointing != "none" or not context.traits.eager(
        context.attention
    )
    if not context.traits.position_bias or not saved:
        return 0
    kinds = 1 if spec.task == "encode" else 3
    return (
        kinds
        * max(1, spec.query_heads // context.heads)
        * context.sequence
        * context.keys
        * context.table_width
    )


def pooled_loss(tape: Tape, x: Value) -> Value:
    """Return a loss over hidden states, pooled or of one token: its gradient is as large as they
    are, and the caller holds them."""
    tape.keep(x)
    return tape.operation("loss", (x,), 1, FLOAT)


def reads_vocabulary(spec: ModelSpec) -> bool:
    """Return whether an architecture ends in logits over the vocabulary: a decoder does, an
    encoder whose head has a number for every word."""
    heads = (tensor for block in spec.blocks if block.part is Part.HEAD for tensor in block.tensors)
    return spec.task != "encode" or any(tensor.shape[0] == spec.vocabulary_size for tensor in heads)
