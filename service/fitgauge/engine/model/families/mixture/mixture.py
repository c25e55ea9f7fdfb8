"""Decoders of the Llama shape whose MLP is a mixture of experts: Mixtral, Qwen MoE, GLM-4.5,
MiniMax M2 and their kin.

A `Family` says where one departs from Mixtral. Source: transformers 5.23,
`models/<model_type>/modeling_<model_type>.py` and the defaults of its configuration class; names
of tensors as the checkpoints have them (vLLM 0.33's loaders)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, mtp, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import readers
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.parts import NUMBERED
from fitgauge.engine.model.families.rotary_tables import rotary_tables
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import Kind, ModelSpec, Split, Tensor


@dataclass(frozen=True)
class Family:
    """Where a family departs from Mixtral."""

    defaults: Mapping[str, Any]
    """Of its configuration class, but for the routed `experts`, which go by several names."""
    experts: int
    """Default number of routed experts."""
    naming: Naming
    """How it names the parts of its mixture."""
    bias: str | None = "attention_bias"
    """The config's key that gives q, k and v a bias; None: they have none."""
    out_bias: bool = True
    """Whether that key gives the output projection one too."""
    mlp_bias: str | None = None
    """The key that gives a dense MLP biases; None: it has none."""
    qk_norm: Literal["none", "head", "width", "divided", "config"] = "none"
    """Norm of queries and keys: one head wide, as wide as the projection (which vLLM replicates or
    divides), or one head wide where `use_qk_norm` is set ("config")."""
    qk_norm_names: tuple[str, str] = ("q_norm", "k_norm")
    """Names of those two norms."""
    sparse: schedules.Sparse = schedules.every_layer
    """Which layers have experts."""
    windows: schedules.Windows = schedules.no_window
    """The window of each layer."""
    width: str = "moe_intermediate_size"
    """The config's key of one expert's width."""
    shared: Callable[[Config], int] = lambda config: 0
    """Width of the shared experts; 0: none."""
    norms: tuple[str, ...] = parts.NORMS
    """Names of a layer's norms."""
    norm_bias: bool = False
    """Whether norms are LayerNorms, with a bias."""
    head_bias: str | None = None
    """The key that gives the head a bias; None: it has none."""
    predicts: bool = False
    """Whether its checkpoints hold multi-token prediction heads."""


def read_mixture(config: Config, family: Family) -> ModelSpec:
    """Return the ModelSpec of a mixture."""
    config = config.with_defaults(family.defaults)
    count = config.layers()
    windows, sparse = family.windows(config, count), family.sparse(config, count)
    kinds = list(zip(windows, sparse, strict=True))
    by_kind = {
        (window, routed): layer(config, family, window, routed)
        for window, routed in dict.fromkeys(kinds)
    }
    layers = [by_kind[kind] for kind in kinds]
    head_dim = stack.heads(config).head_dim
    heads = mtp.nextn_heads(config, layer(config, family, None, True)) if family.predicts else ()
    return stack.decoder(
        config,
        layers,
        norm_bias=family.norm_bias,
        head_bias=family.head_bias is not None and config.flag(family.head_bias),
        rotary_tables=rotary_tables(
            config, head_dim, positions=config.integer("max_position_embeddings")
        ),
        more=heads,
    )


def layer(config: Config, family: Family, window: int | None, routed: bool) -> parts.Layer:
    """Return one layer: norms, grouped attention, and a mixture where it is `routed`, else a
    gated MLP."""
    hidden = config.integer("hidden_size", low=1)
    mixer = stack.heads(config, window=window)
    bias = family.bias is not None and config.flag(family.bias)
    return parts.decoder_layer(
        hidden,
        mixer,
        (
            *parts.attention(hidden, mixer, qkv_bias=bias, out_bias=bias and family.out_bias),
            *query_key_norms(config, family, mixer),
        ),
        feed_forward(config, family, hidden, routed),
        names=family.norms,
        norm_bias=family.norm_bias,
    )


def feed_forward(config: Config, family: Family, hidden: int, routed: bool) -> parts.Feed:
    """Return the MLP of a layer: its mixture where it is `routed`, else one gated MLP of
    `intermediate_size`."""
    biased = family.mlp_bias is not None and config.flag(family.mlp_bias)
    return experts.feed(
        config,
        hidden,
        replace(family.naming, shared_bias=biased),
        routed=routed,
        experts=family.experts,
        width=family.width,
        shared=family.shared,
    )


