"""Mixtures whose checkpoints keep all experts in one tensor, in layers of a shape of their own:
Granite MoE, DBRX, JetMoE.

Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and the defaults of its
configuration class."""

from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, parts, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.rotary_tables import rotary_tables
from fitgauge.engine.model.mixers import Attention, plain_attention
from fitgauge.engine.model.spec import Kind, Mlp, ModelSpec, Split, Tensor

GRANITE: Mapping[str, Any] = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "max_position_embeddings": 2048, "num_experts_per_tok": 2,
}  # fmt: skip

DBRX: Mapping[str, Any] = {
    "d_model": 2048,
    "n_heads": 16,
    "n_layers": 24,
    "max_seq_len": 2048,
    "vocab_size": 32000,
}

JETMOE: Mapping[str, Any] = {
    "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 12,
    "num_key_value_heads": 16, "kv_channels": 128, "max_position_embeddings": 4096,
    "num_experts_per_tok": 2, "tie_word_embeddings": True,
}  # fmt: skip


def read_granite(config: Config) -> ModelSpec:
    """Return the ModelSpec of a Granite MoE, with the shared MLP that `shared_intermediate_size`
    may add."""
    config = config.with_defaults(GRANITE)
    layer = granite_layer(config)
    tables = stack.rotary(config, stack.heads(config).head_dim)
    return stack.decoder(config, [layer] * config.layers(), rotary_tables=tables)


def granite_layer(config: Config) -> parts.Layer:
    """Return one layer: norms, grouped attention, router, packed experts, shared MLP."""
    hidden = config.integer("hidden_size", low=1)
    bias = config.flag("attention_bias")
    mixer = stack.heads(config)
    shared = config.integer("shared_intermediate_size", default=0)
    mlp = experts.sizes(config, config.integer("intermediate_size"), experts=8, shared=shared)
    mixing = parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias)
    fed = [
        parts.router(hidden, mlp.experts, name="block_sparse_moe.router.layer"),
        *experts.fused_experts(
            hidden,
            mlp,
            "block_sparse_moe.input_linear.weight",
            "block_sparse_moe.output_linear.weight",
        ),
    ]
    if shared:
        fed += parts.linear("shared_mlp.input_linear", 2 * shared, hidden, Split.COLUMN)
        fed += parts.linear("shared_mlp.output_linear", hidden, shared, Split.ROW)
    return parts.decoder_layer(hidden, mixer, mixing, (tuple(fed), mlp))


def read_dbrx(config: Config) -> ModelSpec:
    """Return the ModelSpec of a DBRX: sizes under names of its own, in sections for attention
    and MLP."""
    config = config.with_defaults(DBRX)
    hidden, positions = config.integer("d_model", low=1), config.integer("max_seq_len")
    layers = [dbrx_layer(config)] * config.layers("n_layers")
    head_dim = hidden // config.integer("n_heads", low=1)
    usual = config.with_values(
        hidden_size=hidden, max_position_embeddings=positions, tie_word_embeddings=False
    )
    return stack.decoder(
        usual,
        layers,
        base="transformer",
        stack="blocks",
        embedding="wte",
        final_norm="norm_f",
        rotary_tables=rotary_tables(config, head_dim, positions=positions),
    )


