"""How SGLang's kernels of experts have them stored on a GPU, where that is not as published.

Source: sglang 0.5.23, srt/arg_groups/model_overrides and overrides.py (moe_runner_backend),
srt/layers/moe/fused_moe_triton/layer.py (FusedMoE.__init__), srt/layers/quantization
(modelopt_quant.py, ModelOptNvFp4FusedMoEMethod; mxfp4.py, Mxfp4MoEMethod; compressed_tensors.py,
CompressedTensorsMxInt4MoE)."""

from typing import NamedTuple

import msgspec

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.formats import NVFP4, Format
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.gpus import Architecture

_UNQUANTIZED = "unquantized"
_NVFP4, _MIXED = "modelopt_nvfp4", "modelopt_mixed"
_QWEN = frozenset({_UNQUANTIZED, "fp8", _NVFP4, _MIXED})
_PACKED = "packed_int4 of 32"
"""Integers in groups of 32 without zero points, as Kimi K2 Thinking and K2.5 are published."""
_LATENT = frozenset({*_QWEN, "modelopt_fp8", _PACKED})

_TRTLLM: dict[str, frozenset[str]] = {
    "Qwen3MoeForCausalLM": _QWEN,
    "Qwen3VLMoeForConditionalGeneration": _QWEN,
    "Qwen3NextForCausalLM": _QWEN,
    "Qwen3_5MoeForConditionalGeneration": _QWEN,
    "InternS2PreviewForConditionalGeneration": _QWEN,
    "Qwen4ExpForConditionalGeneration": _QWEN,
    "DeepseekV3ForCausalLM": _LATENT,
    "DeepseekV32ForCausalLM": _LATENT,
    "KimiK25ForConditionalGeneration": _LATENT,
    "MistralLarge3ForCausalLM": _LATENT,
    "PixtralForConditionalGeneration": _LATENT,
    "GlmMoeDsaForCausalLM": _LATENT,
    "Glm5NextForConditionalGeneration": _LATENT,
    "Dots3NoteForCausalLM": _LATENT,
    "Glm4MoeForCausalLM": frozenset({_UNQUANTIZED, _NVFP4}),
    "NemotronHForCausalLM": frozenset({_UNQUANTIZED, "modelopt_fp8", _NVFP4, _MIXED}),
    "Llama4ForConditionalGeneration": frozenset({"fp8", "modelopt_fp8"}),
    "Llama4ForCausalLM": frozenset({"fp8", "modelopt_fp8"}),
    "MiMoV2ForCausalLM": frozenset({"fp8"}),
    "MiMoV2FlashForCausalLM": frozenset({"fp8"}),
    "MiniMaxM2ForCausalLM": frozenset({_NVFP4}),
    "MiniMaxM3SparseForCausalLM": frozenset({_MIXED}),
    "MiniMaxM3SparseForConditionalGeneration": frozenset({_MIXED}),
    "Gemma4ForConditionalGeneration": frozenset({_NVFP4}),
    "Cohere2MoeForCausalLM": frozenset({_UNQUANTIZED}),
    "Cohere2VisionForConditionalGeneration": frozenset({_UNQUANTIZED}),
}
"""The quantizations that TensorRT-LLM's kernels run on Blackwell, by architecture."""

_HIDDEN = 256


class ExpertLayout(NamedTuple):
    """How experts are stored."""

    multiple: int = 1
    """What an expert's width on a rank is padded to a multiple of."""
    mxfp4_multiple: int = 64
    """The same in MXFP4."""
    hidden_multiple: int = 1
    """What the side towards the hidden states is padded to a multiple of."""
    scales_twice: bool = False
    """Whether the scales of NVFP4 are registered in their own and in the kernels' order."""
    indexed: bool = True
    """Whether packed integers have the index of groups that Marlin's kernels read."""


def expert_layout(spec: ModelSpec, scheme: Scheme, architecture: Architecture) -> ExpertLayout:
    """Return how experts of a model in a scheme are stored on GPUs of an architecture."""
    blackwell = architecture in ("blackwell", "consumer_blackwell")
    if scheme.name == "mxfp4" and blackwell and spec.architecture == "GptOssForCausalLM":
        width = 128 if architecture == "blackwell" else 1
        return ExpertLayout(mxfp4_multiple=width, hidden_multiple=_HIDDEN)
    name = _quantization(scheme)
    runs = name in _TRTLLM.get(spec.architecture, ()) and not _keeps_inputs(name, scheme)
    if architecture == "blackwell" and runs:
        narrow = name == _NVFP4 and has_gates(spec)
        return ExpertLayout(multiple=64 if narrow else 128, indexed=name != _PACKED)
    return ExpertLayout(scales_twice=name in (_NVFP4, _MIXED))


def _quantization(scheme: Scheme) -> str:
    """Return the scheme by its name in `_TRTLLM`."""
    form = scheme.form
    if form is None:
        return _UNQUANTIZED
    packed = form.name == "packed_int4" and form.group == 32 and not form.zero_bits
    return _PACKED if packed else scheme.name


def _keeps_inputs(name: str, scheme: Scheme) -> bool:
    """Return whether a mixed scheme has NVFP4 without a scale of inputs (W4A16_NVFP4), whose
    experts Marlin's kernels run. Source: model_overrides/qwen3_moe.py and nemotron_h.py,
    has_w4a16_moe_layers."""
    return name == _MIXED and any(
        form.name == NVFP4.name and form.extra_bytes < NVFP4.extra_bytes for form in scheme.formats
    )


def has_gates(spec: ModelSpec) -> bool:
    """Return whether all experts have a gate."""
    return all(block.mlp.gated for block in spec.blocks if block.mlp and block.mlp.experts)


def doubled_scales(form: Format, *, gated: bool) -> Format:
    """Return a format with the scales of NVFP4 held twice, in tiles the second time. gated: whether
    gate and up share a tile. Source: modelopt_quant.py (w13_blockscale_swizzled)."""
    if form.name != "nvfp4":
        return form
    return msgspec.structs.replace(form, tile_rows=64 if gated else 128)
