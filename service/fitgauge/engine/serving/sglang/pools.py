"""The pools of one rank of SGLang: tokens of full attention, tokens in windows, and states.

Source: sglang 0.5.23, srt/model_executor/pool_configurator.py."""

from msgspec import Struct, structs

from fitgauge.engine.model.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    Recurrent,
)
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.quantity import Term, counted, exact_term, exactly
from fitgauge.engine.serving.kv_cache import given_pool, state_bytes
from fitgauge.engine.serving.sglang import compressed
from fitgauge.engine.serving.sglang.quirks import quirks
from fitgauge.engine.serving.sglang.speculative import (
    RUNNING_REQUESTS,
    checked_tokens,
    own_layers,
    priced_layers,
)
from fitgauge.engine.serving.token_pool import (
    USUAL_ROWS,
    SparseRows,
    cell_formula,
    full_token_bytes,
    held,
    kv_cache_dtype,
)
from fitgauge.engine.serving.workload import Workload

WINDOW_SHARE = 0.8
"""`swa_full_tokens_ratio`: tokens of the window pool for every token of the full pool."""

STATE_SHARE = 0.9
"""`mamba_full_memory_ratio`: bytes of states for every byte of KV cache."""

STATES_PER_REQUEST = 3
"""State slots a running request may take: its own and two that the radix cache holds of its
prefix."""

TRACKING = 2
"""Further slots of a request of the `_TRACKED` architectures, in which states of its prefix are
kept by turns while steps overlap."""

TRACKED_SINCE = (0, 5, 23)
"""From here on such slots are counted; the releases before were not read for it."""

_TRACKED = frozenset({
    "KimiLinearForCausalLM", "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM", "Qwen3_5ForCausalLM",
    "Qwen3NextForCausalLM", "Qwen4ExpForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration", "MiniCPMV4_6ForConditionalGeneration",
    "MiniCPMV4_7ForConditionalGeneration", "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM",
    "BailingMoeV3VLForConditionalGeneration", "FalconH1ForCausalLM",
    "GraniteMoeHybridForCausalLM", "Glm5NextForConditionalGeneration", "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM", "NemotronH_Omni_Reasoning_V3", "KimiK3ForConditionalGeneration",
    "InklingForConditionalGeneration",
})  # fmt: skip
"""Source: srt/arg_groups/overrides.py, _mamba_radix_cache_resolution (extra_buffer);
kv_cache_configurator.py, _calculate_mamba_ratio."""

WINDOWED = frozenset({
    "Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM",
    "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration",
    "DeepseekV4ForCausalLM", "EmbeddingGemma2Model", "LagunaForCausalLM", "MellumForCausalLM",
    "MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration",
})  # fmt: skip
"""Architectures whose sliding layers have a pool of their own; Gemma 2 and 3, Mistral and others
keep every token of every layer.

Source: srt/configs/model_config.py, is_hybrid_swa_model;
srt/arg_groups/model_overrides/gemma2_gemma3.py."""


_ENCODER_POOLED = frozenset({"WhisperForConditionalGeneration"})
"""Architectures whose encoder layers have a part in the pool, though they write none."""


