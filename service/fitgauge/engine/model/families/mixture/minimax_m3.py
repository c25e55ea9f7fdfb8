"""MiniMax M3: grouped attention that reads blocks of tokens an indexer picks, and a mixture after
the first dense layers.

Sizes: transformers 5.23, models/minimax_m3_vl. Names of tensors and division: vLLM 0.33,
models/minimax_m3 (nvidia/model.py, nvidia/mtp.py; the indexer's queries are divided like KV
heads, its key is whole on every rank)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, mtp, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.mixers import Indexer
from fitgauge.engine.model.spec import Block, ModelSpec, Split, Tensor

DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 200064, "hidden_size": 6144, "intermediate_size": 3072,
    "dense_intermediate_size": 12288, "shared_intermediate_size": 3072, "num_hidden_layers": 60,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "max_position_embeddings": 524288, "num_experts_per_tok": 4, "rotary_dim": 64,
}  # fmt: skip

NAMING = Naming(
    block="block_sparse_moe",
    projections=parts.NUMBERED,
    correction="e_score_correction_bias",
    router_dtype="F32",
)


def read_sparse(config: Config) -> ModelSpec:
    """Return the ModelSpec of a MiniMax M3 without its vision tower."""
    config = config.with_defaults(DEFAULTS)
    count = config.layers()
    routed, indexed = schedules.after_dense(config, count), sparse_layers(config, count)
    layers = [
        layer(config, routed=mixes, indexed=picks)
        for mixes, picks in zip(routed, indexed, strict=True)
    ]
    tables = stack.rotary(config, config.integer("head_dim"))
    return stack.decoder(config, layers, rotary_tables=tables, more=prediction_heads(config))


def sparse_layers(config: Config, layers: int) -> list[bool]:
    """Return which layers have an indexer: `layer_types`, else `sparse_attention_freq` of
    `sparse_attention_config`, else none."""
    if config.has("layer_types"):
        return ["sparse" in str(kind) for kind in config.items("layer_types", length=layers)]
    section = config.section("sparse_attention_config")
    if section.has("sparse_attention_freq"):
        return [bool(picks) for picks in section.items("sparse_attention_freq", length=layers)]
    return [False] * layers


def indexer(config: Config) -> Indexer:
    """Return heads and width of the indexer; `top_k` [tokens] is the blocks it picks times their
    size."""
    section = config.section("sparse_attention_config")
    blocks = section.integer(
        "sparse_topk_blocks", default=config.integer("index_topk_blocks", default=16)
    )
    block = section.integer(
        "sparse_block_size", default=config.integer("index_block_size", default=128)
    )
    return Indexer(
        heads=section.integer(
            "sparse_num_index_heads", default=config.integer("index_n_heads", default=4)
        ),
        dim=section.integer(
            "sparse_index_dim", default=config.integer("index_head_dim", default=128)
        ),
        top_k=blocks * block,
    )


def layer(config: Config, *, routed: bool, indexed: bool) -> parts.Layer:
    """Return one layer: norms, grouped attention with norms of one head's width, an indexer
    where it is `indexed`, mixture or MLP."""
    hidden = config.integer("hidden_size", low=1)
    mixer = msgspec.structs.replace(
        stack.heads(config), indexer=indexer(config) if indexed else None
    )
    return parts.decoder_layer(
        hidden,
        mixer,
        (
            *parts.attention(hidden, mixer),
            *parts.norms(parts.QK_NORMS, mixer.head_dim),
            *(indexer_tensors(hidden, mixer.indexer) if mixer.indexer else ()),
        ),
        feed_forward(config, hidden, routed),
    )


def indexer_tensors(hidden: int, picks: Indexer) -> tuple[Tensor, ...]:
    """Return the projections of the indexer's queries and of its one key, each with a norm."""
    return (
        *parts.linear(
            "self_attn.index_q_proj", picks.heads * picks.dim, hidden, Split.KV, units=picks.heads
        ),
        *parts.linear("self_attn.index_k_proj", picks.dim, hidden),
        *parts.norm("self_attn.index_q_norm", picks.dim),
        *parts.norm("self_attn.index_k_norm", picks.dim),
    )


def feed_forward(config: Config, hidden: int, routed: bool) -> parts.Feed:
    """Return the mixture of a `routed` layer, else one gated MLP of `dense_intermediate_size`."""
    if not routed:
        return parts.gated_feed(hidden, config.integer("dense_intermediate_size"))
    shared = config.integer("shared_intermediate_size") * config.integer(
        "n_shared_experts", default=1
    )
    mlp = experts.sizes(config, config.integer("intermediate_size"), experts=128, shared=shared)
    return experts.mixture(hidden, mlp, NAMING), mlp


def prediction_heads(config: Config) -> tuple[Block, ...]:
    """Multi-token prediction: a sparse layer with a mixture, joined by norms and a projection;
    embedding and head are the model's."""
    heads = config.integer("num_nextn_predict_layers", "num_mtp_modules", default=0, high=64)
    if not heads:
        return ()
    hidden, inner = config.integer("hidden_size", low=1), layer(config, routed=True, indexed=True)
    within = tuple(
        msgspec.structs.replace(tensor, name=f"transformer_layer.{tensor.name}")
        for tensor in inner.tensors
    )
    tensors = (*mtp.joints(hidden), *within, *parts.norm("final_layernorm", hidden))
    return (mtp.block("model.mtp.layers.{}.", tensors, inner, range(heads)),)


READERS: dict[str, Reader] = dict.fromkeys(
    ("minimax_m3", "minimax_m3_text", "minimax_m3_vl_text"), read_sparse
)
