"""Ling and Ring of the bailing_moe types: grouped attention in one projection, DeepSeek's kind of
mixture, names of their own.

Source: vLLM 0.33, model_executor/models/bailing_moe.py (transformers does not know the types).
"""

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.mixture.fused_experts import packed_projection
from fitgauge.engine.model.families.rotary_tables import rotary_tables
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import ModelSpec, Split, Tensor


def read_bailing(config: Config) -> ModelSpec:
    """Return the ModelSpec of a Ling. Raises MalformedModelError where a size is missing: its
    repositories always say them."""
    count = config.layers()
    layers = [layer(config, routed) for routed in schedules.after_dense(config, count)]
    tables = rotary_tables(
        config, stack.heads(config).head_dim, positions=config.integer("max_position_embeddings")
    )
    return stack.decoder(config, layers, embedding="word_embeddings", rotary_tables=tables)


def layer(config: Config, routed: bool) -> parts.Layer:
    """Return one layer: norms, attention, a mixture where it is `routed`, else a gated MLP."""
    hidden, mixer = config.integer("hidden_size", low=1), stack.heads(config)
    mixing = attention_tensors(config, hidden, mixer)
    return parts.decoder_layer(hidden, mixer, mixing, feed_forward(config, hidden, routed))


def attention_tensors(config: Config, hidden: int, mixer: Attention) -> tuple[Tensor, ...]:
    """Return queries, keys and values in one projection, the output projection, and norms of a
    head's width with `use_qk_norm`."""
    heads, bias = mixer.query_heads, config.flag("use_bias")
    shifted = not config.flag("use_rmsnorm")
    normed = (
        ("attention.query_layernorm", "attention.key_layernorm")
        if config.flag("use_qk_norm")
        else ()
    )
    return (
        *packed_projection(
            "attention.query_key_value", hidden, mixer, bias=bias or config.flag("use_qkv_bias")
        ),
        *parts.linear(
            "attention.dense", hidden, heads * mixer.head_dim, Split.ROW, units=heads, bias=bias
        ),
        *parts.norms(normed, mixer.head_dim, bias=shifted),
    )


def feed_forward(config: Config, hidden: int, routed: bool) -> parts.Feed:
    """Return the MLP of a layer; `router_dtype` may keep its router in F32."""
    bias = config.flag("use_bias")
    if not routed:
        return parts.gated_feed(hidden, config.integer("intermediate_size"), bias=bias)
    width = config.integer("moe_intermediate_size")
    shared = config.integer("moe_shared_expert_intermediate_size", default=width) * config.integer(
        "num_shared_experts", default=0
    )
    naming = Naming(
        correction="gate.expert_bias" if config.flag("moe_router_enable_expert_bias") else None,
        router_dtype="F32" if config.text("router_dtype") == "fp32" else None,
        shared_bias=bias,
    )
    mlp = experts.sizes(config, width, experts=0, shared=shared)
    return experts.mixture(hidden, mlp, naming), mlp


READERS: dict[str, Reader] = {"bailing_moe": read_bailing, "bailing_moe_v2": read_bailing}
