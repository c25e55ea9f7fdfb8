"""Which weights vLLM reads on which accelerators, and which models it refuses.

Source: vllm 0.33, model_executor/layers/quantization (get_min_capability, QUANTIZATION_METHODS),
platforms/rocm.py and xpu.py (supported_quantization; GGUF until 0.32),
docs/getting_started/installation/gpu.rocm.inc.md (targets; gfx906: runs w064 and w065 of
tools/accuracy/serving.jsonl); tpu-inference
platforms/tpu_platform.py (supported_quantization)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.engine_facts import Capability, Platform
from fitgauge.engine.serving.vllm import (
    compute_capability,
    kv_offload,
    kv_transfer,
    language_model,
    releases,
)
from fitgauge.engine.serving.vllm.defaults import least_batch, removed
from fitgauge.engine.serving.vllm.kv_cache import kernels, turboquant
from fitgauge.engine.serving.vllm.model_classes import first_chatglm_refusal
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

FORMATS: dict[str, Capability] = {
    "awq": (7, 5), "gptq": (6, 0), "fp8": (7, 5), "fbgemm_fp8": (8, 0), "mxfp4": (8, 0),
    "mxfp8": (8, 0), "nvfp4": (7, 5), "modelopt": (8, 0), "modelopt_nvfp4": (7, 5),
    "modelopt_mxfp8": (8, 0), "compressed-tensors": (7, 0),
    "torchao": (7, 5), "quark": (7, 0), "int8": (7, 5), "int4": (7, 5), "bitsandbytes": (7, 0),
    "gguf": (6, 0), "auto-round": (7, 5), "experts_int8": (8, 0),
}  # fmt: skip

PLATFORMS = {
    "nvidia": Platform(),
    "amd": Platform(
        targets=frozenset({
            "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200",
            "gfx1201",
        }),
        methods=frozenset({
            "awq", "gptq", "fp8", "fbgemm_fp8", "compressed-tensors", "quark", "mxfp4", "mxfp8",
            "nvfp4", "modelopt_nvfp4", "modelopt_mxfp8", "torchao", "modelopt", "int8", "int4",
            "auto-round", "gguf",
        }),
        community={"gfx906": "the community's build vllm-gfx906"},
        fp8_targets=frozenset({"gfx942", "gfx950", "gfx1200", "gfx1201"}),
    ),
    "intel": Platform(methods=frozenset({
        "awq", "gptq", "auto-round", "fp8", "mxfp4", "mxfp8", "modelopt", "modelopt_mxfp8",
        "compressed-tensors", "int8", "int4",
    })),
    "gaudi": Platform(plugin="vllm-gaudi"),
    "google": Platform(
        methods=frozenset({"awq", "fp8", "mxfp4", "compressed-tensors", "int8", "int4"}),
        plugin="tpu-inference",
    ),
    "huawei": Platform(plugin="vllm-ascend"),
    "aws": Platform(
        methods=frozenset({"fbgemm_fp8", "fp8", "int8"}), plugin="vllm-neuron"
    ),
}  # fmt: skip
"""By vendor. fp8_targets are those of torch._scaled_mm; block-scaled fp8 has Triton kernels on
all. Source: vLLM 0.33 kernels/linear/scaled_mm/pytorch.py (_rocm_torch_fp8_scaled_mm_supported),
triton.py; vllm-neuron platform.py (supported_quantization), README (INT8 and FP8)."""

_ENCODER_DECODERS = frozenset({
    "WhisperForConditionalGeneration", "CohereAsrForConditionalGeneration",
    "NemotronParseForConditionalGeneration", "FireRedASR2ForConditionalGeneration",
})  # fmt: skip
"""Encoder-decoders that vLLM runs. Source: vllm 0.33, model_executor/models/registry.py
(Encoder-decoder)."""

_PLUGIN = frozenset({
    "BartModel", "BartForConditionalGeneration", "Florence2ForConditionalGeneration",
    "MBartForConditionalGeneration",
})  # fmt: skip
"""Those that need a plugin since `releases.ENCODER_DECODERS_UNTIL`. Source: the same,
_OOT_SUPPORTED_MODELS."""


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why vLLM does not run the model on this accelerator; None where it does."""
    return (
        removed(spec, workload.engine_version)
        or compute_capability.refusal(spec, accelerator.compute_capability)
        or kernels.refusal(spec, workload, accelerator)
        or first_chatglm_refusal(spec, "vLLM")
        or _setting(spec)
        or _encoder_decoder(spec, workload.engine_version)
        or _small_batch(spec, workload)
        or kv_offload.refusal(spec, workload, accelerator)
        or kv_transfer.refusal(spec, workload)
        or language_model.refusal(workload)
        or turboquant.refusal(spec, workload)
    )


_GATES = ("silu", "swish", "sigmoid")
_TAKEN: dict[str, tuple[str, object, tuple[object, ...]]] = {
    "kimi_linear": ("mla_use_nope", False, (True,)),
    "qwen3_5_moe_text": ("output_gate_type", "silu", _GATES),
    "qwen3_5_text": ("output_gate_type", "silu", _GATES),
    "qwen3_next": ("output_gate_type", "silu", _GATES),
    "qwen4_exp_text": ("output_gate_type", None, _GATES),
}
"""By type of the language model: a setting, its default and what vLLM's class takes. Source: vllm
0.33 models/kimi_k3/nvidia/model.py; model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py."""


def _setting(spec: ModelSpec) -> UnsupportedError | None:
    name, default, taken = _TAKEN.get(spec.language_type or spec.model_type, ("", None, (None,)))
    value = spec.stated.get(name, default)
    if value in taken:
        return None
    shown = f"{name} {value!r}" if name in spec.stated else f"no {name}"
    return UnsupportedError(
        "engine",
        f"vllm runs no {spec.architecture} with {shown[:60]}.",
        ({"engine": ("transformers",)},),
    )


def _encoder_decoder(spec: ModelSpec, version: tuple[int, ...]) -> UnsupportedError | None:
    if spec.task != "encoder_decoder" or spec.architecture in _ENCODER_DECODERS:
        return None
    if spec.architecture in _PLUGIN and version <= releases.ENCODER_DECODERS_UNTIL:
        return None
    plugin = " without its bart-plugin" if spec.architecture in _PLUGIN else ""
    return UnsupportedError(
        "engine", f"vllm has no {spec.architecture}{plugin}.", ({"engine": ("transformers",)},)
    )


def _small_batch(spec: ModelSpec, workload: Workload) -> UnsupportedError | None:
    least, version = least_batch(spec), workload.engine_version
    if workload.max_batched_tokens >= least or version < releases.PREFIX_ITEMS_BATCHED:
        return None
    return UnsupportedError(
        "max_batched_tokens",
        f"vllm needs {least:,} `max_batched_tokens` for the largest image or video of this model,"
        f" which attends to all of it at once; {workload.max_batched_tokens:,} are too few.",
        ({"max_batched_tokens": (least,)},),
    )
