"""What one layer asks of vLLM's paged pool: a page of so many bytes for every block of so many
tokens.

Source throughout: vLLM 0.33.0, `v1/kv_cache_interface.py` and the `get_kv_cache_spec` of each
layer class."""

from collections.abc import Sequence
from enum import IntEnum
from math import lcm
from typing import NamedTuple

from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.kv_cache import rank_heads, state_bytes
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.kv_cache import turboquant
from fitgauge.engine.serving.vllm.kv_cache.dtypes import (
    attention_token_bytes,
    cuda_major,
    element_bytes,
    latent_token_bytes,
)

DEFAULT_BLOCK = 16
"""Tokens of a block where the attention kernels take any. Source: `config/cache.py`,
DEFAULT_BLOCK_SIZE."""

_WIDE_HEAD = 512
"""Heads for which Hopper and Blackwell have blocks of their own: `attention_block`."""


class SpecKind(IntEnum):
    """How many blocks a request of L tokens takes of a group (`KvGroup.blocks`), and which
    layers may share one."""

    FULL = 0
    SLIDING = 1
    SLIDING_LATENT = 2
    CHUNKED = 3
    STATE = 4
    CROSS = 5
    RING = 6


class KvSpec(NamedTuple):
    """One layer's cache; only equal ones share a group."""

    kind: SpecKind
    """Which cache it is."""
    block: int
    """Tokens of a block."""
    page: int
    """Bytes of a block."""
    extent: int = 0
    """What the kind needs: the window or chunk [tokens], the source's tokens, or the states a
    request holds."""
    form: tuple[int, ...] = ()
    """Tells apart layers whose pages have one size and unlike contents."""
    latent: bool = False
    """Whether it is one vector a token, whose page cannot be padded."""


class Deployment(NamedTuple):
    """What decides the pages of a model, in addition to the model."""

    cache_format: str
    """Resolved by `fitgauge.engine.serving.vllm.kv_cache.dtypes`."""
    model_dtype: str
    """Canonical dtype of the model."""
    tensor_parallel: int
    """Ranks that divide a layer."""
    block: int
    """Tokens of a block of attention."""
    state_page: int
    """Bytes that a recurrent layer's page is padded to; 0 for none."""
    states: int
    """State blocks that a request holds in each recurrent layer."""
    max_model_len: int
    """The longest request [tokens]."""
    encoder_tokens: int = 0
    """max_num_encoder_input_tokens, which is max_num_batched_tokens (config/scheduler.py); 0 for
    the source's own."""


def mixer_specs(mixer: Mixer, on: Deployment) -> tuple[KvSpec, ...]:
    """Return every cache that one layer registers: none for an encoder or a layer that reads
    another's, several with an indexer."""
    if isinstance(mixer, Attention):
        return attention_specs(mixer, on) if mixer.causal and not mixer.shares_cache else ()
    if isinstance(mixer, LatentAttention):
        return latent_specs(mixer, on)
    if isinstance(mixer, Recurrent):
        return (state_spec(mixer, on),)
    if isinstance(mixer, CompressedAttention):
        return compressed_specs(mixer)
    return (cross_spec(mixer, on),)


