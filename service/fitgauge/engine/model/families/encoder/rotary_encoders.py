"""Encoders with rotary positions and gated MLPs: ModernBERT, Nomic BERT, GTE.

Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and the defaults of its
configuration class."""

from collections.abc import Mapping

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.encoder.dialects import UNPOOLED, Sizes
from fitgauge.engine.model.families.encoder.encoders import encoder_spec, projections, read_sizes
from fitgauge.engine.model.families.encoder.heads import ending, heads, is_base, label_count
from fitgauge.engine.model.families.rotary_tables import rotary_tables
from fitgauge.engine.model.spec import Block, Kind, Mlp, ModelSpec, Part, RotaryTable, Split, Tensor

_NOMIC = {**UNPOOLED, "ForSequenceClassification": "pooler labels"}
_GTE = {**_NOMIC, "ForMaskedLM": "generator"}


def read_modernbert(config: Config) -> ModelSpec:
    """ModernBERT: norms before each half (none before the first attention), fused QKV, GeGLU,
    every third layer global."""
    sizes = read_sizes(
        config, Sizes(vocabulary=50368, layers=22, intermediate=1152, positions=8192, token_types=0)
    )
    shift = config.flag("norm_bias")
    windows = modernbert_windows(config, sizes.layers)
    stack = [
        modernbert_layer(config, sizes, windows[index], first=index == 0)
        for index in range(sizes.layers)
    ]
    prefix = "" if is_base(config) else "model."
    word = parts.word_table("tok_embeddings", sizes.vocabulary, sizes.hidden)
    spec = encoder_spec(
        config,
        sizes,
        blocks=(
            parts.single(
                Part.EMBEDDING,
                (word, *parts.norm("norm", sizes.hidden, bias=shift)),
                f"{prefix}embeddings.",
            ),
            *parts.blocks(Part.LANGUAGE, prefix + "layers.{}.", stack),
            parts.final_norm(sizes.hidden, name=f"{prefix}final_norm", bias=shift),
            *modernbert_head(config, sizes, shift=shift),
        ),
        context=sizes.positions,
    )
    tables = rotary_tables(
        config, sizes.hidden // sizes.heads, positions=sizes.positions, local=True
    )
    return msgspec.structs.replace(spec, rotary_tables=tables)


def modernbert_windows(config: Config, layers: int) -> list[int | None]:
    """Return the tokens a layer reads: `local_attention` (128), or all in every
    `global_attn_every_n_layers`-th (3rd)."""
    window = config.integer("local_attention", default=128)
    kinds = config.items("layer_types", length=layers)
    if kinds:
        return [window if kind == "sliding_attention" else None for kind in kinds]
    every = config.integer("global_attn_every_n_layers", default=3, low=1)
    return [window if index % every else None for index in range(layers)]


def modernbert_layer(
    config: Config, sizes: Sizes, window: int | None, *, first: bool
) -> parts.Layer:
    """Return one layer. The first has no norm before its attention, for the embeddings end with
    one."""
    hidden, shift = sizes.hidden, config.flag("norm_bias")
    bias, mlp_bias = config.flag("attention_bias"), config.flag("mlp_bias")
    return parts.Layer(
        tensors=(
            *(() if first else parts.norm("attn_norm", hidden, bias=shift)),
            *parts.linear(
                "attn.Wqkv", 3 * hidden, hidden, Split.COLUMN, units=sizes.heads, bias=bias
            ),
            *parts.linear("attn.Wo", hidden, hidden, Split.ROW, units=sizes.heads, bias=bias),
            *parts.norm("mlp_norm", hidden, bias=shift),
            *parts.linear("mlp.Wi", 2 * sizes.intermediate, hidden, Split.COLUMN, bias=mlp_bias),
            *parts.linear("mlp.Wo", hidden, sizes.intermediate, Split.ROW, bias=mlp_bias),
        ),
        mixers=(msgspec.structs.replace(sizes.attention, window=window),),
        mlp=Mlp(intermediate_size=sizes.intermediate),
    )


