"""T5 and its kin: mT5, umT5 and T5Gemma.

Encoder and decoder share the word embeddings; positions are biases by distance, kept in the
first layer of each stack (in every layer of umT5), so the architecture bounds no length:
`n_positions` (512) is what T5 was trained on. T5Gemma joins two Gemma 2 stacks instead. Source:
transformers 5.23, `models/{t5,mt5,umt5,t5gemma}/modeling_*.py` and the defaults of their
configuration classes."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader, architecture_name, readers
from fitgauge.engine.model.families.encoder.encoder_decoder import mixers, spec_of
from fitgauge.engine.model.families.encoder.heads import classification_head, label_count
from fitgauge.engine.model.mixers import plain_attention
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, Split, Tensor


@dataclass(frozen=True)
class Defaults:
    """Defaults of a configuration class."""

    vocabulary: int = 32128
    """Rows of the embedding."""
    intermediate: int = 2048
    """Width of the MLP."""
    layers: int = 6
    """Layers of each stack."""
    heads: int = 8
    """Attention heads."""
    feed_forward: str = "relu"
    """The MLP's activation, `gated-` before it where it is gated."""
    bias_everywhere: bool = False
    """Whether every layer has its own table of distances (umT5)."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of one T5."""

    width: int
    """Hidden size."""
    intermediate: int
    """Width of the MLP."""
    heads: int
    """Attention heads."""
    head_dim: int
    """Features of a head."""
    gated: bool
    """Whether the MLP is gated."""
    buckets: int
    """Rows of a table of relative distances."""


def read_t5(config: Config, defaults: Defaults) -> ModelSpec:
    """Return the ModelSpec of a T5. Raises MalformedModelError where a size is absurd.

    A config that says `tie_word_embeddings: false` (T5 v1.1, Flan-T5, mT5) has a head of its own
    in its checkpoint, which transformers keeps when it loads one (`tie_weights` in
    modeling_utils.py), although its configuration class sets the flag."""
    sizes = Sizes(
        width=config.integer("d_model", "hidden_size", default=512, low=1),
        intermediate=config.integer("d_ff", default=defaults.intermediate, low=1),
        heads=config.integer("num_heads", default=defaults.heads, low=1),
        head_dim=config.integer("d_kv", default=64, low=1),
        gated=config.text("feed_forward_proj", default=defaults.feed_forward).startswith("gated"),
        buckets=config.integer("relative_attention_num_buckets", default=32),
    )
    vocabulary = config.integer("vocab_size", default=defaults.vocabulary, low=1)
    name = architecture_name(config)
    layers = config.integer("num_layers", default=defaults.layers, high=4096)
    longest = config.integer("n_positions", default=512)
    encoder_only = name.endswith(("EncoderModel", "ForTokenClassification"))
    tied = config.flag("tie_word_embeddings", default=True)
    decoder = config.integer("num_decoder_layers", default=layers, high=4096)
    bias = defaults.bias_everywhere
    part = Part.LANGUAGE if encoder_only else Part.ENCODER
    blocks = [
        parts.embedding(vocabulary, sizes.width, "shared"),
        *t5_stack(part, "encoder", sizes, layers, bias_everywhere=bias),
    ]
    if not encoder_only:
        blocks += t5_stack(
            Part.LANGUAGE, "decoder", sizes, decoder, bias_everywhere=bias, source_tokens=longest
        )
    return spec_of(
        config,
        (*blocks, *t5_head(config, name, vocabulary, sizes.width, tied=tied)),
        width=sizes.width,
        vocabulary=vocabulary,
        context=longest,
        source=f"a source of {longest} tokens a request (n_positions)",
        encoder_only=encoder_only,
    )


