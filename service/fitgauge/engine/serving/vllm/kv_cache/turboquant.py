"""vLLM's TurboQuant caches: keys and values of a token packed into one slot a head, the first and
the last layers of a dense model in the model's own format.

Symbols: d head size, k and v bits of a number of keys and of values, L layers. Source: vllm 0.33
model_executor/layers/quantization/turboquant/config.py; v1/attention/backends/turboquant_attn.py.
Releases read: 0.20.0 (slots and layers), 0.33.0."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from fitgauge.engine.model.mixers import Attention, Mixer, Recurrent
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Term, exact_term
from fitgauge.engine.serving.kv_cache import rank_heads
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

PRESETS: Mapping[str, tuple[int, int]] = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""(k, v) by the name of the cache's format."""

BLOCK = 32
"""Tokens of a block of a dense model: as many as make a page of one byte a number as large as one
of 16 tokens in 16 bit, which the first layer keeps. Source: platforms/interface.py,
_align_heterogeneous_kv_block_size."""

_FP8 = 8
_NORM, _SCALE_AND_ZERO = 2, 4
_UNPACKED = 2
_SPLITS = 32
"""Splits of a request's cache when decoding: tq_max_kv_splits_for_cuda_graph."""
_FLOAT, _HALF = 4, 2
_OWN = "auto"


def slot_bytes(head_dim: int, name: str) -> int:
    """Return one token of one head: keys of ceil(d x k / 8) B, with a norm of 2 B where they are
    not fp8, and values of ceil(d x v / 8) B with scale and zero, rounded up to an even number."""
    key_bits, value_bits = PRESETS[name]
    size = -(-head_dim * key_bits // 8) + (0 if key_bits == _FP8 else _NORM)
    size += -(-head_dim * value_bits // 8) + _SCALE_AND_ZERO
    return size + size % 2


def unpacked_layers(spec: ModelSpec) -> frozenset[int]:
    """Return the layers that keep the model's own format: the first and the last two, none of a
    hybrid. Source: get_boundary_skip_layers."""
    if spec.keeps_states:
        return frozenset()
    ends = min(_UNPACKED, spec.layers // 2)
    return frozenset((*range(ends), *range(spec.layers - ends, spec.layers)))


def formats(
    spec: ModelSpec, layers: tuple[int, ...], name: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the layers by the format that they keep."""
    if name not in PRESETS:
        yield layers, name
        return
    unpacked = unpacked_layers(spec)
    own = tuple(number for number in layers if number in unpacked)
    packed = tuple(number for number in layers if number not in unpacked)
    yield from ((numbers, form) for numbers, form in ((own, _OWN), (packed, name)) if numbers)


def refusal(spec: ModelSpec, workload: Workload) -> UnsupportedError | None:
    """Return why no such cache holds this model, or why it is not counted here; None where it
    does. Its kernel has neither windows, latents nor sinks."""
    name = workload.kv_cache_dtype
    if name not in PRESETS:
        return None
    instead = ({"kv_cache_dtype": ("fp8", "bf16")},)
    since = releases.TURBOQUANT_HYBRIDS if spec.keeps_states else releases.TURBOQUANT
    if workload.engine_version < since:
        release = ".".join(map(str, since))
        return UnsupportedError(
            "kv_cache_dtype",
            f"A cache in {name} is counted from vLLM {release} for this model.",
            ({"engine_version": (f"{release}.0",)}, *instead),
        )
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    if quirks(spec).attention_sinks or spec.image_prefix or not all(map(_is_packed, mixers)):
        return UnsupportedError(
            "kv_cache_dtype",
            f"vLLM's kernel for {name} has no windows, latents, chunks or sinks, which this model"
            " has.",
            instead,
        )
    if workload.pipeline_parallel > 1 and not spec.keeps_states:
        return UnsupportedError(
            "pipeline_parallel",
            f"Blocks in {name} over pipeline stages are not counted: those of later stages grow.",
            ({"pipeline_parallel": (1,)}, *instead),
        )
    return None


def _is_packed(mixer: Mixer) -> bool:
    if isinstance(mixer, Attention):
        return not mixer.causal or not (mixer.window or mixer.chunk or mixer.indexer)
    return isinstance(mixer, Recurrent)


def workspace_terms(spec: ModelSpec, workload: Workload, retained: int) -> tuple[Term, ...]:
    """Return `workspace` beyond the budget, none where no layer attends: what the layers share for
    decoding, requests x heads x (splits x (d + 1) x 4 + d x 2 + 4) B, or where that is larger two
    copies in 16 bit of the longest request's keys and values; and these once more where prompts
    go on after a chunk, joined with its own. All come after the memory was profiled.

    retained: bytes of the same buffer that the profile saw. Source: _reserve_workspace,
    _continuation_prefill."""
    attending = [
        mixer
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, Attention) and mixer.causal
    ]
    if not attending:
        return ()
    widest = max(attending, key=lambda mixer: mixer.query_heads * mixer.head_dim)
    ranks, dim = workload.tensor_parallel, widest.head_dim
    heads, kv_heads = -(-widest.query_heads // ranks), rank_heads(widest.kv_heads, ranks)
    decoding = workload.max_num_seqs * heads * (_SPLITS * (dim + 1) * _FLOAT + dim * _HALF + _FLOAT)
    longest = 2 * kv_heads * workload.context_length * dim * _HALF
    size = max(0, max(decoding, longest) - retained)
    size += longest if workload.context_length > workload.max_batched_tokens else 0
    term = exact_term(
        "workspace",
        size,
        "computed",
        f"TurboQuant: {decoding} B to decode, {longest} B of the longest request's keys and values",
        "vllm 0.33 vllm/v1/attention/backends/turboquant_attn.py, _reserve_workspace",
    )
    return (structs.replace(term, low=0),)
