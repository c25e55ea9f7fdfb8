"""DeBERTa: an encoder whose attention treats what a word is and where it stands apart, through a
table of relative positions.

Source: transformers 5.23, `models/deberta{,_v2}/modeling_deberta{,_v2}.py` and the defaults of
their configuration classes."""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.encoder.dialects import UNPOOLED, Names, Sizes
from fitgauge.engine.model.families.encoder.encoders import (
    encoder_layer,
    encoder_spec,
    projections,
    read_sizes,
)
from fitgauge.engine.model.families.encoder.heads import heads, is_base
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split, Tensor

_V1 = Sizes(vocabulary=50265)
_V2 = Sizes(vocabulary=128100, hidden=1536, layers=24, heads=24, intermediate=6144)
_V2_NAMES = (
    "attention.self.query_proj",
    "attention.self.key_proj",
    "attention.self.value_proj",
    "attention.output.dense",
)
_HEADS = {
    **UNPOOLED,
    "ForSequenceClassification": "pooler labels",
    "ForMultipleChoice": "pooler choice",
}


def read_v1(config: Config) -> ModelSpec:
    """DeBERTa: one fused QKV projection whose keys have no bias."""
    sizes = read_sizes(config, _V1)
    hidden, units = sizes.hidden, sizes.heads
    fused = (
        *parts.linear("attention.self.in_proj", 3 * hidden, hidden, Split.COLUMN, units=units),
        Tensor("attention.self.q_bias", (hidden,), Kind.BIAS, Split.COLUMN, units),
        Tensor("attention.self.v_bias", (hidden,), Kind.BIAS, Split.COLUMN, units),
        *parts.linear("attention.output.dense", hidden, hidden, Split.ROW, units=units, bias=True),
    )
    kinds = relative_kinds(config)
    relative = (
        *(
            parts.linear("attention.self.pos_proj", hidden, hidden, Split.COLUMN, units=units)
            if "c2p" in kinds
            else ()
        ),
        *(
            parts.linear(
                "attention.self.pos_q_proj", hidden, hidden, Split.COLUMN, units=units, bias=True
            )
            if "p2c" in kinds
            else ()
        ),
    )
    return read_deberta(config, sizes, (*fused, *relative))


def read_v2(config: Config) -> ModelSpec:
    """DeBERTa v2 and v3: separate projections, which relative positions may share."""
    sizes = read_sizes(config, _V2)
    hidden, units, kinds = sizes.hidden, sizes.heads, relative_kinds(config)
    own = (
        [] if config.flag("share_att_key") else [("c2p", "pos_key_proj"), ("p2c", "pos_query_proj")]
    )
    relative = [
        tensor
        for kind, name in own
        if kind in kinds
        for tensor in parts.linear(
            f"attention.self.{name}", hidden, hidden, Split.COLUMN, units=units, bias=True
        )
    ]
    return read_deberta(config, sizes, (*projections(sizes, _V2_NAMES), *relative))


def read_deberta(config: Config, sizes: Sizes, attention: tuple[Tensor, ...]) -> ModelSpec:
    """Return what both versions share around the tensors of their `attention`."""
    plain = encoder_layer(sizes, Names())
    layer = parts.Layer(
        (*attention, *plain.tensors[len(projections(sizes, _V2_NAMES)) :]), plain.mixers, plain.mlp
    )
    prefix = "" if is_base(config) else "deberta."
    return encoder_spec(
        config,
        sizes,
        blocks=(
            embeddings(config, sizes, f"{prefix}embeddings."),
            *relative_positions(config, sizes, f"{prefix}encoder."),
            *parts.blocks(Part.LANGUAGE, prefix + "encoder.layer.{}.", [layer] * sizes.layers),
            *heads(config, sizes, _HEADS),
        ),
        context=sizes.positions,
    )


def embeddings(config: Config, sizes: Sizes, prefix: str) -> Block:
    """Return words, absolute positions where the input is biased by them, token types where
    there are any, and the norm."""
    width, types = sizes.embedding, config.integer("type_vocab_size", default=0)
    tensors = [parts.word_table("word_embeddings", sizes.vocabulary, width)]
    if config.flag("position_biased_input", default=True):
        tensors += [Tensor("position_embeddings.weight", (sizes.positions, width), Kind.EMBEDDING)]
    if types:
        tensors += [Tensor("token_type_embeddings.weight", (types, width), Kind.EMBEDDING)]
    if width != sizes.hidden:
        tensors += parts.linear("embed_proj", sizes.hidden, width)
    return parts.single(
        Part.EMBEDDING, (*tensors, *parts.norm("LayerNorm", sizes.hidden, bias=True)), prefix
    )


def relative_positions(config: Config, sizes: Sizes, prefix: str) -> tuple[Block, ...]:
    """Return the table of relative positions (two rows for every distance or bucket), its norm,
    and the convolution of v2."""
    hidden, tensors = sizes.hidden, list[Tensor]()
    if config.flag("relative_attention"):
        tensors += [
            Tensor(
                "rel_embeddings.weight", (2 * relative_distances(config, sizes), hidden), Kind.OTHER
            )
        ]
    if "layer_norm" in config.text("norm_rel_ebd", default="none").lower():
        tensors += parts.norm("LayerNorm", hidden, bias=True)
    kernel = config.integer("conv_kernel_size", default=0)
    if kernel:
        tensors += [
            Tensor(
                "conv.conv.weight",
                (hidden, hidden // config.integer("conv_groups", default=1, low=1), kernel),
                Kind.CONV,
            )
        ]
        tensors += [
            Tensor("conv.conv.bias", (hidden,), Kind.BIAS),
            *parts.norm("conv.LayerNorm", hidden, bias=True),
        ]
    return (parts.single(Part.LANGUAGE, tensors, prefix),) if tensors else ()


def relative_distances(config: Config, sizes: Sizes) -> int:
    """Buckets where v2 has them, else `max_relative_positions`, else all positions (-1 means
    unset)."""
    buckets = config.integer("position_buckets", default=-1, low=-1)
    furthest = config.integer("max_relative_positions", default=-1, low=-1)
    return next((count for count in (buckets, furthest) if count > 0), sizes.positions)


def relative_kinds(config: Config) -> frozenset[str]:
    """Return which terms the attention adds: content to position (c2p), position to content
    (p2c). A list, or one text with bars."""
    if not config.flag("relative_attention") or not config.has("pos_att_type"):
        return frozenset()
    value = config.values["pos_att_type"]
    words = value.lower().split("|") if isinstance(value, str) else config.items("pos_att_type")
    return frozenset(str(word).strip() for word in words)


READERS: dict[str, Reader] = {"deberta": read_v1, "deberta-v2": read_v2}
