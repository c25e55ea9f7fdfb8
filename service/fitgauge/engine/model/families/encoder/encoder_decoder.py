"""Encoder-decoders of the BART shape: BART, mBART, Pegasus, Marian, M2M-100 (NLLB) and Whisper.

An encoder reads the source once; every decoder layer attends to its own past and, with keys and
values kept for the whole request, to the encoder's output. A `Dialect` says where a family
departs from BART. Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and
the defaults of its configuration class."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import architecture_name, readers
from fitgauge.engine.model.families.encoder.heads import classification_head, label_count
from fitgauge.engine.model.mixers import Attention, CrossAttention, plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, Tensor
from fitgauge.engine.note import Note


@dataclass(frozen=True)
class Dialect:
    """Where a family departs from BART; the numbers are the defaults of its configuration class."""

    positions: Literal["learned", "exact", "none"] = "learned"
    """A learned table with two rows to spare, one of exactly as many rows as positions, or no
    stored table."""
    final_norm: bool = True
    """Whether each stack ends in a norm."""
    embedding_norm: bool = False
    """Whether its embeddings are normed."""
    key_bias: bool = True
    """Whether key projections have a bias."""
    speech: bool = False
    """Whether the source is a spectrogram (Whisper)."""
    labels: int = 2
    """Classes of a sequence classification head."""
    vocabulary: int = 50265
    """Rows of the embedding."""
    width: int = 1024
    """Hidden size."""
    layers: int = 12
    """Layers of each stack."""
    heads: int = 16
    """Attention heads."""
    intermediate: int = 4096
    """Width of the MLP."""


@dataclass(frozen=True)
class Stack:
    """The sizes of one side."""

    name: str
    """`encoder` or `decoder`, as tensors are named."""
    width: int
    """Hidden size."""
    layers: int
    """Number of layers."""
    heads: int
    """Attention heads."""
    intermediate: int
    """Width of the MLP."""
    positions: int
    """Rows of the position table."""
    key_bias: bool
    """Whether key projections have a bias."""
    source_tokens: int | None = None
    """Tokens of the encoder's output that a decoder attends to; None for an encoder."""

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.width // self.heads


def read_bart(config: Config, dialect: Dialect) -> ModelSpec:
    """Return the ModelSpec of a BART-shaped encoder-decoder. Raises MalformedModelError where a
    size is absurd."""
    width = config.integer("d_model", "hidden_size", default=dialect.width, low=1)
    vocabulary = config.integer("vocab_size", default=dialect.vocabulary, low=1)
    source = config.integer(
        "max_source_positions" if dialect.speech else "max_position_embeddings",
        default=1500 if dialect.speech else 1024,
    )
    target = config.integer("max_target_positions", default=448) if dialect.speech else source
    encoder = read_stack(config, dialect, "encoder", width, source)
    decoder = read_stack(config, dialect, "decoder", width, target, source_tokens=source)
    blocks = (
        *word_embeddings(config, dialect, vocabulary, width),
        *stack_blocks(
            Part.ENCODER, encoder, dialect, spectrogram(config, width) if dialect.speech else ()
        ),
        *stack_blocks(Part.LANGUAGE, decoder, dialect),
        *output(config, dialect, vocabulary, width),
    )
    longest = f"the longest source, {source} tokens a request"
    return spec_of(
        config, blocks, width=width, vocabulary=vocabulary, context=target, source=longest
    )


def spec_of(
    config: Config,
    blocks: tuple[Block, ...],
    *,
    width: int,
    vocabulary: int,
    context: int,
    source: str,
    dtype: str = "F32",
    encoder_only: bool = False,
) -> ModelSpec:
    """Return what the ModelSpec of an encoder-decoder says, and that of its encoder alone.
    source: what cross-attention is sized for; dtype: of a config that names none."""
    sized = f"Cross-attention is sized for {source}."
    note = Note("source-length-assumed", "context_length", sized)
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        task="encode" if encoder_only else "encoder_decoder",
        dtype=config.dtype(dtype),
        hidden_size=width,
        vocabulary_size=vocabulary,
        max_context_length=context,
        tied_embeddings=config.flag("tie_word_embeddings", default=True),
        blocks=blocks,
        notes=() if encoder_only else (note,),
    )


def read_stack(
    config: Config,
    dialect: Dialect,
    name: str,
    width: int,
    positions: int,
    source_tokens: int | None = None,
) -> Stack:
    """Return the sizes of the stack called `name`."""
    return Stack(
        name=name,
        width=width,
        layers=config.integer(f"{name}_layers", default=dialect.layers, high=4096),
        heads=config.integer(f"{name}_attention_heads", default=dialect.heads, low=1),
        intermediate=config.integer(f"{name}_ffn_dim", default=dialect.intermediate, low=1),
        positions=positions,
        key_bias=dialect.key_bias,
        source_tokens=source_tokens,
    )


