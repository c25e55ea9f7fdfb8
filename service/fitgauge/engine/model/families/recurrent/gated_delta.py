"""Gated delta networks: Qwen3-Next and the Qwen3.5 family, three linear attention layers to one
gated full attention.

Source: transformers 5.23, models/{qwen3_next,qwen3_5,qwen3_5_moe}; division and states: vLLM
0.33, layers/mamba/gdn/qwen_gdn_linear_attn.py; multi-token prediction: vLLM 0.33,
models/qwen3_5_mtp.py and qwen3_next_mtp.py."""

from typing import Literal

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader, qk_norms
from fitgauge.engine.model.families.recurrent.mamba import state_dtype
from fitgauge.engine.model.families.stack import (
    convolution,
    decoder,
    heads,
    interval_kinds,
    is_recurrent,
    rotary,
    vector,
)
from fitgauge.engine.model.mixers import Recurrent, State
from fitgauge.engine.model.spec import Block, Mlp, ModelSpec, Part, Split, Tensor

Projections = Literal["joined", "apart"]
"""Qwen3-Next stores q, k, v and gate in one matrix, b and a in another; Qwen3.5 stores qkv, z, b
and a."""


def read_gated_delta(config: Config, projections: Projections) -> ModelSpec:
    """Return a Qwen3-Next or Qwen3.5 language model, its defaults already filled in."""
    kinds = interval_kinds(config)
    stack = [layer(config, projections, kind, index) for index, kind in enumerate(kinds)]
    tables = rotary(config, heads(config).head_dim, fraction=0.25)
    more = prediction_head(config, projections)
    return decoder(config, stack, rotary_tables=tables, more=more)


def layer(config: Config, projections: Projections, kind: str, index: int) -> parts.Layer:
    """Return two norms, a mixer, and an MLP or mixture; `index` tells which of the two where
    `mlp_only_layers` and `decoder_sparse_step` do."""
    hidden = config.integer("hidden_size", low=1)
    feed = feed_forward(config, hidden, index)
    if is_recurrent(kind):
        mixing = delta_tensors(config, projections, hidden)
        return parts.decoder_layer(hidden, delta_mixer(config), mixing, feed)
    attention, bias = heads(config), config.flag("attention_bias")
    mixing = parts.attention(
        hidden,
        attention,
        qkv_bias=bias,
        out_bias=bias,
        gated=config.flag("attn_output_gate", default=True),
    )
    mixing += qk_norms(attention, "head")
    return parts.decoder_layer(hidden, attention, mixing, feed)


def delta_tensors(config: Config, projections: Projections, hidden: int) -> tuple[Tensor, ...]:
    """Return the tensors of a gated delta mixer: queries and keys have `linear_num_key_heads`,
    values and gates `linear_num_value_heads`."""
    key_heads = config.integer("linear_num_key_heads", low=1)
    value_heads = config.integer("linear_num_value_heads", low=1)
    value_dim = config.integer("linear_value_head_dim", low=1)
    keys, values = key_heads * config.integer("linear_key_head_dim", low=1), value_heads * value_dim
    joined = (("in_proj_qkvz", 2 * keys + 2 * values), ("in_proj_ba", 2 * value_heads))
    apart = (
        ("in_proj_qkv", 2 * keys + values),
        ("in_proj_z", values),
        ("in_proj_b", value_heads),
        ("in_proj_a", value_heads),
    )
    return (
        vector("linear_attn.dt_bias", value_heads),
        vector("linear_attn.A_log", value_heads, dtype="F32"),
        *convolution(
            "linear_attn.conv1d", 2 * keys + values, config.integer("linear_conv_kernel_dim", low=1)
        ),
        *[
            tensor
            for name, width in (joined if projections == "joined" else apart)
            for tensor in parts.linear(f"linear_attn.{name}", width, hidden, Split.COLUMN)
        ],
        *parts.norm("linear_attn.norm", value_dim),
        *parts.linear("linear_attn.out_proj", hidden, values, Split.ROW),
    )


def delta_mixer(config: Config) -> Recurrent:
    """Return its states: kernel - 1 past inputs of q, k and v, and a matrix value_dim x key_dim for
    every value head.

    The matrix is kept in `mamba_ssm_dtype` (vLLM 0.33, models/config.py: Qwen3.5), else in the
    cache's dtype."""
    key_heads = config.integer("linear_num_key_heads", low=1)
    value_heads = config.integer("linear_num_value_heads", low=1)
    key_dim = config.integer("linear_key_head_dim", low=1)
    value_dim = config.integer("linear_value_head_dim", low=1)
    past = config.integer("linear_conv_kernel_dim", low=1) - 1
    return Recurrent(
        kind="gated_delta",
        states=(
            State("conv_keys", key_heads, 2 * key_dim * past),
            State("conv_values", value_heads, value_dim * past),
            State("ssm", value_heads, value_dim * key_dim, state_dtype(config, "mamba_ssm_dtype")),
        ),
    )


