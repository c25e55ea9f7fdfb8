"""vLLM's own plan of its KV cache: groups of layers, bytes of a block, blocks in a pool, tokens it
would log, and when it refuses.

Symbols: L tokens of a request, F tokens in flight (scheduled, not yet settled), b tokens of a
block, P bytes of the pool on one rank. Source throughout: vLLM 0.33.0,
`v1/core/kv_cache_planning.py`, `v1/core/kv_cache_utils.py`, `v1/kv_cache_interface.py`."""

from typing import NamedTuple

from msgspec import Struct, structs

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import counted, exactly
from fitgauge.engine.serving.kv_cache import CACHED_PARTS, rank_heads, state_bytes
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.kv_cache import turboquant
from fitgauge.engine.serving.vllm.kv_cache.dtypes import (
    attention_token_bytes,
    latent_token_bytes,
    resolved_format,
    served_dtype,
)
from fitgauge.engine.serving.vllm.kv_cache.groups import Layers, Members, grouped
from fitgauge.engine.serving.vllm.kv_cache.packed import group_bytes, packing
from fitgauge.engine.serving.vllm.kv_cache.specs import (
    Deployment,
    KvSpec,
    SpecKind,
    attention_block,
    hybrid_block,
    mixer_specs,
    state_policy,
)
from fitgauge.engine.serving.vllm.speculative import drafted_mixers, lengthened


