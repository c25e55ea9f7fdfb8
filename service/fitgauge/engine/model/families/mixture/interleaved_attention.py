"""Mixtures whose layers attend in turns, near and far: gpt-oss, Llama 4 and AFMoE.

Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and the defaults of its
configuration class; names of tensors as the checkpoints have them; formats and rotary tables:
vLLM 0.33, model_executor/models."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Split, Tensor

GPT_OSS: Mapping[str, Any] = {
    "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
    "max_position_embeddings": 131072, "num_experts_per_tok": 4,
    "attention_bias": True,
    "rope_parameters": {"rope_type": "yarn", "factor": 32.0,
        "original_max_position_embeddings": 4096},
}  # fmt: skip

LLAMA4: Mapping[str, Any] = {
    "vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
    "num_experts_per_tok": 1, "attention_chunk_size": 8192,
}  # fmt: skip

AFMOE: Mapping[str, Any] = {
    "vocab_size": 200192, "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 1408, "num_hidden_layers": 32, "num_dense_layers": 1,
    "num_attention_heads": 16, "head_dim": 128, "max_position_embeddings": 16384,
    "num_experts_per_tok": 6, "num_shared_experts": 2, "sliding_window": 1024,
}  # fmt: skip


def read_gpt_oss(config: Config) -> ModelSpec:
    """Return the ModelSpec of a gpt-oss: attention sinks, biases everywhere, every second layer
    slides. vLLM keeps its rotary table in F32."""
    scaled = (
        {"rope_parameters": config.values["rope_scaling"]} if config.has("rope_scaling") else {}
    )
    config = Config({**scaled, **config.values}, config.where).with_defaults(GPT_OSS)
    count = config.layers()
    layers = [
        gpt_oss_layer(config, window)
        for window in schedules.every_nth_full(period=2)(config, count)
    ]
    rows = table(config, stack.heads(config).head_dim, dtype="F32")
    return stack.decoder(config, layers, rotary_tables=(rows,))


def gpt_oss_layer(config: Config, window: int | None) -> parts.Layer:
    """Return one layer: norms, attention with a sink a head, router with a bias, experts with
    biases."""
    hidden, bias = config.integer("hidden_size", low=1), config.flag("attention_bias")
    mixer = stack.heads(config, window=window)
    mlp = experts.sizes(config, config.integer("intermediate_size"), experts=128)
    heads = mixer.query_heads
    mixing = (
        *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias),
        Tensor("self_attn.sinks", (heads,), Kind.OTHER, Split.COLUMN, heads),
    )
    fed = (
        parts.router(hidden, mlp.experts, name="mlp.router"),
        Tensor("mlp.router.bias", (mlp.experts,), Kind.BIAS),
        *experts.fused_experts(
            hidden, mlp, "mlp.experts.gate_up_proj", "mlp.experts.down_proj", bias=True
        ),
    )
    return parts.decoder_layer(hidden, mixer, mixing, (fed, mlp))


def read_llama4(config: Config) -> ModelSpec:
    """Return the ModelSpec of a Llama 4's language model. Layers that attend within chunks alone
    rotate."""
    config = config.with_defaults(LLAMA4)
    count = config.layers()
    chunks, routed = chunked_layers(config, count), llama4_mixtures(config, count)
    layers = [
        llama4_layer(config, chunk, mixes) for chunk, mixes in zip(chunks, routed, strict=True)
    ]
    tables = stack.rotary(config, config.integer("head_dim"))
    if any(chunks):
        tables = tuple(msgspec.structs.replace(table, windowed=True) for table in tables)
    return stack.decoder(config, layers, rotary_tables=tables)


def chunked_layers(config: Config, layers: int) -> list[int | None]:
    """Return the chunk [tokens] each layer attends within, None for all: `layer_types`, else
    full attention in layers without rotary embeddings, of which `no_rope_layers` holds a 0 and
    which are every `no_rope_layer_interval`-th by default."""
    chunk = config.maybe_integer("attention_chunk_size")
    if config.has("layer_types"):
        local = ["chunked" in str(kind) for kind in config.items("layer_types", length=layers)]
    elif config.items("no_rope_layers"):
        local = [bool(rotates) for rotates in config.items("no_rope_layers", length=layers)]
    else:
        step = config.integer("no_rope_layer_interval", default=4, low=1)
        local = [(index + 1) % step != 0 for index in range(layers)]
    return [chunk if near else None for near in local]


def llama4_mixtures(config: Config, layers: int) -> list[bool]:
    """Return which layers have a mixture: those of `moe_layers`, else every
    `interleave_moe_layer_step`-th."""
    if config.has("moe_layers"):
        chosen = config.items("moe_layers")
        return [index in chosen for index in range(layers)]
    step = config.integer("interleave_moe_layer_step", default=1, low=1)
    return [(index + 1) % step == 0 for index in range(layers)]


def llama4_layer(config: Config, chunk: int | None, routed: bool) -> parts.Layer:
    """Return one layer: norms, grouped attention, a mixture with one shared expert, or an MLP of
    `intermediate_size_mlp`."""
    hidden, bias = config.integer("hidden_size", low=1), config.flag("attention_bias")
    mixer = msgspec.structs.replace(stack.heads(config), chunk=chunk)
    mixing = parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias)
    return parts.decoder_layer(hidden, mixer, mixing, llama4_feed_forward(config, hidden, routed))


def llama4_feed_forward(config: Config, hidden: int, routed: bool) -> parts.Feed:
    """Return the MLP of a layer. The shared expert is as wide as a routed one."""
    if not routed:
        width = config.integer("intermediate_size_mlp")
        return parts.gated_feed(hidden, width, name="feed_forward")
    width = config.integer("intermediate_size")
    mlp = experts.sizes(config, width, experts=16, shared=width)
    tensors = (
        parts.router(hidden, mlp.experts, name="feed_forward.router"),
        *experts.fused_experts(
            hidden, mlp, "feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"
        ),
        *experts.shared_expert(hidden, width, Naming(block="feed_forward", shared="shared_expert")),
    )
    return tensors, mlp


_AFMOE_NAMING = Naming(router="router.gate", correction="expert_bias", correction_learned=True)
"""The router's bias is a learned parameter."""


