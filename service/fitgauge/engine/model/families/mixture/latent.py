"""Decoders with multi-head latent attention (MLA): DeepSeek V2, V3 and V3.2, Kimi K2, GLM-5,
GLM-4.7 Flash and their kin.

Source: transformers 5.23, `models/<model_type>/modeling_<model_type>.py` and the defaults of its
configuration class; division and formats: vLLM 0.33, model_executor/models/deepseek_v2.py and
models/deepseek_v32."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, mtp, parts, schedules, stack
from fitgauge.engine.model.families.dense.dense import readers
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.mixers import Indexer, LatentAttention
from fitgauge.engine.model.spec import Kind, ModelSpec, RotaryTable, Split, Tensor

CORRECTED = Naming(correction="gate.e_score_correction_bias")


@dataclass(frozen=True)
class Family:
    """Where a family departs from DeepSeek V3."""

    defaults: Mapping[str, Any]
    """Of its configuration class, but for the routed `experts`, which go by several names."""
    experts: int
    """Default number of routed experts; 0: a dense model."""
    naming: Naming = CORRECTED
    """How it names the parts of its mixture."""
    indexer: bool = False
    """Whether it has DeepSeek sparse attention."""
    predicts: bool = True
    """Whether its checkpoints hold multi-token prediction heads."""


def read_latent(config: Config, family: Family) -> ModelSpec:
    """Return the ModelSpec of an MLA decoder."""
    config = config.with_defaults(family.defaults)
    count = config.layers()
    sparse = schedules.after_dense(config, count) if family.experts else [False] * count
    indexed = full_indexers(config, count) if family.indexer else [False] * count
    kinds = list(zip(sparse, indexed, strict=True))
    by_kind = {
        (routed, own): layer(config, family, routed=routed, indexed=own)
        for routed, own in dict.fromkeys(kinds)
    }
    layers = [by_kind[kind] for kind in kinds]
    last = layer(config, family, routed=bool(family.experts), indexed=family.indexer)
    heads = mtp.nextn_heads(config, last) if family.predicts else ()
    tables = rotary_tables(config, family)
    return stack.decoder(config, layers, rotary_tables=tables, more=heads)


def layer(config: Config, family: Family, *, routed: bool, indexed: bool) -> parts.Layer:
    """Return one layer: norms, latent attention, and a mixture where it is `routed`, else a
    gated MLP."""
    hidden = config.integer("hidden_size", low=1)
    mixer = latent_attention(config, indexed=indexed)
    mixing = attention_tensors(config, mixer)
    return parts.decoder_layer(hidden, mixer, mixing, feed_forward(config, family, hidden, routed))


def latent_attention(config: Config, *, indexed: bool = False) -> LatentAttention:
    """Return heads and widths as the MLA keys say; with an indexer of its own where the layer is
    `indexed`."""
    indexer = Indexer(
        heads=config.integer("index_n_heads", default=64),
        dim=config.integer("index_head_dim", default=128),
        top_k=config.integer("index_topk", default=2048),
    )
    return LatentAttention(
        query_heads=config.integer("num_attention_heads", low=1),
        latent_dim=config.integer("kv_lora_rank", low=1),
        rope_dim=config.integer("qk_rope_head_dim"),
        nope_dim=config.integer("qk_nope_head_dim"),
        value_dim=config.integer("v_head_dim", low=1),
        indexer=indexer if indexed else None,
    )


def attention_tensors(
    config: Config, mixer: LatentAttention, name: str = "self_attn", *, inputs: int | None = None
) -> tuple[Tensor, ...]:
    """Return the projections of MLA: down to the latents, which every rank holds whole, and up to
    the heads, which are divided. inputs: the numbers that it reads; None: the hidden state's.

    Without `q_lora_rank` the queries come straight from the hidden state.
    """
    hidden = config.integer("hidden_size", low=1)
    inputs = inputs or hidden
    heads = mixer.query_heads
    bias = config.flag("attention_bias")
    rank = config.maybe_integer("q_lora_rank")
    return (
        *query_tensors(
            inputs,
            heads * (mixer.nope_dim + mixer.rope_dim),
            rank,
            heads=heads,
            bias=bias,
            name=name,
        ),
        *parts.linear(
            f"{name}.kv_a_proj_with_mqa", mixer.latent_dim + mixer.rope_dim, inputs, bias=bias
        ),
        *parts.norm(f"{name}.kv_a_layernorm", mixer.latent_dim),
        *parts.linear(
            f"{name}.kv_b_proj",
            heads * (mixer.nope_dim + mixer.value_dim),
            mixer.latent_dim,
            Split.COLUMN,
            units=heads,
        ),
        *parts.linear(
            f"{name}.o_proj", hidden, heads * mixer.value_dim, Split.ROW, units=heads, bias=bias
        ),
        *(
            indexer_tensors(hidden, rank or hidden, mixer.indexer, f"{name}.indexer")
            if mixer.indexer
            else ()
        ),
    )


def query_tensors(
    hidden: int, width: int, rank: int | None, *, heads: int, bias: bool, name: str
) -> tuple[Tensor, ...]:
    """Return the queries of `width` from the hidden state, through a latent of `rank` where
    there is one."""
    if not rank:
        return parts.linear(f"{name}.q_proj", width, hidden, Split.COLUMN, units=heads)
    return (
        *parts.linear(f"{name}.q_a_proj", rank, hidden, bias=bias),
        *parts.norm(f"{name}.q_a_layernorm", rank),
        *parts.linear(f"{name}.q_b_proj", width, rank, Split.COLUMN, units=heads),
    )


def indexer_tensors(hidden: int, rank: int, indexer: Indexer, name: str) -> tuple[Tensor, ...]:
    """Return the lightning indexer, whole on every rank; vLLM keeps its LayerNorm in F32."""
    return (
        *parts.linear(f"{name}.wq_b", indexer.heads * indexer.dim, rank),
        *parts.linear(f"{name}.wk", indexer.dim, hidden),
        Tensor(f"{name}.k_norm.weight", (indexer.dim,), Kind.NORM, dtype="F32"),
        Tensor(f"{name}.k_norm.bias", (indexer.dim,), Kind.NORM, dtype="F32"),
        *parts.linear(f"{name}.weights_proj", indexer.heads, hidden),
    )


def feed_forward(config: Config, family: Family, hidden: int, routed: bool) -> parts.Feed:
    """Return the MLP of a layer: its mixture where it is `routed`, else one gated MLP of
    `intermediate_size`."""
    biased = config.flag("mlp_bias")
    return experts.feed(
        config,
        hidden,
        replace(family.naming, shared_bias=biased),
        routed=routed,
        experts=family.experts,
        shared=experts.shared_width("moe_intermediate_size", "n_shared_experts"),
    )


def full_indexers(config: Config, layers: int) -> list[bool]:
    """Return which layers have an indexer of their own; the others read what the one before them
    picked (GLM-5.2).

    `indexer_types`, else the letters F and S of `index_topk_pattern`, else every
    `index_topk_freq`-th after `index_skip_topk_offset`. Source: transformers 5.23,
    GlmMoeDsaConfig."""
    if config.has("indexer_types"):
        return [str(kind) == "full" for kind in config.items("indexer_types", length=layers)]
    if isinstance(config.values.get("index_topk_pattern"), str):
        return [
            letter == "F"
            for letter in config.text("index_topk_pattern").ljust(layers, "F")[:layers]
        ]
    step = max(config.integer("index_topk_freq", default=1), 1)
    offset = config.integer("index_skip_topk_offset", default=2)
    return [max(index - offset + 1, 0) % step == 0 for index in range(layers)]


def rotary_tables(config: Config, family: Family) -> tuple[RotaryTable, ...]:
    """Return one table for the keys' rope part, and a second one for an indexer that turns its
    numbers in another order.

    vLLM's FlashInfer kernel, which sparse attention runs YaRN with, reads them in F32.
    """
    scaling = config.section("rope_parameters", "rope_scaling").text(
        "rope_type", "type", default="default"
    )
    precise = family.indexer and scaling != "default"
    rows = table(config, config.integer("qk_rope_head_dim"), dtype="F32" if precise else None)
    apart = family.indexer and not config.flag("indexer_rope_interleave")
    return (rows, rows) if apart else (rows,)


_DEEPSEEK_V3 = {
    "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
    "n_shared_experts": 1, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "max_position_embeddings": 4096,
}  # fmt: skip

FAMILIES: Mapping[str, Family] = {
    "deepseek_v2": Family(
        defaults={"vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008,
            "moe_intermediate_size": 1407,
                  "num_hidden_layers": 32, "num_attention_heads": 32, "n_shared_experts": 2,
                  "kv_lora_rank": 512, "q_lora_rank": 1536,
                  "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128,
                  "max_position_embeddings": 2048},
        experts=64, naming=Naming(), predicts=False,
    ),
    "deepseek_v3": Family(defaults=_DEEPSEEK_V3, experts=256),
    "kimi_k2": Family(defaults=_DEEPSEEK_V3, experts=256),
    "deepseek_v32": Family(
        defaults=_DEEPSEEK_V3 | {"max_position_embeddings": 163840, "index_topk": 2048,
            "index_head_dim": 128, "index_n_heads": 64},
        experts=256, indexer=True,
    ),
    "glm_moe_dsa": Family(
        defaults=_DEEPSEEK_V3 | {
            "vocab_size": 154880, "hidden_size": 6144, "intermediate_size": 12288,
            "num_hidden_layers": 78, "num_attention_heads": 64,
            "q_lora_rank": 2048, "v_head_dim": 256, "qk_nope_head_dim": 192,
            "max_position_embeddings": 202752,
            "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32},
        experts=256, indexer=True,
    ),
    "glm4_moe_lite": Family(
        defaults=_DEEPSEEK_V3 | {
            "vocab_size": 154880, "hidden_size": 2048, "intermediate_size": 10240,
            "moe_intermediate_size": 1536,
            "num_hidden_layers": 47, "num_attention_heads": 20, "q_lora_rank": 768,
            "v_head_dim": 256, "qk_nope_head_dim": 192,
            "num_experts_per_tok": 4, "first_k_dense_replace": 1,
            "max_position_embeddings": 202752},
        experts=64,
    ),
    "mistral4": Family(
        defaults=_DEEPSEEK_V3 | {
            "vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 12288,
            "num_hidden_layers": 36, "num_attention_heads": 32,
            "kv_lora_rank": 256, "q_lora_rank": 1024, "qk_nope_head_dim": 64,
            "num_experts_per_tok": 4, "first_k_dense_replace": 0,
            "max_position_embeddings": 1048576},
        experts=128, naming=Naming(), predicts=False,
    ),
    "youtu": Family(
        defaults=_DEEPSEEK_V3 | {
            "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 6144,
            "num_hidden_layers": 32, "num_attention_heads": 16,
            "max_position_embeddings": 131072, "tie_word_embeddings": True},
        experts=0, predicts=False,
    ),
}  # fmt: skip
"""Families by model_type. Kimi K2 is a DeepSeek V3 under its own name."""


READERS = readers(read_latent, FAMILIES)