def query_key_norms(config: Config, family: Family, mixer: Attention) -> tuple[Tensor, ...]:
    """Norms of queries and keys under the family's names."""
    kind = family.qk_norm
    if kind == "config":
        kind = "head" if config.flag("use_qk_norm") else "none"
    if kind == "none":
        return ()
    query, key = (f"self_attn.{name}" for name in family.qk_norm_names)
    if kind == "head":
        return (*parts.norm(query, mixer.head_dim), *parts.norm(key, mixer.head_dim))
    sharded = kind == "divided"
    heads, kv_heads = mixer.query_heads, mixer.kv_heads
    return (
        Tensor(
            f"{query}.weight",
            (heads * mixer.head_dim,),
            Kind.NORM,
            Split.COLUMN if sharded else Split.NONE,
            heads,
        ),
        Tensor(
            f"{key}.weight",
            (kv_heads * mixer.head_dim,),
            Kind.NORM,
            Split.KV if sharded else Split.NONE,
            kv_heads,
        ),
    )


_MIXTRAL = Naming(block="block_sparse_moe", projections=NUMBERED)
_MINIMAX = Naming(
    block="block_sparse_moe",
    projections=NUMBERED,
    correction="e_score_correction_bias",
    router_dtype="F32",
)
_PLAIN = Naming()
_CORRECTED = Naming(correction="gate.e_score_correction_bias")

