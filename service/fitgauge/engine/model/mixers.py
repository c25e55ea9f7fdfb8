"""How a layer mixes tokens, and what it caches of a request: attention of every kind, a recurrent
state."""

from typing import Literal

import msgspec


class Indexer(msgspec.Struct, frozen=True, gc=False):
    """The small attention that picks which tokens a sparse attention reads."""

    heads: int
    """Its query heads."""
    dim: int
    """Features of a head, and of the one key a token that it caches."""
    top_k: int
    """Tokens that it picks for each query."""
    ratio: int = 1
    """Tokens that a cached key stands for; of `CompressedAttention` its own `ratio` counts."""


class Attention(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="attention"):
    """Multi-head, grouped- or multi-query attention that caches keys and values of every token."""

    query_heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """Features of a query's or key's head."""
    value_dim: int
    """Features of a value's head."""
    window: int | None = None
    """Tokens that a sliding window reads; None for all."""
    chunk: int | None = None
    """Tokens of a chunk of chunked local attention (Llama 4); None for all."""
    causal: bool = True
    """Whether a token reads only earlier ones; False: an encoder, without a cache."""
    shares_cache: bool = False
    """Whether it reads an earlier layer's cache instead of its own."""
    indexer: Indexer | None = None
    """What picks the tokens of a sparse attention."""


def plain_attention(
    query_heads: int,
    head_dim: int,
    *,
    kv_heads: int | None = None,
    window: int | None = None,
    causal: bool = True,
    shares_cache: bool = False,
) -> Attention:
    """Return attention whose values are as wide as its keys. kv_heads None: as many as those of
    queries."""
    return Attention(
        query_heads=query_heads,
        kv_heads=query_heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        value_dim=head_dim,
        window=window,
        causal=causal,
        shares_cache=shares_cache,
    )


class LatentAttention(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="latent_attention"):
    """Multi-head latent attention (MLA): one latent of `latent_dim` + `rope_dim` numbers a token,
    the same on every TP rank."""

    query_heads: int
    """Heads of queries."""
    latent_dim: int
    """Numbers of the compressed keys and values."""
    rope_dim: int
    """Numbers of the rotated key, shared by all heads."""
    nope_dim: int
    """Features of a key's head without rotation, after the latent is expanded."""
    value_dim: int
    """Features of a value's head, after the latent is expanded."""
    indexer: Indexer | None = None
    """What picks the tokens of DeepSeek sparse attention."""


class CompressedAttention(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="compressed_attention"
):
    """DeepSeek V4: a sliding window over one shared key-value head, and one entry for every `ratio`
    tokens."""

    query_heads: int
    """Heads of queries."""
    head_dim: int
    """Features of a head."""
    rope_dim: int
    """Of these, rotated."""
    window: int
    """Tokens of the sliding window."""
    ratio: int
    """Tokens that one compressed entry stands for; 0: the window alone."""
    indexer: Indexer | None = None
    """What picks entries where `ratio` is small."""


class CrossAttention(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="cross_attention"):
    """Attention to another sequence (encoder output, image tokens), cached once a request."""

    query_heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """Features of a head."""
    source_tokens: int
    """Tokens of the other sequence."""


class State(msgspec.Struct, frozen=True, gc=False):
    """One state tensor of a recurrent layer."""

    name: str
    """What it holds, e.g. `conv` or `ssm`."""
    heads: int
    """Its rows, which tensor parallelism divides."""
    width: int
    """Numbers of a row."""
    dtype: str | None = None
    """Canonical dtype; None is the cache's."""


class Recurrent(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="recurrent"):
    """A layer with a state of fixed size for every request instead of a cache that grows."""

    kind: Literal["mamba1", "mamba2", "gated_delta", "kimi_delta", "linear", "short_conv", "rwkv"]
    """Which recurrence it computes."""
    states: tuple[State, ...]
    """Its state tensors."""
    bounded_gate: bool = False
    """Whether the decay of a Kimi delta layer has a lower bound, which decides its kernels."""


Mixer = Attention | LatentAttention | CompressedAttention | CrossAttention | Recurrent
