"""Qwen3.8 Flash Next (qwen4_exp): Qwen3.5's layers between hyper-connections, attention that an
indexer makes sparse, and tables of n-grams that add to the residual streams of some layers.

Source: vLLM 0.33, models/qwen4_exp (nvidia/model.py, qsa.py, indexer_qsa.py, hyperconnection.py,
ple_layer.py, ngram_embedding.py)."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import parts
from fitgauge.engine.model.families.dense.dense import Reader
from fitgauge.engine.model.families.recurrent import gated_delta
from fitgauge.engine.model.families.stack import (
    convolution,
    decoder,
    heads,
    interval_kinds,
    is_recurrent,
    rotary,
)
from fitgauge.engine.model.mixers import Indexer, Recurrent, State
from fitgauge.engine.model.spec import Block, Kind, ModelSpec, Part, Split, Tensor

_DEFAULTS = gated_delta.QWEN3_5_MOE_DEFAULTS | {
    "hc_count": 4, "hc_lowrank": 320, "ple_conv_kernel_size": 4, "ngram_size": 3,
    "heads_per_ngram": 8, "indexer_budget": 2048, "indexer_compress_ratio": 4,
}  # fmt: skip

_MOST_ROWS = 2**32
"""Rows of one head, at most: some 200 times those of Qwen3.8-Flash-Next."""


def read(config: Config) -> ModelSpec:
    """Return the language model of a qwen4_exp config."""
    config = config.with_defaults(_DEFAULTS)
    kinds = interval_kinds(config)
    if config.has("ple_layer_ids"):
        tables = {str(number) for number in config.items("ple_layer_ids")}
    else:
        tables = set()
    stack = [
        _layer(config, kind, index, table=str(index + 1) in tables)
        for index, kind in enumerate(kinds)
    ]
    spec = decoder(
        config, stack, rotary_tables=rotary(config, heads(config).head_dim, fraction=0.25)
    )
    blocks = [block for block in spec.blocks if not _is_last_norm(block.tensors)]
    mixer = parts.single(
        Part.LANGUAGE, tuple(_hyper_connection(config, ""))[:-1], "model.hyper_connection_mixer."
    )
    return msgspec.structs.replace(spec, blocks=(*blocks, mixer, *_prediction_head(config)))


def _prediction_head(config: Config) -> tuple[Block, ...]:
    """Return `mtp_num_hidden_layers` layers of full attention without tables, the projections that
    add the next embedding to every residual stream, and what joins the streams; embedding and
    head are the model's. Source: vLLM 0.33, models/qwen4_exp/nvidia/mtp.py."""
    count = config.integer("mtp_num_hidden_layers", default=0, high=64)
    if not count:
        return ()
    hidden = config.integer("hidden_size", low=1)
    stack = [_layer(config, "full_attention", index, table=False) for index in range(count)]
    joint = (
        *parts.linear("mtp.fc_embedding", hidden, hidden, Split.COLUMN),
        *parts.linear("mtp.fc_hidden", hidden, hidden, Split.COLUMN),
        *parts.norm("mtp.pre_fc_norm_embedding", hidden),
        *parts.norm("mtp.pre_fc_norm_hidden", config.integer("hc_count", low=1) * hidden),
        *tuple(_hyper_connection(config, "mtp.hyper_connection_mixer."))[:-1],
    )
    return (*parts.blocks(Part.MTP, "mtp.layers.{}.", stack), parts.single(Part.MTP, joint))


def _is_last_norm(tensors: tuple[Tensor, ...]) -> bool:
    return len(tensors) == 1 and tensors[0].kind is Kind.NORM


def _layer(config: Config, kind: str, index: int, *, table: bool) -> parts.Layer:
    """Return one layer. table: whether it has a table of n-grams."""
    layer = gated_delta.layer(config, "apart", kind, index)
    tensors = [one for one in layer.tensors if one.name.split(".")[0] not in parts.NORMS]
    mixers = layer.mixers
    if not is_recurrent(kind) and config.has("indexer_n_heads"):
        tensors += _indexer_tensors(config)
        mixers = tuple(msgspec.structs.replace(mixer, indexer=_indexer(config)) for mixer in mixers)
    for name in ("attn_hyper_connection.", "mlp_hyper_connection."):
        tensors += _hyper_connection(config, name)
    if table:
        tensors += _ngrams(config)
        mixers = (*mixers, _past_ngrams(config))
    return replace(layer, tensors=tuple(tensors), mixers=mixers)


def _hyper_connection(config: Config, name: str) -> Iterator[Tensor]:
    """Yield what mixes `hc_count` residual streams through a low rank: a norm of them all, down,
    up, and last what a block adds to each."""
    hidden, rank = config.integer("hidden_size", low=1), config.integer("hc_lowrank", low=1)
    streams = config.integer("hc_count", low=1)
    wide = streams * hidden
    yield from parts.norm(f"{name}hc_norm", wide)
    yield from parts.linear(f"{name}input_mix_weight_down", rank, wide)
    yield from parts.linear(f"{name}input_mix_weight_up", wide, rank)
    yield from parts.linear(f"{name}block_inject_weight", streams, wide)


def _indexer(config: Config) -> Indexer:
    """Return the indexer, which caches a key of `indexer_compress_ratio` tokens."""
    return Indexer(
        heads=config.integer("indexer_n_heads"),
        dim=config.integer("indexer_head_dim", low=1),
        top_k=config.integer("indexer_budget", low=1),
        ratio=config.integer("indexer_compress_ratio", low=1),
    )


def _past_ngrams(config: Config) -> Recurrent:
    """Return what the dilated convolution after a table keeps of every residual stream, whole on
    every rank."""
    past = (config.integer("ple_conv_kernel_size", low=1) - 1) * config.integer("ngram_size", low=1)
    wide = config.integer("hidden_size", low=1) * config.integer("hc_count", low=1)
    return Recurrent(kind="short_conv", states=(State("conv", 1, past * wide),))


def _indexer_tensors(config: Config) -> tuple[Tensor, ...]:
    """Return queries and keys of an indexer, whole on every rank."""
    dim = config.integer("indexer_head_dim", low=1)
    width = (
        config.integer("indexer_n_heads") + config.integer("indexer_kv_heads", default=1)
    ) * dim
    name = "self_attn.indexer"
    return (
        *parts.linear(f"{name}.index_qk_proj", width, config.integer("hidden_size", low=1)),
        *parts.norm(f"{name}.q_layernorm", dim),
        *parts.norm(f"{name}.k_layernorm", dim),
    )


def _ngrams(config: Config) -> tuple[Tensor, ...]:
    """Return a table of n-grams, which ranks divide by rows, and what adds it to the streams.

    Every head has as many rows as a prime next to `ngram_vocab_size_base`, which is taken for
    it."""
    hidden, width = config.integer("hidden_size", low=1), config.integer("ple_embed_dim", low=1)
    wide = hidden * config.integer("hc_count", low=1)
    count = (config.integer("ngram_size", low=2) - 1) * config.integer("heads_per_ngram", low=1)
    rows = count * config.integer("ngram_vocab_size_base", low=1, high=_MOST_ROWS)
    return (
        parts.word_table("ple.ple_embedding.ngram_embedding", rows, width // count),
        *parts.linear("ple.kv_proj", wide + hidden, width),
        *[
            tensor
            for name in ("norm_key", "norm_query", "norm_conv")
            for tensor in parts.norm(f"ple.{name}", wide)
        ],
        *convolution("ple.conv1d", wide, config.integer("ple_conv_kernel_size", low=1)),
    )


READERS: dict[str, Reader] = {"qwen4_exp_text": read}