def feed_forward(config: Config, hidden: int, index: int) -> parts.Feed:
    """Return the MLP, or the mixture with its gated shared expert, of layer `index`."""
    experts = config.integer("num_experts", default=0)
    step = config.integer("decoder_sparse_step", default=1)
    if not experts or index in config.items("mlp_only_layers") or step < 1 or (index + 1) % step:
        return parts.gated_feed(hidden, config.integer("intermediate_size"))
    width = config.integer("moe_intermediate_size")
    shared = config.integer("shared_expert_intermediate_size")
    tensors = (
        parts.router(hidden, experts),
        *parts.experts(hidden, width, experts),
        *parts.gated_mlp(hidden, shared, name="mlp.shared_expert"),
        *parts.linear("mlp.shared_expert_gate", 1, hidden),
    )
    visited = config.integer("num_experts_per_tok")
    return tensors, Mlp(
        intermediate_size=width,
        experts=experts,
        experts_per_token=visited,
        shared_intermediate_size=shared,
    )


def prediction_head(config: Config, projections: Projections) -> tuple[Block, ...]:
    """`mtp_num_hidden_layers` full attention layers behind a projection that joins hidden state and
    next embedding.

    Embedding and head are the main model's unless `mtp_use_dedicated_embeddings`.
    """
    count = config.integer("mtp_num_hidden_layers", "num_nextn_predict_layers", default=0, high=64)
    if not count:
        return ()
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    stack = [layer(config, projections, "full_attention", index) for index in range(count)]
    joint = (
        *parts.linear("mtp.fc", hidden, 2 * hidden, Split.COLUMN),
        *parts.norm("mtp.pre_fc_norm_embedding", hidden),
        *parts.norm("mtp.pre_fc_norm_hidden", hidden),
        *parts.norm("mtp.norm", hidden),
    )
    own = (
        parts.embedding(vocabulary, hidden, name="mtp.embed_tokens").tensors
        if config.flag("mtp_use_dedicated_embeddings")
        else ()
    )
    return (
        *parts.blocks(Part.MTP, "mtp.layers.{}.", stack),
        parts.single(Part.MTP, (*joint, *own)),
    )


def read_qwen3_next(config: Config) -> ModelSpec:
    """Qwen3-Next, a mixture."""
    return read_gated_delta(config.with_defaults(NEXT_DEFAULTS), "joined")


def read_qwen3_5(config: Config) -> ModelSpec:
    """Return the language model of Qwen3.5."""
    return read_gated_delta(config.with_defaults(QWEN3_5_DEFAULTS), "apart")


def read_qwen3_5_moe(config: Config) -> ModelSpec:
    """Return the language model of Qwen3.5, the mixtures: every layer is one (transformers reads
    no `mlp_only_layers` here)."""
    config = config.with_values(mlp_only_layers=None, decoder_sparse_step=None)
    return read_gated_delta(config.with_defaults(QWEN3_5_MOE_DEFAULTS), "apart")


_SHARED_DEFAULTS = {
    "tie_word_embeddings": False, "max_position_embeddings": 32768, "head_dim": 256,
    "attention_bias": False, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
}  # fmt: skip

NEXT_DEFAULTS = _SHARED_DEFAULTS | {
    "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "decoder_sparse_step": 1,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts_per_tok": 10,
    "num_experts": 512, "num_nextn_predict_layers": 1,
}  # fmt: skip
"""transformers 5.23, Qwen3NextConfig; its prediction head, which no config counts: vLLM 0.33,
models/qwen3_next_mtp.py."""

QWEN3_5_DEFAULTS = _SHARED_DEFAULTS | {
    "vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
    "num_attention_heads": 16, "num_key_value_heads": 4,
}  # fmt: skip
"""transformers 5.23, Qwen3_5TextConfig."""

QWEN3_5_MOE_DEFAULTS = _SHARED_DEFAULTS | {
    "vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
    "num_key_value_heads": 2, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 8, "num_experts": 256,
}  # fmt: skip
"""transformers 5.23, Qwen3_5MoeTextConfig."""

READERS: dict[str, Reader] = {
    "qwen3_next": read_qwen3_next,
    "qwen3_5_text": read_qwen3_5,
    "qwen3_5_moe_text": read_qwen3_5_moe,
}
