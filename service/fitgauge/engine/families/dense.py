"""Decoder-only models of the Llama shape: Llama, Mistral, Qwen2/3 and their kin.

One layer: norm, q/k/v/o with grouped KV heads, norm, gated MLP. A `Dialect` says where a family departs from that.
Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and the defaults of its configuration class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fitgauge.engine.architecture import Attention, Mlp, ModelSpec, Part, RotaryTable, Tensor
from fitgauge.engine.families import parts
from fitgauge.engine.families.config import Config

Reader = Callable[[Config], ModelSpec]


@dataclass(frozen=True)
class Dialect:
    """Where a family departs from Llama. Defaults are those of the family's transformers configuration class."""

    tied: bool = False
    qkv_bias: bool | Literal["config"] = "config"
    out_bias: bool | Literal["config"] = "config"
    qk_norm: Literal["none", "head", "width"] = "none"
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    window: Literal["never", "always", "if_used", "layer_types"] = "never"


def read_dense(config: Config, dialect: Dialect = Dialect()) -> ModelSpec:
    """The ModelSpec of a Llama-shaped decoder. Raises MalformedModel where a size is missing or absurd."""
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    layers, intermediate = config.layers(), config.integer("intermediate_size")
    tied = config.flag("tie_word_embeddings", default=dialect.tied)
    windows = layer_windows(config, dialect.window, layers)
    stack = [dense_layer(config, dialect, hidden, intermediate, windows[number]) for number in range(layers)]
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        dtype=config.dtype(),
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_length=config.integer("max_position_embeddings", default=2048),
        tied_embeddings=tied,
        blocks=(
            parts.embedding(vocabulary, hidden),
            *parts.blocks(Part.LANGUAGE, "model.layers.{}.", stack),
            parts.final_norm(hidden),
            *parts.head(vocabulary, hidden, tied=tied),
        ),
        rotary_tables=(rotary_table(config),),
    )


def dense_layer(config: Config, dialect: Dialect, hidden: int, intermediate: int, window: int | None) -> parts.Layer:
    """One layer: norms, attention, gated MLP."""
    mixer = grouped_attention(config, window=window)
    bias = config.flag("attention_bias") if dialect.qkv_bias == "config" else dialect.qkv_bias
    out_bias = config.flag("attention_bias") if dialect.out_bias == "config" else dialect.out_bias
    return parts.Layer(
        tensors=(
            *[tensor for name in dialect.norms for tensor in parts.norm(name, hidden)],
            *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=out_bias),
            *qk_norms(mixer, dialect.qk_norm),
            *parts.gated_mlp(hidden, intermediate, bias=config.flag("mlp_bias")),
        ),
        mixers=(mixer,),
        mlp=Mlp(intermediate_size=intermediate),
    )


def grouped_attention(config: Config, *, window: int | None = None) -> Attention:
    """Heads as the usual keys say: `head_dim` defaults to hidden / heads, `num_key_value_heads` to all heads."""
    heads = config.integer("num_attention_heads", "n_head", low=1)
    head_dim = config.integer("head_dim", default=config.integer("hidden_size", "n_embd", low=1) // heads, low=1)
    kv_heads = config.integer("num_key_value_heads", default=heads, low=1)
    return Attention(query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_dim=head_dim, window=window)


def qk_norms(mixer: Attention, kind: str) -> tuple[Tensor, ...]:
    """Norms of queries and keys: of one head's width (Qwen3), of the whole projection's (OLMo 2), or none."""
    if kind == "none":
        return ()
    query = mixer.head_dim if kind == "head" else mixer.query_heads * mixer.head_dim
    key = mixer.head_dim if kind == "head" else mixer.kv_heads * mixer.head_dim
    return (*parts.norm("self_attn.q_norm", query), *parts.norm("self_attn.k_norm", key))


def layer_windows(config: Config, rule: str, layers: int) -> list[int | None]:
    """The sliding window [tokens] of every layer, None for full attention."""
    window = config.maybe_integer("sliding_window")
    kinds = config.items("layer_types", length=layers) if config.has("layer_types") else None
    if rule == "never" or not window:
        return [None] * layers
    if kinds:
        return [window if "sliding" in str(kind) else None for kind in kinds[:layers]]
    if rule == "always":
        return [window] * layers
    if rule == "if_used" and config.flag("use_sliding_window"):
        first = config.integer("max_window_layers", default=layers)
        return [window if number >= first else None for number in range(layers)]
    return [None] * layers


def rotary_table(config: Config) -> RotaryTable:
    """Cosines and sines an engine registers: positions x rotated part of the head."""
    mixer = grouped_attention(config)
    fraction = config.number("partial_rotary_factor", "rotary_pct", default=1.0)
    return RotaryTable(positions=config.integer("max_position_embeddings", default=2048), dim=int(mixer.head_dim * fraction))


def architecture_name(config: Config) -> str:
    """The first name in `architectures`, or the model type."""
    names = config.items("architectures")
    return str(names[0])[:80] if names else config.text("model_type")


DIALECTS: Mapping[str, Dialect] = {
    "llama": Dialect(),
    "mistral": Dialect(window="always"),
    "qwen2": Dialect(qkv_bias=True, out_bias=False, window="if_used"),
    "qwen3": Dialect(qk_norm="head", window="if_used"),
}


def _reader(dialect: Dialect) -> Reader:
    return lambda config: read_dense(config, dialect)


READERS: dict[str, Reader] = {model_type: _reader(dialect) for model_type, dialect in DIALECTS.items()}