def modernbert_head(config: Config, sizes: Sizes, *, shift: bool) -> tuple[Block, ...]:
    """Return a dense layer and its norm before every head, then the tied output embedding's bias
    or a classifier."""
    end = ending(config, UNPOOLED | {"ForSequenceClassification": "", "ForMultipleChoice": ""})
    hidden = sizes.hidden
    if end == "Model":
        return ()
    dense = parts.linear("head.dense", hidden, hidden, bias=config.flag("classifier_bias"))
    norm = parts.norm("head.norm", hidden, bias=shift)
    if end == "ForMaskedLM":
        output: tuple[Tensor, ...] = ()
        if not config.flag("tie_word_embeddings", default=True):
            output += (
                Tensor("decoder.weight", (sizes.vocabulary, hidden), Kind.HEAD, Split.VOCABULARY),
            )
        if config.flag("decoder_bias", default=True):
            output += (Tensor("decoder.bias", (sizes.vocabulary,), Kind.BIAS, Split.VOCABULARY),)
    else:
        output = parts.linear(
            "classifier",
            1 if end == "ForMultipleChoice" else label_count(config),
            hidden,
            bias=True,
        )
    return (parts.single(Part.HEAD, (*dense, *norm, *output)),)


def read_nomic(config: Config) -> ModelSpec:
    """Nomic BERT: rotary positions, no biases but those of the norms, SwiGLU."""
    sizes = read_sizes(config, Sizes(vocabulary=30528, positions=2048))
    return rotary_encoder(
        config, sizes, "nomic_bert", _NOMIC, attention_bias=False, down_bias=False
    )


def read_gte(config: Config) -> ModelSpec:
    """GTE v1.5 and multilingual (`new` in its own repositories): biases in attention and in the
    MLP's last projection."""
    sizes = read_sizes(config, Sizes(vocabulary=250048, positions=8192, token_types=1))
    return rotary_encoder(config, sizes, "gte", _GTE, attention_bias=True, down_bias=True)


def rotary_encoder(
    config: Config,
    sizes: Sizes,
    base: str,
    head_blocks: Mapping[str, str],
    *,
    attention_bias: bool,
    down_bias: bool,
) -> ModelSpec:
    """BERT with rotary positions and a gated MLP: no position table, gate, up and down in every
    layer."""
    hidden, prefix = sizes.hidden, "" if is_base(config) else f"{base}."
    tables = (
        parts.word_table("word_embeddings", sizes.vocabulary, hidden),
        *(
            (Tensor("token_type_embeddings.weight", (sizes.token_types, hidden), Kind.EMBEDDING),)
            if sizes.token_types
            else ()
        ),
    )
    gate, up, down = parts.gated_mlp(hidden, sizes.intermediate)
    shift = (Tensor("mlp.down_proj.bias", (hidden,), Kind.BIAS),) if down_bias else ()
    names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    layer = parts.Layer(
        tensors=(
            *projections(sizes, names, bias=attention_bias),
            *parts.norm("post_attention_layernorm", hidden, bias=True),
            gate,
            up,
            down,
            *shift,
            *parts.norm("post_mlp_layernorm", hidden, bias=True),
        ),
        mixers=(sizes.attention,),
        mlp=Mlp(intermediate_size=sizes.intermediate),
    )
    spec = encoder_spec(
        config,
        sizes,
        blocks=(
            parts.single(
                Part.EMBEDDING,
                (*tables, *parts.norm("LayerNorm", hidden, bias=True)),
                f"{prefix}embeddings.",
            ),
            *parts.blocks(Part.LANGUAGE, prefix + "layers.{}.", [layer] * sizes.layers),
            *heads(config, sizes, head_blocks),
        ),
        context=sizes.positions,
    )
    return msgspec.structs.replace(spec, rotary_tables=(_rotary(sizes),))


def _rotary(sizes: Sizes) -> RotaryTable:
    return RotaryTable(positions=sizes.positions, dim=sizes.hidden // sizes.heads)


READERS: dict[str, Reader] = {
    "modernbert": read_modernbert,
    "nomic_bert": read_nomic,
    "gte": read_gte,
    "new": read_gte,
}
