"""What SGLang does for models that see images or hear.

Source: sglang 0.5.23, srt/configs/model_config.py (mm_disabled_models),
srt/mem_cache/kv_cache_configurator.py (mm_runtime_reservation_gb),
srt/arg_groups/model_overrides/qwen3_vl.py."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB, MIB
from fitgauge.engine.serving.sglang import gpus

TEXT_ONLY = frozenset({
    "Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration",
    "Step3VLForConditionalGeneration", "InklingForConditionalGeneration",
})  # fmt: skip
"""Architectures that serve text alone unless --enable-multimodal is set."""

_ENCODERS = frozenset({"WhisperForConditionalGeneration"})
"""Architectures whose encoder is their tower."""

WITHOUT_TOWER = frozenset({"Llama4ForConditionalGeneration"})
"""Of these, the towers that are not loaded then. Source: srt/models/mllama4.py, has_vision."""

CAPTURED_MULTIMODAL = frozenset({
    "MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3SparseForCausalLM",
    "Cohere2VisionForConditionalGeneration", "Glm5NextForConditionalGeneration",
    "InternS2MobiusForConditionalGeneration", "PaddleOCRVLForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration", "MuseGlimmerForConditionalGeneration",
    "MuseSparkForConditionalGeneration", "KimiK3ForConditionalGeneration",
    "KimiK25ForConditionalGeneration",
})  # fmt: skip
"""Architectures of more than text whose prefills are captured in CUDA graphs. Source:
srt/configs/model_config.py, multimodal_breakable_cuda_graph_supported_model_archs."""

IMAGE_CACHE = 100 * MIB
"""SGLANG_VLM_CACHE_SIZE_MB: the cache of image embeddings, taken off the pool."""

_PROFILED = frozenset({"qwen3_vl", "qwen3_vl_moe"})
"""Model types served without that cache on large Hopper GPUs, where features go to the scheduler
through GPU memory."""

_TRANSPORT = GIB
_WIDE_TRANSPORT, _MANY_REQUESTS = 3 * GIB, 400
"""SGLANG_MM_FEATURE_CACHE_MB, and as --max-running-requests of so many sets it."""


def is_multimodal(spec: ModelSpec) -> bool:
    """Return whether SGLang takes more than text for the model by default."""
    return spec.architecture in _ENCODERS or (
        spec.architecture not in TEXT_ONLY and not spec.reads_text_alone
    )


def has_profile(spec: ModelSpec, accelerator: Accelerator) -> bool:
    """Return whether the model has settings of its own on the GPU."""
    return spec.model_type in _PROFILED and gpus.is_large_hopper(accelerator)


def feature_bytes(spec: ModelSpec, accelerator: Accelerator, requests: int | None) -> int:
    """Return what is taken off the pool for images. requests: --max-running-requests, None where
    it is not set."""
    if not is_multimodal(spec):
        return 0
    if not has_profile(spec, accelerator):
        return IMAGE_CACHE
    return _WIDE_TRANSPORT if (requests or 0) >= _MANY_REQUESTS else _TRANSPORT