def t5_stack(
    part: Part,
    name: str,
    sizes: Sizes,
    layers: int,
    *,
    bias_everywhere: bool,
    source_tokens: int | None = None,
) -> tuple[Block, ...]:
    """Return one stack's layers and the norm after them."""
    stack = [
        t5_layer(sizes, source_tokens, table=index == 0 or bias_everywhere)
        for index in range(layers)
    ]
    return (
        *parts.blocks(part, name + ".block.{}.", stack),
        parts.single(part, parts.norm("final_layer_norm", sizes.width), f"{name}."),
    )


def t5_layer(sizes: Sizes, source_tokens: int | None, *, table: bool) -> parts.Layer:
    """Self-attention, in a decoder cross-attention, and the MLP, each after its norm, without
    any bias."""
    dim, width = sizes.head_dim, sizes.width
    own = plain_attention(sizes.heads, dim, causal=source_tokens is not None)
    tensors = [
        *t5_attention(sizes, "layer.0.SelfAttention"),
        *parts.norm("layer.0.layer_norm", width),
    ]
    if table:
        tensors += [
            Tensor(
                "layer.0.SelfAttention.relative_attention_bias.weight",
                (sizes.buckets, sizes.heads),
                Kind.OTHER,
            )
        ]
    if source_tokens is not None:
        tensors += [
            *t5_attention(sizes, "layer.1.EncDecAttention"),
            *parts.norm("layer.1.layer_norm", width),
        ]
    last = "layer.1" if source_tokens is None else "layer.2"
    tensors += [*t5_mlp(sizes, f"{last}.DenseReluDense"), *parts.norm(f"{last}.layer_norm", width)]
    return parts.Layer(
        tuple(tensors),
        mixers(own, source_tokens),
        Mlp(intermediate_size=sizes.intermediate, gated=sizes.gated),
    )


def t5_attention(sizes: Sizes, name: str) -> tuple[Tensor, ...]:
    """q, k and v of heads x head_dim, which need not be the model's width, and o back to it."""
    inner, heads = sizes.heads * sizes.head_dim, sizes.heads
    inputs = [
        tensor
        for key in "qkv"
        for tensor in parts.linear(f"{name}.{key}", inner, sizes.width, Split.COLUMN, units=heads)
    ]
    return (*inputs, *parts.linear(f"{name}.o", sizes.width, inner, Split.ROW, units=heads))


def t5_mlp(sizes: Sizes, name: str) -> tuple[Tensor, ...]:
    """wi and wo, or wi_0 (gate), wi_1 and wo."""
    ups = ("wi_0", "wi_1") if sizes.gated else ("wi",)
    inputs = [
        tensor
        for up in ups
        for tensor in parts.linear(f"{name}.{up}", sizes.intermediate, sizes.width, Split.COLUMN)
    ]
    return (*inputs, *parts.linear(f"{name}.wo", sizes.width, sizes.intermediate, Split.ROW))


def t5_head(
    config: Config, name: str, vocabulary: int, width: int, *, tied: bool
) -> tuple[Block, ...]:
    """Return the language-model head unless it is tied, or a classifier."""
    labels = label_count(config)
    if name.endswith("ForSequenceClassification"):
        return (classification_head(width, labels),)
    if name.endswith(("ForTokenClassification", "ForQuestionAnswering")):
        return (parts.single(Part.HEAD, parts.linear("classifier", labels, width, bias=True)),)
    return parts.head(vocabulary, width, tied=tied or name.endswith("Model"))