def attention_specs(mixer: Attention, on: Deployment) -> tuple[KvSpec, ...]:
    """Return keys and values, and in addition to them a 16-bit key of the indexer (MiniMax-M3);
    where that stands for several tokens (Qwen3.8 Flash Next), also a ring of those that are not
    compressed yet. Sources: `models/minimax_m3/common/indexer.py`,
    `models/qwen4_exp/common/qsa_cache.py`."""
    heads = rank_heads(mixer.kv_heads, on.tensor_parallel)
    page = on.block * attention_token_bytes(mixer, heads, on.cache_format, on.model_dtype)
    form = (heads, mixer.head_dim, mixer.value_dim)
    if mixer.window:
        return (KvSpec(SpecKind.SLIDING, on.block, page, mixer.window, form),)
    if mixer.chunk:
        return (KvSpec(SpecKind.CHUNKED, on.block, page, mixer.chunk, form),)
    full = KvSpec(SpecKind.FULL, on.block, page, 0, form)
    if mixer.indexer is None:
        return (full,)
    dim, ratio = mixer.indexer.dim, mixer.indexer.ratio
    key = KvSpec(SpecKind.FULL, on.block, on.block // ratio * dim * 2, 0, (dim,), latent=True)
    if ratio == 1:
        return (full, key)
    return (full, key, KvSpec(SpecKind.RING, ratio, ratio * dim * 2, 0, (dim,)))


def latent_specs(mixer: LatentAttention, on: Deployment) -> tuple[KvSpec, ...]:
    """Return the latent, and the indexer's key in fp8 with an fp32 scale for every 128. Source:
    DeepseekV32IndexerCache."""
    width = mixer.latent_dim + mixer.rope_dim
    latent = KvSpec(
        SpecKind.FULL,
        on.block,
        on.block * latent_token_bytes(mixer, on.cache_format, on.model_dtype),
        0,
        (width,),
        latent=True,
    )
    if mixer.indexer is None:
        return (latent,)
    key = mixer.indexer.dim + mixer.indexer.dim // 128 * 4
    return (KvSpec(SpecKind.FULL, on.block, on.block * key, 0, (key,), latent=True), latent)


def state_spec(mixer: Recurrent, on: Deployment) -> KvSpec:
    """Return one state page, whatever the tokens, padded to the attention page of a hybrid.
    Source: `layers/mamba/abstract.py`."""
    page = state_bytes(mixer, on.model_dtype, on.tensor_parallel)
    return KvSpec(
        SpecKind.STATE,
        on.block if on.state_page else on.max_model_len,
        on.state_page or page,
        on.states,
        (1,) if mixer.kind == "short_conv" else (),
    )


def cross_spec(mixer: CrossAttention, on: Deployment) -> KvSpec:
    """Return keys and values of the source sequence, for which as many tokens are kept as a
    batch has. Source: CrossAttentionSpec."""
    heads = rank_heads(mixer.kv_heads, on.tensor_parallel)
    page = on.block * heads * 2 * mixer.head_dim * element_bytes(on.cache_format, on.model_dtype)
    return KvSpec(
        SpecKind.CROSS,
        on.block,
        page,
        on.encoder_tokens or mixer.source_tokens,
        (heads, mixer.head_dim),
    )


V4_ROW_BYTES = 584
"""448 fp8 numbers, 64 bf16 rotated ones, 8 bytes of scales. Source:
`models/deepseek_v4/attention.py`."""
V4_BLOCK, V4_WINDOW_BLOCK, V4_ALIGNMENT = 256, 64, 576
"""Tokens of a block of compressed entries and of the window; pages are multiples of 576 bytes.
Source: as above, `sparse_swa.py`."""


def compressed_specs(mixer: CompressedAttention) -> tuple[KvSpec, ...]:
    """DeepSeek V4: the window, the compressed entries, the compressor's unfinished sums, and the
    same for its indexer.

    Sources: `models/deepseek_v4/attention.py`, `compressor.py`,
    `v1/attention/backends/mla/sparse_swa.py`."""
    window = KvSpec(
        SpecKind.SLIDING_LATENT,
        V4_WINDOW_BLOCK,
        aligned(V4_WINDOW_BLOCK * V4_ROW_BYTES, V4_ALIGNMENT),
        mixer.window,
    )
    if mixer.ratio <= 1:
        return (window,)
    entries = V4_BLOCK // mixer.ratio
    main = KvSpec(
        SpecKind.FULL,
        V4_BLOCK,
        aligned(entries * V4_ROW_BYTES, V4_ALIGNMENT),
        0,
        (mixer.ratio, mixer.head_dim),
    )
    if mixer.indexer is None:
        return (window, main, compressor_spec(mixer.ratio, mixer.head_dim))
    key = mixer.indexer.dim + mixer.indexer.dim // 128 * 4
    index = KvSpec(
        SpecKind.FULL, V4_BLOCK, aligned(entries * key, V4_ALIGNMENT), 0, (mixer.ratio, key)
    )
    return (
        index,
        compressor_spec(mixer.ratio, mixer.indexer.dim),
        window,
        main,
        compressor_spec(mixer.ratio, mixer.head_dim),
    )


def compressor_spec(ratio: int, dim: int) -> KvSpec:
    """fp32 sums of keys and scores of the entry that is still being compressed: 2 x overlap x
    dim a token, over overlap x ratio tokens."""
    overlap, block = (2, 4) if ratio == 4 else (1, 8)
    return KvSpec(
        SpecKind.SLIDING_LATENT,
        block,
        aligned(block * 2 * overlap * dim * 4, V4_ALIGNMENT),
        overlap * ratio,
    )


def aligned(size: int, alignment: int) -> int:
    """`size` rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment


def differs_by_generation(spec: ModelSpec) -> bool:
    """Return whether Hopper, Blackwell and RTX Blackwell may lay the cache out otherwise: where
    `attention_block` or `resolved_format` tells them apart."""
    mixers = (mixer for block in spec.blocks for mixer in block.mixers)
    return spec.image_prefix or any(
        isinstance(mixer, LatentAttention | CompressedAttention)
        or (isinstance(mixer, Attention) and mixer.head_dim == _WIDE_HEAD)
        for mixer in mixers
    )


def attention_block(
    mixers: Sequence[Mixer],
    cache_format: str,
    compute_capability: tuple[int, int] | None,
    *,
    image_prefix: bool,
    version: tuple[int, ...],
) -> int:
    """Return the tokens of a block that every attention kernel of the model takes: 16 where it may.

    Source: `platforms/interface.py` (update_block_size_for_backend), `platforms/cuda.py`
    (_get_backend_priorities) and the backends' get_supported_kernel_block_sizes."""
    if cache_format in turboquant.PRESETS:
        hybrid = any(isinstance(mixer, Recurrent) for mixer in mixers)
        return DEFAULT_BLOCK if hybrid else turboquant.BLOCK
    major = cuda_major(compute_capability)
    latents = [mixer for mixer in mixers if isinstance(mixer, LatentAttention)]
    if any(mixer.indexer for mixer in latents):
        return 64 if major else DEFAULT_BLOCK  # DEEPSEEK_V32_INDEXER takes 64 alone on CUDA
    if latents:
        return latent_block(latents[0].nope_dim, cache_format, major, version)
    attentions = [mixer for mixer in mixers if isinstance(mixer, Attention)]
    if any(mixer.indexer and mixer.indexer.ratio == 1 for mixer in attentions):
        return 128  # MiniMax-M3: a page is one sparse block
    if (
        major == 9
        and cache_format in ("fp8", "fp8_e4m3")
        and any(mixer.head_dim == _WIDE_HEAD for mixer in attentions)
    ):
        return 64  # FlashAttention 4 on Hopper reads fp8 in tiles of 64
    if (
        major == 10
        and image_prefix
        and all(mixer.head_dim in (256, _WIDE_HEAD) for mixer in attentions if mixer.causal)
    ):
        # Triton for images and FlashInfer for text: v1/attention/backends/triton_flashinfer.py
        return 64
    return DEFAULT_BLOCK


def latent_block(nope_dim: int, cache_format: str, major: int, version: tuple[int, ...]) -> int:
    """Return the block of the MLA kernel that wins: FlashInfer 32 or CUTLASS 128 on 10.x,
    FlashMLA 64 for fp8 on 9.x, else 16."""
    if major == 9 and version < releases.FLASH_ATTENTION_LATENTS:
        return 64
    if major == 10:
        return 32 if nope_dim in (64, 128, 192) else 128
    return 64 if major == 9 and cache_format.startswith("fp8") else DEFAULT_BLOCK


def hybrid_block(
    attention_token: int, state_page: int, block: int, *, latent: bool, checkpoint: int
) -> int:
    """Return the tokens of a block such that an attention page is no smaller than a state page.

    attention_token: bytes a token and attention layer; state_page: bytes of the largest state;
    block: what the kernels ask for, at least 128 for MLA; checkpoint: tokens between states a
    prefill may export. Source: `platforms/interface.py`, _align_hybrid_block_size."""
    step = lcm(max(block, 128) if latent else block, checkpoint)
    return max(block, step * -(-state_page // (step * attention_token)))


_WITHOUT_ATTENTION = frozenset({"falcon_mamba", "mamba", "mamba2"})
"""Model types without prefix caching by default. Source: models/config.py, MambaModelConfig."""


def state_policy(
    spec: ModelSpec,
    mixers: Sequence[Recurrent],
    compute_capability: tuple[int, int] | None,
    version: tuple[int, ...],
) -> tuple[int, int]:
    """Return (state blocks a request holds, tokens that a checkpoint is aligned to) of a hybrid's
    recurrent layers.

    Without prefix caching a request holds 1 state; with it 2, and a third where the kernel
    exports a state in mid-prefill: always for Mamba 2, for gated delta nets with FlashInfer
    (9.0, 10.x, 12.x; every 64 tokens), for bounded KDA with FlashKDA. Sources:
    MambaSpec.max_memory_usage_bytes; get_kv_cache_spec of `mamba_mixer2.py`,
    `gdn/qwen_gdn_linear_attn.py`, `kimi_k3/nvidia/kda.py`."""
    if version < releases.HYBRID_PREFIX_CACHING or spec.model_type in _WITHOUT_ATTENTION:
        return 1, 1
    kinds = {mixer.kind for mixer in mixers}
    kinds -= {"short_conv"} if "gated_delta" in kinds else set()
    newest = cuda_major(compute_capability) in (9, 10, 12)
    if version < releases.STATES_EXPORTED:
        return 2, 1
    if kinds == {"gated_delta"} and newest and not spec.model_type.startswith("olmo"):
        return 3, 64
    if kinds == {"mamba2"} or (
        kinds == {"kimi_delta"} and newest and all(mixer.bounded_gate for mixer in mixers)
    ):
        return 3, 1
    return 2, 1