def read_afmoe(config: Config) -> ModelSpec:
    """Return the ModelSpec of an AFMoE: gated attention, four norms a layer, full attention in
    every fourth layer."""
    config = config.with_defaults(AFMOE)
    count = config.layers()
    windows = schedules.every_nth_full("global_attn_every_n_layers", period=4)(config, count)
    dense = config.integer("num_dense_layers", default=0)
    layers = [afmoe_layer(config, window, index >= dense) for index, window in enumerate(windows)]
    tables = stack.rotary(config, stack.heads(config).head_dim)
    return stack.decoder(config, layers, rotary_tables=tables)


def afmoe_layer(config: Config, window: int | None, routed: bool) -> parts.Layer:
    """Return one layer: four norms, attention with a gate of the queries' width, a mixture where
    it is `routed`, else a gated MLP."""
    hidden = config.integer("hidden_size", low=1)
    bias = config.flag("attention_bias")
    mixer = stack.heads(config, window=window)
    return parts.decoder_layer(
        hidden,
        mixer,
        (
            *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias),
            *gate(hidden, mixer),
            *parts.norms(parts.QK_NORMS, mixer.head_dim),
        ),
        experts.feed(
            config,
            hidden,
            _AFMOE_NAMING,
            routed=routed,
            experts=64,
            shared=experts.shared_width("moe_intermediate_size", "num_shared_experts"),
        ),
        names=(*parts.NORMS, "pre_mlp_layernorm", "post_mlp_layernorm"),
    )


def gate(hidden: int, mixer: Attention) -> tuple[Tensor, ...]:
    """Return the gate of the attention's output, divided by heads."""
    heads = mixer.query_heads
    return parts.linear(
        "self_attn.gate_proj", heads * mixer.head_dim, hidden, Split.COLUMN, units=heads
    )


READERS: dict[str, Reader] = {
    "gpt_oss": read_gpt_oss,
    "llama4_text": read_llama4,
    "afmoe": read_afmoe,
}