def word_embeddings(
    config: Config, dialect: Dialect, vocabulary: int, width: int
) -> tuple[Block, ...]:
    """Return one table for both sides; Marian may keep one for each, the target's of
    `decoder_vocab_size` words."""
    if dialect.speech:
        return (parts.embedding(vocabulary, width, "model.decoder.embed_tokens"),)
    if config.flag("share_encoder_decoder_embeddings", default=True):
        return (parts.embedding(vocabulary, width, "model.shared"),)
    target = config.integer("decoder_vocab_size", default=vocabulary)
    return (
        parts.embedding(vocabulary, width, "model.encoder.embed_tokens"),
        parts.embedding(target, width, "model.decoder.embed_tokens"),
    )


def stack_blocks(
    part: Part, stack: Stack, dialect: Dialect, first: tuple[Tensor, ...] = ()
) -> tuple[Block, ...]:
    """Return the tensors around the layers (`first` among them), then the layers."""
    rows = stack.positions + 2 if dialect.positions == "learned" else stack.positions
    around = [*first]
    if dialect.positions != "none":
        around += [Tensor("embed_positions.weight", (rows, stack.width), Kind.EMBEDDING)]
    if dialect.embedding_norm:
        around += parts.norm("layernorm_embedding", stack.width, bias=True)
    if dialect.final_norm:
        around += parts.norm("layer_norm", stack.width, bias=True)
    prefix = f"model.{stack.name}."
    outside = (parts.single(part, around, prefix),) if around else ()
    return (
        *outside,
        *parts.blocks(part, prefix + "layers.{}.", [stack_layer(stack)] * stack.layers),
    )


def stack_layer(stack: Stack) -> parts.Layer:
    """Self-attention, in a decoder cross-attention, and the MLP, each with its norm."""
    width, heads, dim = stack.width, stack.heads, stack.head_dim
    own = plain_attention(heads, dim, causal=stack.source_tokens is not None)
    tensors = [
        *biased_attention(own, width, "self_attn", key_bias=stack.key_bias),
        *parts.norm("self_attn_layer_norm", width, bias=True),
    ]
    if stack.source_tokens is not None:
        tensors += biased_attention(own, width, "encoder_attn", key_bias=stack.key_bias)
        tensors += parts.norm("encoder_attn_layer_norm", width, bias=True)
    tensors += parts.plain_mlp(width, stack.intermediate, "fc1", "fc2")
    tensors += parts.norm("final_layer_norm", width, bias=True)
    return parts.Layer(
        tuple(tensors),
        mixers(own, stack.source_tokens),
        Mlp(intermediate_size=stack.intermediate, gated=False),
    )


def mixers(
    own: Attention, source_tokens: int | None
) -> tuple[Attention] | tuple[Attention, CrossAttention]:
    """Return what a layer keeps: an encoder's nothing, a decoder's its past and the source's
    keys and values."""
    if source_tokens is None:
        return (own,)
    cross = CrossAttention(
        query_heads=own.query_heads,
        kv_heads=own.kv_heads,
        head_dim=own.head_dim,
        source_tokens=source_tokens,
    )
    return (own, cross)


def biased_attention(
    mixer: Attention, width: int, name: str, *, key_bias: bool
) -> tuple[Tensor, ...]:
    """Query, key, value and output with biases; Whisper's key has none."""
    tensors = parts.attention(width, mixer, name=name, out="out_proj", qkv_bias=True, out_bias=True)
    if key_bias:
        return tensors
    return tuple(tensor for tensor in tensors if tensor.name != f"{name}.k_proj.bias")


def spectrogram(config: Config, width: int) -> tuple[Tensor, ...]:
    """Whisper's two convolutions of kernel 3 over the mel bins."""
    bins = config.integer("num_mel_bins", default=80)
    return (
        Tensor("conv1.weight", (width, bins, 3), Kind.CONV),
        Tensor("conv1.bias", (width,), Kind.BIAS),
        Tensor("conv2.weight", (width, width, 3), Kind.CONV),
        Tensor("conv2.bias", (width,), Kind.BIAS),
    )


def output(config: Config, dialect: Dialect, vocabulary: int, width: int) -> tuple[Block, ...]:
    """Return the head: tied to the embeddings, or a classifier over the decoder's last token
    (BART as a zero-shot classifier)."""
    name = architecture_name(config)
    if name.endswith("ForSequenceClassification"):
        return (classification_head(width, label_count(config, dialect.labels)),)
    if name.endswith("ForQuestionAnswering"):
        return (parts.single(Part.HEAD, parts.linear("qa_outputs", 2, width, bias=True)),)
    headless = name.endswith("Model") and not name.endswith("MTModel")
    return parts.head(
        vocabulary, width, tied=headless or config.flag("tie_word_embeddings", default=True)
    )


DIALECTS: Mapping[str, Dialect] = {
    "bart": Dialect(final_norm=False, embedding_norm=True, labels=3),
    "mbart": Dialect(embedding_norm=True),
    "pegasus": Dialect(positions="exact"),
    "marian": Dialect(positions="exact", final_norm=False, vocabulary=58101),
    "m2m_100": Dialect(positions="none", vocabulary=128112),
    "whisper": Dialect(
        positions="exact",
        key_bias=False,
        speech=True,
        vocabulary=51865,
        width=384,
        layers=4,
        heads=6,
        intermediate=1536,
    ),
}


READERS = readers(read_bart, DIALECTS)
