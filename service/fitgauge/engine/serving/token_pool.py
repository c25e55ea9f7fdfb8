"""A pool of pages in which every token costs the same: what SGLang, TensorRT-LLM and TGI keep of
requests."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import ModelSpec, count_within
from fitgauge.engine.serving.kv_cache import (
    CACHED_PARTS,
    cross_bytes,
    rank_heads,
    state_bytes,
    token_factors,
)

INDEX_SCALE = 4
"""Bytes of the scale in addition to every 128 numbers of an indexer's fp8 key. Source: sglang
mem_cache/memory_pool.py, DSATokenToKVPool."""


def held(spec: ModelSpec, layers: range | None) -> list[tuple[Mixer, int]]:
    """Return every mixer that may keep something, with the number of `layers` (None: all) that
    have it."""
    mixers = []
    for block in spec.blocks:
        if block.part in CACHED_PARTS:
            count = count_within(block.layers, layers)
            mixers += [(mixer, count) for mixer in block.mixers if count]
    return mixers


def kv_cache_dtype(spec: ModelSpec, requested: str) -> str:
    """Return the format asked for, else that of the activations: the model's own, 16 bit where
    it is published wider or narrower."""
    if requested != "auto":
        return requested
    return spec.dtype if spec.dtype in ("F16", "BF16") else "BF16"


class SparseRows(NamedTuple):
    """How rows of sparse attention are stored."""

    scaled: bool | None = None
    """Whether those of MLA in fp8 have scales; None: those of layers with an indexer."""
    index_dtype: str = "BF16"
    """Canonical dtype of the indexer's key next to keys and values of several heads (MiniMax M3).
    """


USUAL_ROWS = SparseRows()


def full_token_bytes(
    mixer: Mixer,
    dtype: str,
    tensor_parallel: int,
    *,
    shared: bool = False,
    rows: SparseRows = USUAL_ROWS,
) -> int:
    """Return the bytes of one token in one layer of a pool that holds every token, whatever its
    window. shared: layers that read another's cache have memory of their own nevertheless.

    Attention: heads_rank x (head_dim + value_dim). MLA: latent + rope on every rank; with a
    sparse indexer its fp8 key and scale, and in fp8 the latent with a scale for 128 numbers and
    the rope in 16 bit: 656 + 132 bytes for 512 + 64 numbers. Source: sglang
    model_executor/pool_configurator.py (`_compute_cell_size`),
    mem_cache/kv_cache_configurator.py (`calculate_mla_kv_cache_dim`), 0.5.23."""
    match mixer:
        case Attention():
            if not mixer.causal or (mixer.shares_cache and not shared):
                return 0
            size = size_of(
                rank_heads(mixer.kv_heads, tensor_parallel) * (mixer.head_dim + mixer.value_dim),
                dtype,
            )
            if mixer.indexer is None:
                return size
            if mixer.indexer.ratio > 1:  # keys of several tokens, in 16 bit
                return size + 2 * mixer.indexer.dim // mixer.indexer.ratio
            return size + size_of(mixer.indexer.dim, rows.index_dtype)
        case LatentAttention():
            scaled = mixer.indexer is not None if rows.scaled is None else rows.scaled
            if dtype.startswith("F8") and scaled:
                latent = (
                    mixer.latent_dim + mixer.latent_dim // 128 * INDEX_SCALE + 2 * mixer.rope_dim
                )
            else:
                latent = size_of(mixer.latent_dim + mixer.rope_dim, dtype)
            return latent + (_index_bytes(mixer.indexer.dim) if mixer.indexer else 0)
        case CompressedAttention():
            entry = mixer.head_dim + (mixer.indexer.dim if mixer.indexer else 0)
            return size_of(entry, dtype) // mixer.ratio if mixer.ratio else 0
        case _:
            return 0


def _index_bytes(dim: int) -> int:
    return dim + dim // 128 * INDEX_SCALE


def request_state_bytes(
    spec: ModelSpec, layers: range | None, dtype: str, tensor_parallel: int
) -> int:
    """Return what one request keeps whatever its length: recurrent states, and the keys and
    values of a source sequence."""
    total = 0
    for mixer, count in held(spec, layers):
        if isinstance(mixer, Recurrent):
            total += count * state_bytes(mixer, dtype, tensor_parallel)
        elif isinstance(mixer, CrossAttention):
            total += count * cross_bytes(mixer, dtype, tensor_parallel)
    return total


class BlockPool(msgspec.Struct, frozen=True, kw_only=True):
    """A cache divided into blocks of tokens."""

    cell: int
    """Bytes of a token."""
    block: int
    """Tokens of a block."""
    state: int
    """Bytes that a request holds in addition to its blocks."""
    context_length: int
    """Tokens of a request."""
    formula: str
    """`cell` by its factors."""

    @property
    def keeps(self) -> bool:
        """Whether this rank keeps anything of a request."""
        return self.cell > 0 or self.state > 0

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return the bytes that `concurrency` requests need, each in whole blocks."""
        return concurrency * (
            -(-context_length // self.block) * self.block * self.cell + self.state
        )

    def tokens(self, pool_bytes: int) -> int:
        """Return the tokens in whole blocks, in addition to the states of one request; without
        attention those of the requests that fit."""
        if not self.cell:
            return self.requests(pool_bytes, self.context_length) * self.context_length
        return max(0, pool_bytes - self.state) // (self.block * self.cell) * self.block

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Return whole requests of `context_length` tokens."""
        return pool_bytes // max(1, self.pool_bytes(1, context_length))


def block_pool(
    spec: ModelSpec,
    *,
    dtype: str,
    tensor_parallel: int,
    block: int,
    layers: range | None,
    context_length: int,
) -> BlockPool:
    """Return the BlockPool of one rank's `layers` (None: all)."""
    cell = sum(
        count * full_token_bytes(mixer, dtype, tensor_parallel)
        for mixer, count in held(spec, layers)
    )
    state = request_state_bytes(spec, layers, dtype, tensor_parallel)
    return BlockPool(
        cell=cell,
        block=block,
        state=state,
        context_length=context_length,
        formula=cell_formula(held(spec, layers), dtype, tensor_parallel),
    )


def cell_formula(
    mixers: Sequence[tuple[Mixer, int]],
    dtype: str,
    tensor_parallel: int,
    *,
    shared: bool = False,
    rows: SparseRows = USUAL_ROWS,
) -> str:
    """Return the bytes of one token in all layers by their factors: layers x KV heads x
    (key + value) x bytes of a number."""
    alike: dict[str, int] = {}
    for mixer, count in mixers:
        size = full_token_bytes(mixer, dtype, tensor_parallel, shared=shared, rows=rows)
        if size:
            factors = token_factors(mixer, size, tensor_parallel)
            alike[factors] = alike.get(factors, 0) + count
    parts = [f"{count} layers x {factors}" for factors, count in alike.items()]
    return f"({' + '.join(parts)})" if len(parts) > 1 else "".join(parts) or "0 B"
