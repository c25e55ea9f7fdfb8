"""Which formats of a KV cache vLLM's attention kernels read, by model and GPU.

Sources: vllm 0.33 platforms/cuda.py (_get_backend_priorities, get_valid_backends) and the
supports_* methods of v1/attention/backends. Held to vLLM's own choice by format, head size and
compute capability (tests/engine/serving/vllm/data/attention_kernels.jsonl)."""

from collections.abc import Collection, Mapping

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.kv_cache.dtypes import resolved_format
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

_AMPERE = (8, 0)
_FP8_IN_TRITON = (8, 9)
"""The first GPU whose Triton attention reads an fp8 cache. Source:
v1/attention/backends/triton_attn.py, mla/triton_mla.py."""

_TRTLLM_MAJOR = 10
"""First number of the compute capability of B200 and B300, which read nvfp4 with TensorRT-LLM's
kernels; others with FlashAttention 2."""

_FLASHINFER_HEADS = frozenset({64, 128, 256, 512})
"""Source: v1/attention/backends/flashinfer.py, get_supported_head_sizes."""

_OF_HEADS = frozenset({
    "nvfp4", "nvfp4_4over6", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head",
})  # fmt: skip
"""Formats without a kernel of latent attention. `fp8_e5m2` has one on AMD's GPUs (Source:
v1/attention/backends/mla/rocm_aiter_mla.py, supported_kv_cache_dtypes), none on NVIDIA's."""


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why no attention kernel reads this model's cache in its format on this GPU; None where
    one does, or where the GPU is of no known maker."""
    requested, version = workload.kv_cache_dtype, workload.engine_version
    compute_capability = accelerator.compute_capability
    cache = resolved_format(spec, requested, compute_capability, requantized=workload.requantized)
    why = _latent(spec, cache, of_heads=_OF_HEADS | ({"fp8_e5m2"} if compute_capability else set()))
    if cache == "fp8_e5m2" and not workload.requantized and _scales_cache(spec.quantization):
        why = "vLLM has no fp8_e5m2 cache for a checkpoint in FP8."
    if cache.startswith("nvfp4") and accelerator.vendor not in ("NVIDIA", "custom"):
        why = f"vLLM reads a cache in {cache} on NVIDIA GPUs alone."
    if not why and compute_capability is not None:
        why = _nvfp4(spec, cache, compute_capability) if cache.startswith("nvfp4") else ""
        why = why or _fp8(spec, cache, compute_capability, version)
    if not why:
        return None
    before_ada = compute_capability is not None and compute_capability < _FP8_IN_TRITON
    instead = ("bf16",) if before_ada else ("bf16", "fp8")
    return UnsupportedError("kv_cache_dtype", why, ({"kv_cache_dtype": instead},))


def _scales_cache(quantization: Mapping[str, object] | None) -> bool:
    """Return whether vLLM reads scales of the cache from a checkpoint so quantized, which it does
    for fp8_e4m3 alone. Source: layers/attention/attention.py (_init_kv_cache_quant)."""
    method = str((quantization or {}).get("quant_method"))
    if method == "compressed-tensors":
        return bool((quantization or {}).get("kv_cache_scheme"))
    return method == "fp8" or method.startswith("modelopt")


def _latent(spec: ModelSpec, cache: str, *, of_heads: Collection[str]) -> str:
    """Return why a format is not one of this model's latents, or of latents alone; empty where it
    is the model's. of_heads: formats that no kernel of latents reads."""
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    latent = [mixer for mixer in mixers if isinstance(mixer, LatentAttention)]
    if latent and cache in of_heads:
        return f"vLLM has no kernel of latent attention for a cache in {cache}."
    compressed = any(isinstance(mixer, CompressedAttention) for mixer in mixers)
    if cache == "fp8_ds_mla" and not compressed and not any(mixer.indexer for mixer in latent):
        return f"{cache} is a format of sparse latent attention, which this model does not have."
    return ""


def _nvfp4(spec: ModelSpec, cache: str, compute_capability: tuple[int, int]) -> str:
    """Return why FlashInfer, which alone reads nvfp4, does not; empty where it does."""
    if compute_capability < _AMPERE:
        return "vLLM reads a cache in nvfp4 from Ampere on."
    by_trtllm = compute_capability[0] == _TRTLLM_MAJOR
    if cache != "nvfp4" and not by_trtllm:
        return f"vLLM reads a cache in {cache} on B200 and B300 alone."
    unread = _head_dims(spec) - (_FLASHINFER_HEADS if by_trtllm else _FLASHINFER_HEADS - {64})
    if unread:
        return f"vLLM has no kernel for heads of {min(unread)} in nvfp4 on this GPU."
    if spec.image_prefix:
        return "vLLM's kernel of nvfp4 has no images that look ahead, as this model's do."
    if quirks(spec).attention_sinks and not by_trtllm:
        return "vLLM's kernel of nvfp4 has no attention sinks on this GPU, which this model has."
    return ""


def _fp8(
    spec: ModelSpec, cache: str, compute_capability: tuple[int, int], version: tuple[int, ...]
) -> str:
    """Return why no kernel reads an fp8 cache on a GPU before Ada; empty where one does, and for
    other formats.

    FlashInfer alone does there, which has no MLA, no attention sinks, no images that look ahead,
    no scales by token and head, and heads of a few sizes, and starts at 8.0 since
    `releases.FLASHINFER_FROM_AMPERE`."""
    if not cache.startswith("fp8") or compute_capability >= _FP8_IN_TRITON:
        return ""
    mixers = (mixer for block in spec.blocks for mixer in block.mixers)
    read = (
        (compute_capability >= _AMPERE or version < releases.FLASHINFER_FROM_AMPERE)
        and not cache.endswith("_per_token_head")
        and not any(isinstance(mixer, LatentAttention) for mixer in mixers)
        and not spec.image_prefix
        and not quirks(spec).attention_sinks
        and not quirks(spec).triton_attention
        and _head_dims(spec) <= _FLASHINFER_HEADS
    )
    shown = ".".join(map(str, compute_capability))
    return (
        ""
        if read
        else (
            "vLLM reads this model's cache with Triton kernels, which have no fp8 on compute"
            f" capability {shown}; it needs 8.9."
        )
    )


def _head_dims(spec: ModelSpec) -> set[int]:
    """Return the widths of the heads whose keys and values are cached."""
    mixers = (mixer for block in spec.blocks for mixer in block.mixers)
    return {one.head_dim for one in mixers if isinstance(one, Attention) and one.causal}
