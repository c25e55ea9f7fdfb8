"""Laguna: a mixture whose layers have heads of their own number, each with a gate, and rotate by
kind.

Sizes: transformers 5.20, models/laguna; tensors: vLLM 0.33, model_executor/models/laguna.py."""

from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Split, Tensor

DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_hidden_layers": 40,
    "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "sliding_window": 512,
    "max_position_embeddings": 131072, "num_experts_per_tok": 8, "gating": True,
    "first_k_dense_replace": 1,
}  # fmt: skip

_NAMING = Naming(
    shared="shared_expert", correction="experts.e_score_correction_bias", correction_learned=True
)


def read_laguna(config: Config) -> ModelSpec:
    """Return the ModelSpec of a Laguna."""
    config = config.with_defaults(DEFAULTS)
    count = config.layers()
    kinds = stack.kinds(config, "layer_types", layers=count) or ["full_attention"] * count
    routed = schedules.after_dense(config, count)
    heads = _heads(config, count)
    layers = [_layer(config, *one) for one in zip(kinds, heads, routed, strict=True)]
    return stack.decoder(
        config, layers, rotary_tables=stack.rotary(config, config.integer("head_dim", low=1))
    )


def _heads(config: Config, layers: int) -> list[int]:
    """Return the query heads of every layer."""
    name = "num_attention_heads_per_layer"
    if not config.has(name):
        return [config.integer("num_attention_heads", low=1)] * layers
    return [
        Config({name: value}, config.where).integer(name, low=1)
        for value in config.items(name, length=layers)
    ]


def _layer(config: Config, kind: str, heads: int, routed: bool) -> parts.Layer:
    """Return one layer: norms, attention with a gate a head or a number of it, a mixture with a
    shared expert where it is `routed`, else a gated MLP."""
    hidden, bias = config.integer("hidden_size", low=1), config.flag("attention_bias")
    sliding = "sliding" in kind
    mixer = plain_attention(
        heads,
        config.integer("head_dim", low=1),
        kv_heads=config.integer("num_key_value_heads", low=1),
        window=config.integer("sliding_window") if sliding else None,
    )
    sinks = sliding and config.flag("swa_attention_sink_enabled")
    sink = Tensor("self_attn.sink", (heads,), Kind.OTHER, Split.COLUMN, heads)
    return parts.decoder_layer(
        hidden,
        mixer,
        (
            *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias),
            *parts.norms(parts.QK_NORMS, mixer.head_dim),
            *_gate(config, hidden, mixer),
            *((sink,) if sinks else ()),
        ),
        experts.feed(
            config,
            hidden,
            _NAMING,
            routed=routed,
            experts=256,
            shared=experts.shared_width("shared_expert_intermediate_size"),
        ),
    )


def _gate(config: Config, hidden: int, mixer: Attention) -> tuple[Tensor, ...]:
    """Return the gate of a layer's attention: `gating` is true for one a head, or says
    "per-element"."""
    gating = config.values.get("gating")
    if not gating:
        return ()
    width = (
        mixer.query_heads if gating in (True, "per-head") else mixer.query_heads * mixer.head_dim
    )
    return parts.linear("self_attn.g_proj", width, hidden, Split.COLUMN, units=mixer.query_heads)


READERS: dict[str, Reader] = {"laguna": read_laguna}
