"""KV cache and recurrent state: what every kind of mixer keeps, whatever the engine.

Symbols: tp tensor-parallel ranks [1], L tokens of a request, w window [tokens], `dtype` a
canonical number format. All sizes are bytes on one tensor-parallel rank. Engines that page their
cache round these up (fitgauge.engine.serving.vllm)."""

from collections.abc import Callable, Iterable

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import ModelSpec, Part, count_within
from fitgauge.engine.quantity import counted, exactly

CACHED_PARTS = frozenset({Part.LANGUAGE, Part.ENCODER})
"""Parts whose layers may keep a cache while serving; multi-token prediction heads run only when
asked for."""


def rank_heads(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads one rank holds: kv_heads / tp, and one (a replica) where ranks outnumber heads.

    Source: vLLM `ModelConfig.get_num_kv_heads`; Megatron-LM replicates the same way.
    """
    return max(1, kv_heads // tensor_parallel)


def token_bytes(mixer: Mixer, dtype: str, tensor_parallel: int) -> int:
    """Return the bytes that one more token adds to one layer, as long as no window is full.

    Attention: keys and values, heads_rank x (head_dim + value_dim), and an indexer's key, the
    same on every rank. Latent attention: the latent and the rotated key, latent_dim + rope_dim
    numbers on every rank, and an indexer's key. Compressed attention: the token's entry in the
    window, one shared key-value head of head_dim numbers (the compressed entries:
    `compressed_bytes`). Cross attention and recurrent layers: nothing, theirs is of a fixed size
    (`cross_bytes`, `state_bytes`). Source: Ainslie et al. 2023 (arXiv 2305.13245), GQA;
    DeepSeek-V2 (arXiv 2405.04434), section 2.1; DeepSeek-V3.2, its lightning indexer; DeepSeek
    V4's `modeling_deepseek_v4.py`."""
    match mixer:
        case Attention():
            if not mixer.causal or mixer.shares_cache:
                return 0
            index = mixer.indexer.dim // mixer.indexer.ratio if mixer.indexer else 0
            return size_of(
                rank_heads(mixer.kv_heads, tensor_parallel) * (mixer.head_dim + mixer.value_dim)
                + index,
                dtype,
            )
        case LatentAttention():
            return size_of(
                mixer.latent_dim + mixer.rope_dim + (mixer.indexer.dim if mixer.indexer else 0),
                dtype,
            )
        case CompressedAttention():
            return size_of(mixer.head_dim, dtype)
        case CrossAttention() | Recurrent():
            return 0


def state_bytes(mixer: Recurrent, dtype: str, tensor_parallel: int) -> int:
    """State of one request in one recurrent layer: sum of ceil(heads / tp) x width x bytes, `dtype`
    where a state names none.

    Groups fewer than ranks are replicated, one a rank. Source: vLLM
    `model_executor/layers/mamba/mamba_utils.py`."""
    return sum(
        size_of(-(-state.heads // tensor_parallel) * state.width, state.dtype or dtype)
        for state in mixer.states
    )


def cross_bytes(mixer: CrossAttention, dtype: str, tensor_parallel: int) -> int:
    """Return keys and values of the source sequence, once a request: source_tokens x 2 x
    heads_rank x head_dim."""
    return size_of(
        mixer.source_tokens * 2 * rank_heads(mixer.kv_heads, tensor_parallel) * mixer.head_dim,
        dtype,
    )


def cached_tokens(mixer: Mixer, context_length: int) -> int:
    """Return the tokens a layer keeps of a request of L: min(w, L) with a window or chunk, else
    L."""
    if isinstance(mixer, Attention):
        return min(mixer.window or mixer.chunk or context_length, context_length)
    if isinstance(mixer, CompressedAttention):
        return min(mixer.window, context_length)
    return context_length


def compressed_bytes(mixer: CompressedAttention, context_length: int, dtype: str) -> int:
    """Entries in addition to the window: L / ratio, each head_dim numbers and the indexer's key;
    0 where ratio is 0."""
    if not mixer.ratio:
        return 0
    return size_of(
        context_length
        // mixer.ratio
        * (mixer.head_dim + (mixer.indexer.dim if mixer.indexer else 0)),
        dtype,
    )


def request_bytes(
    mixer: Mixer, context_length: int, dtype: str, tensor_parallel: int, state_dtype: str
) -> int:
    """Return all that one layer keeps of one request of `context_length` tokens. `state_dtype`:
    of states that name none."""
    if isinstance(mixer, Recurrent):
        return state_bytes(mixer, state_dtype, tensor_parallel)
    if isinstance(mixer, CrossAttention):
        return cross_bytes(mixer, dtype, tensor_parallel)
    held = cached_tokens(mixer, context_length) * token_bytes(mixer, dtype, tensor_parallel)
    if isinstance(mixer, CompressedAttention):
        return held + compressed_bytes(mixer, context_length, dtype)
    return held


def token_factors(mixer: Mixer, size: int, tensor_parallel: int) -> str:
    """Return `size` bytes of one token (or of several) in one layer by its factors, where it has
    any."""
    match mixer:
        case Attention():
            heads = rank_heads(mixer.kv_heads, tensor_parallel)
            numbers = heads * (mixer.head_dim + mixer.value_dim)
            words = f"{heads} KV heads x ({mixer.head_dim} + {mixer.value_dim})"
        case LatentAttention():
            numbers = mixer.latent_dim + mixer.rope_dim
            words = f"({mixer.latent_dim} latent + {mixer.rope_dim} rotated)"
        case _:
            return f"{size} B"
    return f"{words} x {size // numbers} B" if numbers and size % numbers == 0 else f"{size} B"


def requests_formula(
    requests: int,
    layers: Iterable[tuple[Mixer, int]],
    *,
    tokens: Callable[[Mixer], int],
    layer_bytes: Callable[[Mixer], int],
    tensor_parallel: int = 1,
) -> str:
    """Return the bytes of `requests` requests without paging by their factors. layers: mixers
    and of how many layers; tokens: that a layer keeps of a request; layer_bytes: all it keeps."""
    alike: dict[str, int] = {}
    for mixer, count in layers:
        size, length = layer_bytes(mixer), tokens(mixer)
        per_token = length and size and size % length == 0
        if per_token and not isinstance(mixer, Recurrent | CrossAttention):
            factors = f"{length} tokens x {token_factors(mixer, size // length, tensor_parallel)}"
        else:
            factors = f"{size} B"
        if size:
            alike[factors] = alike.get(factors, 0) + count
    parts = " + ".join(f"{count} layers x {factors}" for factors, count in alike.items())
    return f"{counted(requests, 'request')} x ({parts or '0 B'})"


def given_pool(size: int) -> str:
    """Return the formula of a pool that the question gives outright."""
    return f"{exactly(size)}; the pool given in kv_cache_memory_gib"


def cache_bytes(
    spec: ModelSpec,
    context_length: int,
    concurrency: int,
    *,
    dtype: str,
    tensor_parallel: int = 1,
    layers: range | None = None,
) -> int:
    """KV cache and states of `concurrency` requests of `context_length` tokens in an engine without
    paging, on one rank.

    = concurrency x sum over layers of `request_bytes`. `layers`: those of a pipeline stage, None
    for all. Leaves out what an allocator rounds up and the copy that concatenating makes.
    Source: transformers `cache_utils.DynamicCache`, which grows lazily."""
    one = 0
    for block in spec.blocks:
        if block.mixers and block.part in CACHED_PARTS:
            count = count_within(block.layers, layers)
            one += count * sum(
                request_bytes(mixer, context_length, dtype, tensor_parallel, spec.dtype)
                for mixer in block.mixers
            )
    return concurrency * one