class KvGroup(NamedTuple):
    """Layers that share one block table."""

    kind: SpecKind
    """Which cache their layers have."""
    block: int
    """Tokens of a block."""
    extent: int
    """What the kind needs: see `KvSpec`."""
    layers: int
    """Layers of this rank in the group."""
    page_bytes: int
    """Bytes of all these layers for every block."""

    def blocks(self, tokens: int, in_flight: int) -> int:
        """Return the blocks that one request of L tokens takes at its most.

        full ceil(L / b); sliding ceil(min(w - 1 + F, L) / b) + 1, as a window need not begin
        where a block does; chunked ceil(min(chunk + F, L) / b); cross ceil(source / b);
        recurrent its states; a ring 1. Source: max_memory_usage_bytes of each spec."""
        if self.kind == SpecKind.FULL:
            return -(-tokens // self.block)
        if self.kind == SpecKind.RING:
            return 1
        if self.kind == SpecKind.STATE:
            return self.extent
        if self.kind == SpecKind.CHUNKED:
            return -(-min(self.extent + in_flight, tokens) // self.block)
        if self.kind == SpecKind.CROSS:
            return -(-self.extent // self.block)
        return -(-min(self.extent - 1 + in_flight, tokens) // self.block) + 1


class KvCacheConfig(Struct, frozen=True):
    """The groups of a model as deployed, on one rank; what remains is to divide a pool by them."""

    groups: tuple[KvGroup, ...]
    """The groups in vLLM's order."""
    counted: tuple[tuple[KvGroup, int], ...]
    """The same groups, equal ones once, with how often."""
    block_bytes: int
    """Bytes of one block of the pool."""
    max_model_len: int
    """The longest request [tokens]."""
    in_flight: int
    """Tokens scheduled at once, F in the formulas."""
    max_state_requests: int
    """Requests that need a state block each when CUDA graphs are captured; 0: no recurrent layers,
    no graphs, or a version that does not check."""
    tokens_by_group: bool
    """Whether the log of the version divides blocks by groups."""
    unit_bytes: int = 0
    """Bytes of a block as the log counts those of a request, where pages of unlike size lie side by
    side; else 0."""
    checked_bytes: int = 0
    """Bytes that the check at start counts for a block of a request; 0: `block_bytes`."""
    block_formula: str = ""
    """`block_bytes` by its factors."""

    def with_longest(self, max_model_len: int) -> "KvCacheConfig":
        """Return the same with another longest request."""
        return structs.replace(self, max_model_len=max_model_len)

    @property
    def blocks_per_request(self) -> int:
        """Blocks of the longest request."""
        if not self.unit_bytes:
            return self.request_blocks(self.max_model_len)
        pages = (
            group.blocks(self.max_model_len, self.in_flight) * group.page_bytes
            for group in self.groups
        )
        return -(-sum(pages) // self.unit_bytes)

    def request_blocks(self, tokens: int) -> int:
        """Return the blocks of the pool that one request of `tokens` tokens takes: the sum over
        groups, which draw from one pool."""
        in_flight = self.in_flight
        return sum([group.blocks(tokens, in_flight) * times for group, times in self.counted])

    @property
    def keeps(self) -> bool:
        """Whether this rank has blocks at all: an encoder's and a stage's without attention have
        none."""
        return self.block_bytes > 0

    def blocks(self, pool_bytes: int) -> int:
        """Return whole blocks of a pool. With pipeline stages vLLM takes the fewest of all.
        Source: get_kv_cache_configs."""
        return max(pool_bytes, 0) // self.block_bytes

    def concurrency(self, pool_bytes: int) -> float:
        """ "Maximum concurrency" as vLLM logs it: blocks over those of a request of
        max_model_len. Source: get_kv_cache_capacity."""
        return self.blocks(pool_bytes) / self.blocks_per_request

    def tokens(self, pool_bytes: int) -> int:
        """ "GPU KV cache size" as vLLM logs it: concurrency x max_model_len, or blocks of one
        group x b."""
        if self.tokens_by_group:
            return (
                self.blocks(pool_bytes)
                // len(self.groups)
                * min(group.block for group in self.groups)
            )
        return int(self.concurrency(pool_bytes) * self.max_model_len)

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return the bytes of the least pool that starts with this length as max_model_len and
        holds `concurrency` such requests.

        = (1 null block, which is never handed out, + concurrency x blocks of a request; at least
        a state block for each of max_num_seqs) x block_bytes; at least the blocks of one request
        x checked_bytes. With less vLLM refuses to start. Sources: _check_enough_kv_cache_memory;
        `config/compilation.py` (resolve_cudagraph_mode_and_sizes)."""
        blocks = self.request_blocks(context_length)
        held = max(concurrency * blocks + 1, self.max_state_requests) * self.block_bytes
        return max(held, blocks * self.checked_bytes)

    def pool_formula(self, concurrency: int, context_length: int) -> str:
        """Return `pool_bytes` by its factors."""
        if not self.block_bytes:
            return "0 B"
        blocks = self.request_blocks(context_length)
        if concurrency * blocks + 1 < self.max_state_requests:
            return f"{self.max_state_requests} state blocks x {self.block_formula}"
        if (concurrency * blocks + 1) * self.block_bytes < blocks * self.checked_bytes:
            return f"1 request x {blocks} blocks x {self.checked_bytes} B, as checked at start"
        requests = counted(concurrency, "request")
        return f"({requests} x {blocks} blocks + 1 null block) x {self.block_formula}"

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Return whole requests of `context_length` tokens that the pool holds at once in
        addition to the null block."""
        return max(self.blocks(pool_bytes) - 1, 0) // self.request_blocks(context_length)


def model_groups(
    spec: ModelSpec,
    *,
    tensor_parallel: int,
    kv_cache_dtype: str,
    max_model_len: int,
    max_batched_tokens: int,
    version: tuple[int, ...],
    compute_capability: tuple[int, int] | None = None,
    speculative_tokens: int = 0,
    float32: bool = False,
    requantized: bool = False,
) -> tuple[Members, ...]:
    """Return the layers of a whole model in the groups that vLLM makes of them, before they are
    dealt to pipeline stages.

    `kv_cache_dtype`: as `--kv-cache-dtype`, or a canonical number format. `compute_capability`: of
    the GPU, None without CUDA. `speculative_tokens`: drafted a step by the model's own heads,
    whose layers then keep a cache too, numbered on from the last; a recurrent layer holds a
    state more for each of them (MambaSpec, num_speculative_blocks). `float32`: the model runs in
    32 bits (--dtype float32). `requantized`: see `resolved_format`.
    Raises UnsupportedError for a dtype that vLLM has not."""
    model_mixers: list[tuple[Mixer, Layers]] = [
        (lengthened(mixer, block, speculative_tokens), block.layers)
        for block in spec.blocks
        if block.mixers and block.part in CACHED_PARTS
        for mixer in block.mixers
    ]
    model_mixers += drafted_mixers(spec) if speculative_tokens else []
    on = deployment(
        spec,
        [mixer for mixer, _ in model_mixers],
        tensor_parallel,
        kv_cache_dtype,
        max_model_len,
        compute_capability,
        version,
        "F32" if float32 else served_dtype(spec.dtype),
        requantized=requantized,
    )
    on = on._replace(encoder_tokens=max_batched_tokens, states=on.states + speculative_tokens)
    members = [
        (one, numbers)
        for mixer, layers in model_mixers
        for numbers, form in turboquant.formats(spec, layers, on.cache_format)
        for one in mixer_specs(mixer, on._replace(cache_format=form))
    ]
    return grouped(members, packed=any(_packs(mixer) for mixer, _ in model_mixers))


def _packs(mixer: Mixer) -> bool:
    """Return whether pages of unlike size lie side by side in a block. Sources:
    supported_kv_cache_layouts of models/deepseek_v4 and models/qwen4_exp/common/qsa_cache.py."""
    if isinstance(mixer, Attention):
        return mixer.indexer is not None and mixer.indexer.ratio > 1
    return isinstance(mixer, CompressedAttention)


def stage_layout(
    members: tuple[Members, ...],
    max_model_len: int,
    in_flight: int,
    *,
    max_num_seqs: int,
    version: tuple[int, ...],
) -> KvCacheConfig:
    """Return the KvCacheConfig of a stage that holds these members of every group."""
    packed = packing(members, version)
    groups = tuple(kv_group(group) for group in (packed.groups if packed else members))
    counted = count(groups)
    largest = max(range(len(groups)), key=lambda index: groups[index].page_bytes, default=0)
    return KvCacheConfig(
        groups=groups,
        counted=counted,
        block_bytes=(
            packed.block_bytes if packed else max((group.page_bytes for group in groups), default=0)
        ),
        max_model_len=max_model_len,
        in_flight=in_flight,
        max_state_requests=(
            max_num_seqs
            if version >= releases.STATES_CHECKED
            and any(group.kind == SpecKind.STATE for group in groups)
            else 0
        ),
        tokens_by_group=version < releases.TOKENS_BY_REQUEST,
        unit_bytes=packed.unit_bytes if packed else 0,
        checked_bytes=packed.checked_bytes if packed else 0,
        block_formula=(
            exactly(packed.block_bytes)
            if packed and packed.block_bytes != groups[largest].page_bytes
            else block_formula(members[largest])
            if members
            else ""
        ),
    )


def block_formula(members: Members) -> str:
    """Return the bytes of a block of one group by its factors: layers x tokens x KV heads x
    (key + value) x bytes of a number, where a page has no padding."""
    parts = []
    for spec, layers in members:
        form, numbers, words = spec.form, 0, ""
        if spec.kind != SpecKind.CROSS and len(form) == 3:
            heads, key, value = form
            numbers, words = heads * (key + value), f"{heads} KV heads x ({key} + {value})"
        elif len(form) == 1:
            numbers, words = form[0], f"{form[0]} numbers"
        if numbers and spec.page % (spec.block * numbers) == 0:
            width = spec.page // (spec.block * numbers)
            page = f"{spec.block} tokens x {words} x {width} B"
        else:
            page = f"{spec.page} B"
        parts.append(f"{len(layers)} layers x {page}")
    return f"({' + '.join(parts)})" if len(parts) > 1 else "".join(parts)


def deployment(
    spec: ModelSpec,
    mixers: list[Mixer],
    tensor_parallel: int,
    kv_cache_dtype: str,
    max_model_len: int,
    compute_capability: tuple[int, int] | None,
    version: tuple[int, ...],
    dtype: str,
    *,
    requantized: bool,
) -> Deployment:
    """Format, block size and state pages that the model's layers share, where it runs in `dtype`.
    A hybrid's block grows until a page holds a state."""
    cache_format = resolved_format(
        spec, kv_cache_dtype, compute_capability, requantized=requantized
    )
    block = attention_block(
        mixers, cache_format, compute_capability, image_prefix=spec.image_prefix, version=version
    )
    recurrent = [mixer for mixer in mixers if isinstance(mixer, Recurrent)]
    if not recurrent:
        return Deployment(cache_format, dtype, tensor_parallel, block, 0, 0, max_model_len)
    token, latent = hybrid_token_bytes(mixers, cache_format, dtype, tensor_parallel)
    states, checkpoint = state_policy(spec, recurrent, compute_capability, version)
    if not token:
        return Deployment(cache_format, dtype, tensor_parallel, block, 0, states, max_model_len)
    state_page = max(state_bytes(mixer, dtype, tensor_parallel) for mixer in recurrent)
    block = hybrid_block(token, state_page, block, latent=latent, checkpoint=checkpoint)
    return Deployment(
        cache_format, dtype, tensor_parallel, block, block * token, states, max_model_len
    )


def page_reads_context(spec: ModelSpec) -> bool:
    """Return whether a page depends on the longest request: a state's where no layer attends, whose
    block is as long."""
    return spec.keeps_states and not _ATTENDS.get_or_compute(spec, None, lambda: _has_cache(spec))


_ATTENDS: WeakMemo[ModelSpec, None, bool] = WeakMemo()


def _has_cache(spec: ModelSpec) -> bool:
    """Return whether a layer attends, so that it keeps a cache of tokens."""
    return any(
        _attends(mixer)
        for block in spec.blocks
        if block.part in CACHED_PARTS
        for mixer in block.mixers
    )


def _attends(mixer: Mixer) -> bool:
    return isinstance(mixer, LatentAttention) or (isinstance(mixer, Attention) and mixer.causal)


def hybrid_token_bytes(
    mixers: list[Mixer], cache_format: str, dtype: str, tensor_parallel: int
) -> tuple[int, bool]:
    """Return (bytes a token of one attention layer of a hybrid, whether that is MLA); (0, False)
    where no layer attends."""
    for mixer in mixers:
        if isinstance(mixer, LatentAttention):
            return latent_token_bytes(mixer, cache_format, dtype), True
        if isinstance(mixer, Attention) and mixer.causal:
            return (
                attention_token_bytes(
                    mixer, rank_heads(mixer.kv_heads, tensor_parallel), cache_format, dtype
                ),
                False,
            )
    return 0, False


def batches_in_flight(pipeline_parallel: int, version: tuple[int, ...]) -> int:
    """Batches whose tokens may be scheduled and not yet settled: one a stage, and one more with
    asynchronous scheduling.

    Source: `config/vllm.py`, max_concurrent_batches.
    """
    return pipeline_parallel + 1 if version >= releases.IN_FLIGHT_COUNTED else 1


def kv_group(members: Members) -> KvGroup:
    """Members of one group as the group they make."""
    first: KvSpec = members[0][0]
    numbers: list[Layers] = [layers for _, layers in members]
    page = group_bytes(members)
    return KvGroup(first.kind, first.block, first.extent, sum(map(len, numbers)), page)


def count(groups: tuple[KvGroup, ...]) -> tuple[tuple[KvGroup, int], ...]:
    """Return the groups that take the same blocks as one, with how many they are."""
    if len(groups) == 1:
        return ((groups[0], 1),)
    by_blocks: dict[tuple[SpecKind, int, int], tuple[KvGroup, int]] = {}
    for group in groups:
        key = (group.kind, group.block, group.extent)
        by_blocks[key] = (group, by_blocks[key][1] + 1 if key in by_blocks else 1)
    return tuple(by_blocks.values())