def dbrx_layer(config: Config) -> parts.Layer:
    """Return one layer: norms, attention with q, k and v in one projection, router, packed
    experts. Norms have no shift."""
    hidden, heads = config.integer("d_model", low=1), config.integer("n_heads", low=1)
    kv_heads = config.section("attn_config").integer("kv_n_heads", default=1, low=1)
    section = config.section("ffn_config")
    mlp = Mlp(
        intermediate_size=section.integer("ffn_hidden_size", default=3584),
        experts=section.integer("moe_num_experts", default=4),
        experts_per_token=section.integer("moe_top_k", default=1),
    )
    mixer = plain_attention(heads, hidden // heads, kv_heads=kv_heads)
    inner, outer = (mlp.intermediate_size, hidden), (hidden, mlp.intermediate_size)
    return parts.Layer(
        tensors=(
            *parts.norm("norm_attn_norm.norm_1", hidden),
            *parts.norm("norm_attn_norm.norm_2", hidden),
            *packed_projection("norm_attn_norm.attn.Wqkv", hidden, mixer),
            *parts.linear("norm_attn_norm.attn.out_proj", hidden, hidden, Split.ROW, units=heads),
            parts.router(hidden, mlp.experts, name="ffn.router.layer"),
            Tensor("ffn.experts.mlp.w1", inner, Kind.EXPERT, Split.COLUMN, 0, mlp.experts),
            Tensor("ffn.experts.mlp.v1", inner, Kind.EXPERT, Split.COLUMN, 0, mlp.experts),
            Tensor("ffn.experts.mlp.w2", outer, Kind.EXPERT, Split.ROW, 0, mlp.experts),
        ),
        mixers=(mixer,),
        mlp=mlp,
    )


def packed_projection(
    name: str, hidden: int, mixer: Attention, *, bias: bool = False
) -> tuple[Tensor, ...]:
    """Return queries, keys and values in one stored tensor, given here as its three slices,
    which divide differently."""
    query, key = mixer.query_heads * mixer.head_dim, mixer.kv_heads * mixer.head_dim
    return (
        *parts.linear(name, query, hidden, Split.COLUMN, units=mixer.query_heads, bias=bias),
        *parts.linear(name, key, hidden, Split.KV, units=mixer.kv_heads, bias=bias),
        *parts.linear(name, key, hidden, Split.KV, units=mixer.kv_heads, bias=bias),
    )


def read_jetmoe(config: Config) -> ModelSpec:
    """Return the ModelSpec of a JetMoE, whose query and output projections are experts too."""
    config = config.with_defaults(JETMOE)
    head_dim = config.integer("kv_channels", low=1)
    tables = stack.rotary(config, head_dim)
    return stack.decoder(
        config, [jetmoe_layer(config, head_dim)] * config.layers(), rotary_tables=tables
    )


def jetmoe_layer(config: Config, head_dim: int) -> parts.Layer:
    """Return one layer. A token visits as many attention experts as MLP experts, each with all
    KV heads: the cache is multi-head."""
    hidden = config.integer("hidden_size", low=1)
    kv_heads = config.integer("num_key_value_heads", low=1)
    mlp = experts.sizes(config, config.integer("intermediate_size"), experts=8)
    width = kv_heads * head_dim
    mixer = plain_attention(kv_heads * mlp.experts_per_token, head_dim, kv_heads=kv_heads)
    attention = "self_attention.experts"
    return parts.Layer(
        tensors=(
            *parts.norms(parts.NORMS, hidden),
            Tensor(
                f"{attention}.input_linear.weight",
                (width, hidden),
                Kind.EXPERT,
                Split.COLUMN,
                0,
                mlp.experts,
            ),
            Tensor(
                f"{attention}.output_linear.weight",
                (hidden, width),
                Kind.EXPERT,
                Split.ROW,
                0,
                mlp.experts,
            ),
            Tensor(f"{attention}.bias", (hidden,), Kind.BIAS),
            parts.router(hidden, mlp.experts, name=f"{attention}.router.layer"),
            *parts.linear("self_attention.kv_proj", 2 * width, hidden, Split.KV, units=kv_heads),
            *experts.fused_experts(
                hidden, mlp, "mlp.input_linear.weight", "mlp.output_linear.weight"
            ),
            Tensor("mlp.bias", (hidden,), Kind.BIAS),
            parts.router(hidden, mlp.experts, name="mlp.router.layer"),
        ),
        mixers=(mixer,),
        mlp=mlp,
    )


READERS: dict[str, Reader] = {
    "granitemoe": read_granite,
    "granitemoeshared": read_granite,
    "dbrx": read_dbrx,
    "jetmoe": read_jetmoe,
}