def read_t5gemma(config: Config) -> ModelSpec:
    """T5Gemma: two stacks of Gemma 2 layers, each with its own embeddings, the decoder with
    cross-attention. Its head is tied."""
    encoder, decoder = config.section("encoder"), config.section("decoder")
    name = architecture_name(config)
    tied = config.flag("tie_word_embeddings", default=True)
    vocabulary = decoder.integer("vocab_size", default=256000)
    width = decoder.integer("hidden_size", default=2304, low=1)
    source = encoder.integer("max_position_embeddings", default=8192)
    encoder_only = name.endswith("EncoderModel")
    part = Part.LANGUAGE if encoder_only else Part.ENCODER
    blocks = [*gemma_stack(part, "encoder", encoder)]
    if not encoder_only:
        read = encoder.integer("hidden_size", default=2304)
        blocks += gemma_stack(Part.LANGUAGE, "decoder", decoder, source, read)
        headless = tied or name.endswith("Model")
        blocks += parts.head(vocabulary, width, tied=headless, name="lm_head.out_proj")
    return spec_of(
        config,
        tuple(blocks),
        width=width,
        vocabulary=vocabulary,
        context=decoder.integer("max_position_embeddings", default=8192),
        source=f"the longest source, {source} tokens a request",
        dtype="BF16",
        encoder_only=encoder_only,
    )


def gemma_stack(
    part: Part, name: str, config: Config, source_tokens: int | None = None, source_width: int = 0
) -> tuple[Block, ...]:
    """Embeddings, layers that alternate between a sliding window and full attention, and the
    last norm of one stack."""
    width = config.integer("hidden_size", default=2304, low=1)
    layers = config.layers() if config.has("num_hidden_layers") else 26
    kinds = config.items("layer_types", length=layers) or [
        "full_attention" if index % 2 else "sliding_attention" for index in range(layers)
    ]
    window = config.integer("sliding_window", default=4096)
    stack = [
        gemma_layer(
            config,
            width,
            window if kind == "sliding_attention" else None,
            source_tokens,
            source_width,
        )
        for kind in kinds
    ]
    return (
        parts.embedding(
            config.integer("vocab_size", default=256000), width, f"model.{name}.embed_tokens"
        ),
        *parts.blocks(part, f"model.{name}.layers.{{}}.", stack),
        parts.single(part, parts.norm("norm", width), f"model.{name}."),
    )


def gemma_layer(
    config: Config, width: int, window: int | None, source_tokens: int | None, source_width: int
) -> parts.Layer:
    """Return a norm before and after self-attention, cross-attention (in a decoder) and the
    gated MLP."""
    heads = config.integer("num_attention_heads", default=8, low=1)
    kv_heads = config.integer("num_key_value_heads", default=4, low=1)
    dim = config.integer("head_dim", default=256, low=1)
    own = plain_attention(
        heads, dim, kv_heads=kv_heads, window=window, causal=source_tokens is not None
    )
    bias = config.flag("attention_bias")
    intermediate = config.integer("intermediate_size", default=9216)
    norms = ["pre_self_attn", "post_self_attn", "pre_feedforward", "post_feedforward"]
    tensors = list(parts.attention(width, own, qkv_bias=bias, out_bias=bias))
    if source_tokens is not None:
        norms += ["pre_cross_attn", "post_cross_attn"]
        for tensor in parts.attention(width, own, name="cross_attn", qkv_bias=bias, out_bias=bias):
            reads_source = tensor.name in ("cross_attn.k_proj.weight", "cross_attn.v_proj.weight")
            tensors.append(
                msgspec.structs.replace(tensor, shape=(tensor.shape[0], source_width))
                if reads_source
                else tensor
            )
    tensors += [tensor for name in norms for tensor in parts.norm(f"{name}_layernorm", width)]
    tensors += parts.gated_mlp(width, intermediate)
    return parts.Layer(
        tuple(tensors), mixers(own, source_tokens), Mlp(intermediate_size=intermediate)
    )


DEFAULTS: Mapping[str, Defaults] = {
    "t5": Defaults(),
    "mt5": Defaults(
        vocabulary=250112, intermediate=1024, layers=8, heads=6, feed_forward="gated-gelu"
    ),
    "umt5": Defaults(
        vocabulary=250112,
        intermediate=1024,
        layers=8,
        heads=6,
        feed_forward="gated-gelu",
        bias_everywhere=True,
    ),
}


READERS: dict[str, Reader] = {**readers(read_t5, DEFAULTS), "t5gemma": read_t5gemma}