class SglangPools(Struct, frozen=True, kw_only=True):
    """The pools of one rank."""

    full: float
    """Bytes of a token in the pool of full attention."""
    windowed: float
    """Bytes of a token in the pool of sliding layers."""
    slot: int
    """Bytes of a state slot."""
    slots_per_request: int = STATES_PER_REQUEST
    """State slots a running request may take."""
    window: int
    """Tokens of the longest window."""
    context_length: int
    """Tokens of a request."""
    window_share: float = WINDOW_SHARE
    """Tokens of the window pool for every token of the full pool."""
    fixed: int = 0
    """Bytes of states that all requests have from the start."""
    source: int = 0
    """Tokens of the images that a request attends to across, which lie in the same pool."""
    formula: str = ""
    """`cell` by its factors."""
    checked: int = 0
    """Tokens of a request that a step checks with a draft, whose states are apart; 0 without."""
    running: int = 0
    """Requests at once whose tokens are checked at most."""

    @property
    def keeps(self) -> bool:
        """Whether this rank keeps anything of a request."""
        return self.full > 0 or self.windowed > 0 or self.slot > 0

    @property
    def cell(self) -> float:
        """Bytes of one token of capacity: full + share x windowed, or the window pool's alone
        where there is no full one."""
        return self.full + self.window_share * self.windowed if self.full else self.windowed

    def slots(self, pool_bytes: int) -> int:
        """State slots: 0.9 / 1.9 of the pool less one slot of padding, over the bytes of a slot;
        with a draft both with the states of the tokens that are checked, of as many requests as
        have slots."""
        if not self.slot:
            return 0
        budget = pool_bytes * STATE_SHARE / (1 + STATE_SHARE) - self.slot * (1 + self.checked)
        return max(0, int(budget // (self.slot * (1 + self.checked / self.slots_per_request))))

    def state_bytes(self, pool_bytes: int) -> int:
        """Return what states take of the pool: the slots, one of padding, and the states of the
        tokens that are checked of every running request and one more."""
        slots = self.slots(pool_bytes)
        running = min(self.running, slots // self.slots_per_request) + 1 if self.checked else 0
        return (slots + 1 + running * self.checked) * self.slot

    def tokens(self, pool_bytes: int) -> int:
        """`max_total_num_tokens`: what the states leave, over the cell; a request's context where
        nothing is kept of a token. Source: pool_configurator.py, _zero_kv_max_tokens."""
        pool_bytes -= self.fixed
        rest = pool_bytes - self.state_bytes(pool_bytes)
        if not self.cell:
            return self.context_length if self.slots(pool_bytes) else 0
        return max(0, int(rest // self.cell))

    def pool_bytes(self, concurrency: int, context_length: int) -> int:
        """Return the least pool whose tokens, window and state slots hold `concurrency` such
        requests."""
        tokens = concurrency * (context_length + self.source)
        if self.windowed:
            in_windows = concurrency * min(context_length, self.window)
            tokens = (
                max(tokens, int(in_windows / self.window_share) + 1) if self.full else in_windows
            )
        needed = int(tokens * self.cell) + 1 + self.fixed if self.cell else 0
        if not self.slot:
            return needed
        slots = self.slots_per_request * concurrency + 1
        states = slots * (1 + self.checked / self.slots_per_request) + 1 + self.checked
        return max(
            int(states * self.slot * (1 + STATE_SHARE) / STATE_SHARE),
            int((needed + self.slot * (1 + self.checked)) * (1 + STATE_SHARE)),
        )

    def pool_formula(self, concurrency: int, context_length: int) -> str:
        """Return what tokens take of `pool_bytes` by its factors."""
        if not self.cell:
            return "0 B"
        each = f"({context_length} + {self.source})" if self.source else str(context_length)
        tokens = f"{counted(concurrency, 'request')} x {each} tokens"
        if self.windowed:
            in_windows = concurrency * min(context_length, self.window)
            if not self.full:
                tokens = f"{in_windows} tokens in windows"
            elif int(in_windows / self.window_share) + 1 > concurrency * context_length:
                tokens = f"{int(in_windows / self.window_share) + 1} tokens for the windows' pool"
        fixed = f" + {exactly(self.fixed)} of all requests' states" if self.fixed else ""
        return f"{tokens} x {self.formula} + 1 B{fixed}"

    def requests(self, pool_bytes: int, context_length: int) -> int:
        """Return whole requests that all pools hold."""
        tokens, counts = self.tokens(pool_bytes), []
        if self.full:
            counts.append(tokens // (context_length + self.source))
        if self.windowed:
            tokens_in_window = int(self.window_share * tokens) if self.full else tokens
            counts.append(tokens_in_window // min(context_length, self.window))
        if self.slot:
            counts.append(self.slots(pool_bytes) // self.slots_per_request)
        return min(counts, default=0)


def radix_pool(
    spec: ModelSpec,
    workload: Workload,
    layers: range | None,
    *,
    rows: SparseRows = USUAL_ROWS,
    requests: int | None = None,
) -> SglangPools:
    """Return the pools of one rank's `layers` (None: all). rows: of sparse attention;
    requests: --max-running-requests, None where it is not set."""
    dtype, tensor_parallel = kv_cache_dtype(spec, workload.kv_cache_dtype), workload.tensor_parallel
    drafted = priced_layers(spec, workload)
    if any(isinstance(mixer, CompressedAttention) for mixer, _ in held(spec, layers)):
        return _of_compressed(held(spec, layers), workload, requests, drafted)
    split = spec.architecture in WINDOWED
    full = windowed = window = 0
    layers_of: tuple[list[tuple[Mixer, int]], list[tuple[Mixer, int]]] = ([], [])
    pooled = _pooled(spec, layers)
    for mixer, count in pooled:
        size = count * full_token_bytes(mixer, dtype, tensor_parallel, shared=True, rows=rows)
        width = 0
        if split and isinstance(mixer, Attention):
            width = mixer.window or mixer.chunk or 0
        if width:
            windowed, window = windowed + size, max(window, width)
        else:
            full += size
        layers_of[1 if width else 0].append((mixer, count))
    slot = sum(
        count * state_bytes(_with_dtypes(mixer), "BF16", tensor_parallel)
        for mixer, count in _priced_states(spec, layers)
    )
    own = sum(
        count * full_token_bytes(mixer, dtype, tensor_parallel, shared=True)
        for mixer, count in own_layers(spec)
    )
    if drafted and layers_of[0]:
        full += own or int(full * drafted / sum(count for _, count in layers_of[0]))
    return SglangPools(
        full=full,
        windowed=windowed,
        slot=slot,
        slots_per_request=_slots_per_request(spec, workload),
        window=window,
        context_length=workload.context_length,
        source=_source_tokens(spec),
        formula=_cell_formula(*layers_of, dtype, tensor_parallel, rows)
        + (f" with {counted(drafted, 'layer')} more that draft" if drafted else ""),
        checked=checked_tokens(workload),
        running=requests or RUNNING_REQUESTS,
    )


def _priced_states(spec: ModelSpec, layers: range | None) -> list[tuple[Recurrent, int]]:
    """Return the recurrent mixers of a slot, with their number. Short convolutions next to others
    (Qwen3.8 Flash Next) have a pool of their own, which is not priced. Source:
    srt/mem_cache/memory_pool.py, HybridReqToTokenPool (short_conv_pool)."""
    states = [(mixer, count) for mixer, count in held(spec, layers) if isinstance(mixer, Recurrent)]
    others = [(mixer, count) for mixer, count in states if mixer.kind != "short_conv"]
    return others or states


def _with_dtypes(mixer: Recurrent) -> Recurrent:
    """Return a recurrent layer whose state is in float32 where its config names no dtype, but for
    the convolution's inputs. Source: srt/configs/mamba_utils.py, mamba2_state_dtype."""
    states = tuple(
        structs.replace(
            state, dtype=state.dtype or (None if state.name.startswith("conv") else "F32")
        )
        for state in mixer.states
    )
    return structs.replace(mixer, states=states)


def _slots_per_request(spec: ModelSpec, workload: Workload) -> int:
    tracked = spec.architecture in _TRACKED and workload.engine_version >= TRACKED_SINCE
    return STATES_PER_REQUEST + (TRACKING if tracked else 0)


def _of_compressed(
    layers: list[tuple[Mixer, int]], workload: Workload, requests: int | None, drafted: int
) -> SglangPools:
    """Return the pools of compressed attention, which a draft makes larger by its share of the
    layers."""
    pools = compressed.compressed_pools(layers, requests)
    more = 1 + drafted / sum(count for _, count in layers)
    return SglangPools(
        full=pools.full * more,
        windowed=pools.windowed * more,
        slot=0,
        window=max(mixer.window for mixer, _ in layers if isinstance(mixer, CompressedAttention)),
        context_length=workload.context_length,
        window_share=compressed.WINDOW_SHARE,
        fixed=pools.fixed,
        formula=f"({pools.full:g} B + {compressed.WINDOW_SHARE:g} x {pools.windowed:g} B)",
    )


def _pooled(spec: ModelSpec, layers: range | None) -> list[tuple[Mixer, int]]:
    """Return the mixers with a part in a token's cell, with the number of layers: across another
    sequence as over its own, and of Whisper the encoder's too. Source: model_config.py,
    num_attention_layers; models/mllama.py; of encoders layers/radix_attention.py (ENCODER_ONLY)."""
    encodes = spec.task == "encode"
    mixers = [(_as_own(mixer, encodes=encodes), count) for mixer, count in held(spec, layers)]
    if quirks(spec).latent_cache:
        mixers = [(_latent(spec, mixer), count) for mixer, count in mixers]
    if spec.architecture in _ENCODER_POOLED:
        mixers += [
            (structs.replace(mixer, causal=True), len(block.layers))
            for block in spec.blocks
            if block.part is Part.ENCODER
            for mixer in block.mixers
            if isinstance(mixer, Attention)
        ]
    return mixers


def _latent(spec: ModelSpec, mixer: Mixer) -> Mixer:
    """Return attention as over the latents that its keys and values are expanded from."""
    shapes = {
        tensor.name.removeprefix("self_attn."): tensor.shape
        for block in spec.blocks
        for tensor in block.tensors
    }
    (latent,) = shapes["kv_a_layernorm.weight"]
    joint, _ = shapes["kv_a_proj_with_mqa.weight"]
    if not isinstance(mixer, Attention):
        return mixer
    return LatentAttention(
        query_heads=mixer.query_heads,
        latent_dim=latent,
        rope_dim=joint - latent,
        nope_dim=mixer.head_dim - (joint - latent),
        value_dim=mixer.value_dim,
    )


def _as_own(mixer: Mixer, *, encodes: bool) -> Mixer:
    if encodes and isinstance(mixer, Attention):
        return structs.replace(mixer, causal=True)
    if not isinstance(mixer, CrossAttention):
        return mixer
    return Attention(
        query_heads=mixer.query_heads,
        kv_heads=mixer.kv_heads,
        head_dim=mixer.head_dim,
        value_dim=mixer.head_dim,
    )


def _source_tokens(spec: ModelSpec) -> int:
    """Return the tokens that a request holds of another sequence; Whisper writes none."""
    if spec.architecture in _ENCODER_POOLED:
        return 0
    return max(
        (mixer.source_tokens for mixer, _ in held(spec, None) if isinstance(mixer, CrossAttention)),
        default=0,
    )


def _cell_formula(
    full: list[tuple[Mixer, int]],
    windowed: list[tuple[Mixer, int]],
    dtype: str,
    tensor_parallel: int,
    rows: SparseRows,
) -> str:
    """Return the bytes of one token of capacity by their factors: those of the window pool count
    by its share, unless there is no other."""
    first, second = (
        cell_formula(mixers, dtype, tensor_parallel, shared=True, rows=rows)
        for mixers in (full, windowed)
    )
    if second == "0 B":
        return first
    return second if first == "0 B" else f"({first} + {WINDOW_SHARE:g} x {second})"


def cache_terms(pool: SglangPools, workload: Workload) -> tuple[Term, ...]:
    """`kv_cache` and, of a hybrid, `state_cache`: the least pools for the requests asked for, or
    the pool given outright."""
    source = "sglang 0.5.23 sglang/srt/model_executor/pool_configurator.py"
    requests = workload.requests_per_replica
    size = pool.pool_bytes(requests, workload.context_length)
    if workload.kv_cache_memory_bytes is not None:
        return (
            exact_term(
                "kv_cache",
                workload.kv_cache_memory_bytes,
                "exact",
                given_pool(workload.kv_cache_memory_bytes),
                "the question",
            ),
        )
    formula = pool.pool_formula(requests, workload.context_length)
    if not pool.slot:
        return (exact_term("kv_cache", size, "computed", formula, source),)
    states = min(size, pool.state_bytes(size))
    checked = f" + {pool.checked} tokens checked of every request" if pool.checked else ""
    state_formula = (
        f"({pool.slots(size)} slots + 1{checked}) x {pool.slot} B; {STATE_SHARE:g} of the KV cache,"
        f" {pool.slots_per_request} slots a request"
    )
    formula = f"{exactly(size)} of both pools - {exactly(states)} of states; {formula}"
    return (
        exact_term("kv_cache", size - states, "computed", formula, source),
        exact_term("state_cache", states, "computed", state_formula, source),
    )
