"""DeepSeek V4: compressed attention with a sliding window, hyper-connections, experts chosen by
hash in the first layers.

Tensors: transformers 5.23, models/deepseek_v4, under the names of the checkpoints. Division,
formats and rotary tables: vLLM 0.33, models/deepseek_v4 (attention.py, compressor.py,
common/rope.py, nvidia/model.py and nvidia/mtp.py).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import experts, mtp, parts, stack
from fitgauge.engine.model.families.dense.dense import Reader, architecture_name
from fitgauge.engine.model.families.experts import Naming
from fitgauge.engine.model.families.parts import NUMBERED
from fitgauge.engine.model.families.rotary_tables import table
from fitgauge.engine.model.mixers import CompressedAttention, Indexer
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, RotaryTable, Split, Tensor

DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 129280, "hidden_size": 4096, "moe_intermediate_size": 2048,
    "num_hidden_layers": 43, "num_attention_heads": 64, "head_dim": 512, "q_lora_rank": 1024,
    "num_experts_per_tok": 6, "n_shared_experts": 1, "max_position_embeddings": 1048576,
    "hc_mult": 4, "sliding_window": 128, "o_groups": 8, "o_lora_rank": 1024, "index_n_heads": 64,
    "index_head_dim": 128, "index_topk": 512, "num_hash_layers": 3,
}  # fmt: skip

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
RATES: Mapping[str, int] = {SPARSE: 4, HEAVY: 128}
"""Tokens that become one entry, by kind of layer; sliding_attention compresses nothing. A config
may give `compress_rates`."""


def read_compressed(config: Config) -> ModelSpec:
    """Return the ModelSpec of a DeepSeek V4. Raises MalformedModelError where a size is missing
    or absurd."""
    config = config.with_defaults(DEFAULTS)
    hidden, vocabulary = config.integer("hidden_size", low=1), config.integer("vocab_size", low=1)
    tied = config.flag("tie_word_embeddings")
    kinds, hashed = layer_kinds(config), hash_layers(config)
    layers = [
        layer(config, kind, hashed=by_hash) for kind, by_hash in zip(kinds, hashed, strict=True)
    ]
    return ModelSpec(
        model_type=config.text("model_type"),
        architecture=architecture_name(config),
        dtype=config.dtype(),
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_context_length=stack.context_length(config),
        tied_embeddings=tied,
        blocks=(
            parts.embedding(vocabulary, hidden, name="embed"),
            *parts.blocks(Part.LANGUAGE, "layers.{}.", layers),
            parts.single(Part.LANGUAGE, (*parts.norm("norm", hidden), *collapse(config))),
            *parts.head(vocabulary, hidden, tied=tied, name="head"),
            *prediction_heads(config),
        ),
        rotary_tables=rotary_tables(config, kinds),
    )


def layer_kinds(config: Config) -> list[str]:
    """`layer_types`, else `compress_ratios` (0, 4 or 128), else two heavily compressed layers
    and then the two kinds in turn."""
    count = config.layers()
    if config.has("layer_types"):
        return [str(kind) for kind in config.items("layer_types", length=count)]
    if config.has("compress_ratios"):
        names = {str(rate): kind for kind, rate in RATES.items()}
        return [
            names.get(str(ratio), "sliding_attention")
            for ratio in config.items("compress_ratios", length=count)
        ]
    return [SPARSE if index % 2 and index > 2 else HEAVY for index in range(count)]


def hash_layers(config: Config) -> list[bool]:
    """Return which layers choose experts by the token's number: `mlp_layer_types`, else the
    first `num_hash_layers`."""
    count = config.layers()
    if config.has("mlp_layer_types"):
        return [str(kind) == "hash_moe" for kind in config.items("mlp_layer_types", length=count)]
    return [index < config.integer("num_hash_layers") for index in range(count)]


def layer(config: Config, kind: str, *, hashed: bool) -> parts.Layer:
    """Return one layer: norms, compressed attention, a mixture, and the hyper-connections around
    both."""
    hidden, width = config.integer("hidden_size", low=1), config.integer("moe_intermediate_size")
    mixer = attention(config, kind)
    mlp = experts.sizes(
        config, width, experts=256, shared=width * config.integer("n_shared_experts")
    )
    correction = None if hashed else "gate.bias"
    table = Tensor(
        "ffn.gate.tid2eid",
        (config.integer("vocab_size"), mlp.experts_per_token),
        Kind.OTHER,
        dtype="I32",
        buffer=True,
    )
    return parts.Layer(
        tensors=(
            *parts.norm("attn_norm", hidden),
            *parts.norm("ffn_norm", hidden),
            *attention_tensors(config, mixer),
            *experts.routing(hidden, mlp.experts, Naming(block="ffn", correction=correction)),
            *((table,) if hashed else ()),
            *parts.experts(hidden, width, mlp.experts, name="ffn.experts.*", names=NUMBERED),
            *parts.gated_mlp(
                hidden, mlp.shared_intermediate_size, name="ffn.shared_experts", names=NUMBERED
            ),
            *hyper_connection(config, "hc_attn"),
            *hyper_connection(config, "hc_ffn"),
        ),
        mixers=(mixer,),
        mlp=mlp,
    )


def attention(config: Config, kind: str) -> CompressedAttention:
    """Return heads, window and ratio of a layer; sparse layers pick entries with an indexer."""
    rates = config.section("compress_rates")
    ratio = rates.integer(kind, default=RATES.get(kind, 0))
    head_dim = config.integer("head_dim", low=1)
    indexer = Indexer(
        heads=config.integer("index_n_heads"),
        dim=config.integer("index_head_dim"),
        top_k=config.integer("index_topk"),
    )
    return CompressedAttention(
        query_heads=config.integer("num_attention_heads", low=1),
        head_dim=head_dim,
        rope_dim=config.integer(
            "qk_rope_head_dim",
            default=int(head_dim * config.number("partial_rotary_factor", default=0.125)),
        ),
        window=config.integer("sliding_window"),
        ratio=ratio,
        indexer=indexer if kind == SPARSE else None,
    )


def attention_tensors(config: Config, mixer: CompressedAttention) -> tuple[Tensor, ...]:
    """Return queries through a latent, one shared key-value head, grouped output projections,
    sinks, and what compresses.

    vLLM divides queries and outputs by heads and groups; the key-value head, compressor and
    indexer are whole on every rank."""
    hidden = config.integer("hidden_size", low=1)
    heads = mixer.query_heads
    head_dim = mixer.head_dim
    rank = config.integer("q_lora_rank")
    groups = config.integer("o_groups", low=1)
    out_rank = config.integer("o_lora_rank")
    return (
        *parts.linear("attn.wq_a", rank, hidden),
        *parts.norm("attn.q_norm", rank),
        *parts.linear("attn.wq_b", heads * head_dim, rank, Split.COLUMN, units=heads),
        *parts.linear("attn.wkv", head_dim, hidden),
        *parts.norm("attn.kv_norm", head_dim),
        *parts.linear(
            "attn.wo_a", groups * out_rank, heads * head_dim // groups, Split.COLUMN, units=groups
        ),
        *parts.linear("attn.wo_b", hidden, groups * out_rank, Split.ROW, units=groups),
        Tensor("attn.attn_sink", (heads,), Kind.OTHER, Split.COLUMN, heads, dtype="F32"),
        *(compressor(hidden, head_dim, mixer, "attn.compressor") if mixer.ratio else ()),
        *(indexer_tensors(hidden, rank, mixer, mixer.indexer) if mixer.indexer else ()),
    )


def compressor(
    hidden: int, head_dim: int, mixer: CompressedAttention, name: str
) -> tuple[Tensor, ...]:
    """Return what makes one entry of `ratio` tokens; where an indexer picks, neighbouring
    entries overlap, which takes twice the width."""
    width = head_dim * (2 if mixer.indexer else 1)
    return (
        Tensor(f"{name}.ape", (mixer.ratio, width), Kind.OTHER, dtype="F32"),
        *parts.linear(f"{name}.wkv", width, hidden),
        *parts.linear(f"{name}.wgate", width, hidden),
        *parts.norm(f"{name}.norm", head_dim),
    )


def indexer_tensors(
    hidden: int, rank: int, mixer: CompressedAttention, indexer: Indexer
) -> tuple[Tensor, ...]:
    """Return the indexer: queries from the attention's own query latent, weights of its heads,
    and a compressor of its own."""
    return (
        *parts.linear("attn.indexer.wq_b", indexer.heads * indexer.dim, rank),
        *parts.linear("attn.indexer.weights_proj", indexer.heads, hidden),
        *compressor(hidden, indexer.dim, mixer, "attn.indexer.compressor"),
    )


def hyper_connection(config: Config, name: str) -> tuple[Tensor, ...]:
    """Return what mixes the `hc_mult` residual streams before and after a part of a layer: (2 +
    m) m weights, in F32."""
    streams = config.integer("hc_mult", low=1)
    mixes = (2 + streams) * streams
    return (
        Tensor(
            f"{name}_fn", (mixes, streams * config.integer("hidden_size")), Kind.OTHER, dtype="F32"
        ),
        Tensor(f"{name}_base", (mixes,), Kind.OTHER, dtype="F32"),
        Tensor(f"{name}_scale", (3,), Kind.OTHER, dtype="F32"),
    )


def collapse(config: Config) -> tuple[Tensor, ...]:
    """Return what makes one stream of `hc_mult` before the output head, in F32."""
    streams = config.integer("hc_mult", low=1)
    return (
        Tensor(
            "hc_head_fn",
            (streams, streams * config.integer("hidden_size")),
            Kind.OTHER,
            dtype="F32",
        ),
        Tensor("hc_head_base", (streams,), Kind.OTHER, dtype="F32"),
        Tensor("hc_head_scale", (1,), Kind.OTHER, dtype="F32"),
    )


def prediction_heads(config: Config) -> tuple[Block, ...]:
    """Multi-token prediction: a layer that attends to its window alone, joined by two
    projections; embedding and head are the model's."""
    heads = config.integer(*mtp.COUNT, default=0, high=64)
    if not heads:
        return ()
    hidden = config.integer("hidden_size", low=1)
    inner = layer(config, "sliding_attention", hashed=False)
    tensors = (
        *parts.norm("enorm", hidden),
        *parts.norm("hnorm", hidden),
        *parts.linear("e_proj", hidden, hidden),
        *parts.linear("h_proj", hidden, hidden),
        *inner.tensors,
        *parts.norm("norm", hidden),
        *collapse(config),
    )
    return (mtp.block("mtp.{}.", tensors, inner, range(heads)),)


def rotary_tables(config: Config, kinds: list[str]) -> tuple[RotaryTable, ...]:
    """Return one table in F32 for layers that compress (with YaRN, where the config has it), one
    for those that only slide, as prediction heads do."""
    dim = attention(config, kinds[0] if kinds else SPARSE).rope_dim
    compressing = msgspec.structs.replace(table(config, dim, dtype="F32"), windowed=False)
    sliding = RotaryTable(
        positions=stack.context_length(config), dim=dim, dtype="F32", windowed=True
    )
    compresses = any(kind in RATES for kind in kinds)
    slides = any(kind not in RATES for kind in kinds) or bool(
        config.integer(*mtp.COUNT, default=0, high=64)
    )
    return (*((compressing,) if compresses else ()), *((sliding,) if slides else ()))


READERS: dict[str, Reader] = {"deepseek_v4": read_compressed, "deepseek_ref": read_compressed}