FAMILIES: Mapping[str, Family] = {
    "mixtral": Family(
        defaults={"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32,
                  "num_attention_heads": 32, "num_key_value_heads": 8,
                  "max_position_embeddings": 131072, "num_experts_per_tok": 2},
        experts=8, naming=_MIXTRAL, bias=None, width="intermediate_size",
        windows=schedules.one_window,
    ),
    "qwen2_moe": Family(
        defaults={"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 24,
                  "num_attention_heads": 16, "num_key_value_heads": 16,
                  "max_position_embeddings": 32768, "sliding_window": 4096,
                  "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
                  "num_experts_per_tok": 4, "qkv_bias": True},
        experts=60, naming=Naming(shared="shared_expert", shared_gate="shared_expert_gate"),
        bias="qkv_bias", out_bias=False,
        sparse=schedules.stepped, windows=schedules.alternating_if_used,
        shared=experts.shared_width("shared_expert_intermediate_size"),
    ),
    "qwen3_moe": Family(
        defaults={"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
            "num_hidden_layers": 24,
                  "num_attention_heads": 32, "num_key_value_heads": 4,
                  "max_position_embeddings": 32768, "sliding_window": 4096,
                  "moe_intermediate_size": 768, "num_experts_per_tok": 8},
        experts=128, naming=_PLAIN, qk_norm="head", sparse=schedules.stepped,
        windows=schedules.window_if_used,
    ),
    "qwen3_vl_moe_text": Family(
        defaults={"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
            "num_hidden_layers": 24,
                  "num_attention_heads": 16, "num_key_value_heads": 16,
                  "max_position_embeddings": 128000,
                  "tie_word_embeddings": True, "moe_intermediate_size": 1408,
                  "num_experts_per_tok": 4},
        experts=60, naming=_PLAIN, qk_norm="head", sparse=schedules.stepped,
    ),
    "minimax_m2": Family(
        defaults={"vocab_size": 200064, "hidden_size": 3072, "intermediate_size": 1536,
            "num_hidden_layers": 62,
                  "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
                  "max_position_embeddings": 196608,
                  "num_experts_per_tok": 8},
        experts=256, naming=_MINIMAX, bias=None, qk_norm="divided", width="intermediate_size",
    ),
    "phimoe": Family(
        defaults={"vocab_size": 32064, "hidden_size": 4096, "intermediate_size": 6400,
            "num_hidden_layers": 32,
                  "num_attention_heads": 32, "num_key_value_heads": 8,
                  "max_position_embeddings": 131072, "num_experts_per_tok": 2},
        experts=16, naming=_MIXTRAL, width="intermediate_size", windows=schedules.one_window,
        norm_bias=True, head_bias="lm_head_bias",
    ),
    "olmoe": Family(
        defaults={"vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048,
            "num_hidden_layers": 16,
                  "num_attention_heads": 16, "max_position_embeddings": 4096,
                  "num_experts_per_tok": 8},
        experts=64, naming=_PLAIN, qk_norm="width", width="intermediate_size",
    ),
    "aria_text": Family(
        defaults={"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 4096,
            "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
            "num_experts_per_tok": 2, "moe_num_shared_experts": 2},
        experts=8, naming=Naming(router="router"), width="intermediate_size",
        shared=lambda config: config.integer("moe_num_shared_experts")
        * config.integer("intermediate_size"),
    ),
    "flex_olmo": Family(
        defaults={"vocab_size": 100352, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32,
                  "num_attention_heads": 32, "max_position_embeddings": 4096,
                  "num_experts_per_tok": 5},
        experts=7, naming=_PLAIN, qk_norm="width", width="intermediate_size",
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    ),
    "glm4_moe": Family(
        defaults={"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
            "num_hidden_layers": 46,
                  "num_attention_heads": 96, "num_key_value_heads": 8,
                  "max_position_embeddings": 131072,
                  "moe_intermediate_size": 1408, "num_experts_per_tok": 8, "n_shared_experts": 1,
                  "first_k_dense_replace": 1,
                  "partial_rotary_factor": 0.5},
        experts=128, naming=_CORRECTED, out_bias=False, qk_norm="config",
        sparse=schedules.after_dense,
        shared=experts.shared_width("moe_intermediate_size", "n_shared_experts"), predicts=True,
    ),
    "solar_open": Family(
        defaults={"vocab_size": 196608, "hidden_size": 4096, "num_hidden_layers": 48,
            "num_attention_heads": 64,
                  "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
                  "moe_intermediate_size": 1280,
                  "num_experts_per_tok": 8, "n_shared_experts": 1},
        experts=128, naming=_CORRECTED, out_bias=False,
        shared=experts.shared_width("moe_intermediate_size", "n_shared_experts"),
    ),
    "dots1": Family(
        defaults={"vocab_size": 152064, "hidden_size": 4608, "intermediate_size": 10944,
            "num_hidden_layers": 62,
                  "num_attention_heads": 32, "num_key_value_heads": 32,
                  "max_position_embeddings": 2048, "sliding_window": 4096,
                  "max_window_layers": 62, "moe_intermediate_size": 1408},
        experts=0, naming=_CORRECTED, qk_norm="head", sparse=schedules.after_dense,
        windows=schedules.after_window_layers,
        shared=experts.shared_width("moe_intermediate_size", "n_shared_experts"),
    ),
    "deepseek": Family(
        defaults={"vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 30,
                  "num_attention_heads": 32, "max_position_embeddings": 2048,
                  "moe_intermediate_size": 1407},
        experts=0, naming=_PLAIN, sparse=schedules.after_dense,
        shared=experts.shared_width("moe_intermediate_size", "n_shared_experts"),
    ),
    "exaone_moe": Family(
        defaults={"vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 16384,
            "num_hidden_layers": 32,
                  "num_attention_heads": 32, "num_key_value_heads": 32,
                  "max_position_embeddings": 2048, "sliding_window": 4096,
                  "first_k_dense_replace": 1, "moe_intermediate_size": 1024,
                  "num_experts_per_tok": 8, "num_shared_experts": 1},
        experts=64, naming=_CORRECTED, bias=None, qk_norm="head", sparse=schedules.after_dense,
        windows=schedules.every_nth_full("sliding_window_pattern", period=4),
        shared=experts.shared_width("moe_intermediate_size", "num_shared_experts"),
    ),
    "hy_v3": Family(
        defaults={"vocab_size": 120832, "hidden_size": 4096, "intermediate_size": 13312,
            "num_hidden_layers": 80,
                  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
                  "max_position_embeddings": 131072,
                  "first_k_dense_replace": 1, "moe_intermediate_size": 1536,
                  "num_experts_per_tok": 8, "num_shared_experts": 1},
        experts=192, naming=Naming(correction="e_score_correction_bias"), qk_norm="head",
        sparse=schedules.after_dense, mlp_bias="mlp_bias",
        shared=experts.shared_width("moe_intermediate_size", "num_shared_experts"),
    ),
    "ernie4_5_moe": Family(
        defaults={"vocab_size": 103424, "hidden_size": 2560, "intermediate_size": 12288,
            "num_hidden_layers": 28,
                  "num_attention_heads": 20, "num_key_value_heads": 4,
                  "max_position_embeddings": 131072, "tie_word_embeddings": True,
                  "moe_intermediate_size": 1536, "moe_k": 6, "moe_num_shared_experts": 2},
        experts=64, naming=Naming(correction="moe_statics.e_score_correction_bias",
            correction_learned=True), bias="use_bias",
        mlp_bias="use_bias", head_bias="use_bias", sparse=schedules.ernie,
        shared=experts.shared_width("moe_intermediate_size", "moe_num_shared_experts"),
    ),
    "hunyuan_v1_moe": Family(
        defaults={"vocab_size": 290943, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32,
                  "num_attention_heads": 32, "max_position_embeddings": 2048},
        experts=1, naming=Naming(router="gate.wg", shared="shared_mlp"), qk_norm="head",
        qk_norm_names=("query_layernorm", "key_layernorm"), width="intermediate_size",
        shared=experts.shared_width("intermediate_size"),
    ),
}  # fmt: skip
"""Families by model_type."""


READERS = readers(read_mixture, FAMILIES)
