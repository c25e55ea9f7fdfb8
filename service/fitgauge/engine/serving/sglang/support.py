"""Which models SGLang has no kernels for on an accelerator."""

from collections.abc import Mapping

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import Kind, ModelSpec
from fitgauge.engine.quantization.published import READERS, published
from fitgauge.engine.quantization.scheme import RuleIndex
from fitgauge.engine.serving.sglang import hicache
from fitgauge.engine.serving.sglang.cache_dtype import is_sparse_latent
from fitgauge.engine.serving.sglang.gpus import architecture
from fitgauge.engine.serving.sglang.quantized import registered_scheme
from fitgauge.engine.serving.vllm.model_classes import first_chatglm_refusal
from fitgauge.engine.serving.vllm.quantized import inputs_of_groups
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

_SPARSE_ATTENTION = (9, 0)
"""The first GPU with kernels of DeepSeek's sparse attention. Source: sgl-project/sglang issue
35420; sgl_kernel.flash_mla (SM90a, SM100f)."""


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why SGLang does not run the workload on this accelerator; None where it does."""
    return (
        first_chatglm_refusal(spec, "SGLang")
        or hicache.refusal(workload)
        or _without_kernels(spec, accelerator)
        or _without_cache_dtype(spec, workload, accelerator)
        or _without_format(spec, workload, accelerator)
    )


_ASKS_OF_ACTIVATIONS = frozenset({
    "GPTBigCodeForCausalLM", "VoxtralForConditionalGeneration", "WhisperForConditionalGeneration",
})  # fmt: skip
"""Classes that ask a quantization for the activations it scales, which GPTQ's do not answer.
Source: sglang 0.5.23, gpt_bigcode.py, voxtral.py and whisper.py (get_act_fn); gptq/gptq.py,
get_scaled_act_names."""


def _without_format(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Source: sglang 0.5.23, srt/layers/quantization/awq/awq.py (get_supported_act_dtypes, without
    Marlin's kernels); modelopt_quant.py (get_min_capability; ModelOptNvFp4FusedMoEMethod for
    DeepSeek V4)."""
    settings, capability = workload.settings(spec), accelerator.compute_capability
    if capability is None:
        return None
    apart = settings.get("quantization")  # all that hf_quant_config.json alone says
    settings = apart if isinstance(apart, Mapping) else settings
    if refused := _without_marlin(spec, settings.get("quant_method"), accelerator):
        return refused
    if lacking := _unread(spec, settings):
        return UnsupportedError(
            "engine", f"SGLang reads no {lacking}.", ({"engine": ("vllm", "transformers")},)
        )
    if settings.get("quant_method") == "awq" and capability < (8, 0) and spec.dtype == "BF16":
        return UnsupportedError(
            "gpu", "SGLang's AWQ runs in float16 alone below compute capability 8.0."
        )
    if settings.get("quant_method") == "gptq" and spec.architecture in _ASKS_OF_ACTIVATIONS:
        return UnsupportedError(
            "quantization",
            "SGLang cannot build this model in GPTQ, which does not answer its class.",
            ({"quantization": ("awq", "bf16")},),
        )
    if settings.get("quant_method") == "compressed-tensors" and _linears_in_mxfp4(spec):
        return UnsupportedError(
            "quantization",
            "SGLang reads MXFP4 of compressed-tensors in experts alone; other linears have no"
            " scheme there.",
            ({"engine": ("vllm",)},),
        )
    if settings.get("quant_algo") == "FP8" and capability < (8, 9):
        return UnsupportedError(
            "gpu", "SGLang's FP8 of ModelOpt needs compute capability 8.9 or newer."
        )
    algorithms = (settings.get("quant_algo"), settings.get("moe_quant_algo"))
    if (
        spec.architecture == "DeepseekV4ForCausalLM"
        and "NVFP4" in algorithms
        and capability < (10, 0)
    ):
        return UnsupportedError(
            "gpu", "SGLang runs DeepSeek V4 in NVFP4 on Blackwell GPUs and newer alone."
        )
    return None


_READ_TOO = frozenset({
    "auto-round-int8", "awq_marlin", "blockwise_int8", "gptq_marlin", "humming", "minimax_m3_nvfp4",
    "modelslim", "moe_wna16", "mxfp_w4a8", "nvfp4_online", "petit_nvfp4", "quark_int4fp8_moe",
    "quark_mxfp4", "w4afp8", "w8a8_fp8", "w8a8_int8",
})  # fmt: skip
"""Methods that SGLang reads and published.py does not. Source: sglang 0.5.23,
quantization/__init__.py, BASE_QUANTIZATION_METHODS."""

_UNREAD_ALGORITHMS = ("FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO")


def _unread(spec: ModelSpec, settings: Mapping[str, object]) -> str | None:
    """Return what SGLang does not read of a checkpoint, None where it reads all. Source: sglang
    0.5.23, quantization/__init__.py (a GPTQ of zero points has no Marlin kernel, and `gptq` alone
    is unknown); modelopt_quant.py, ModelOptFp8Config; compressed_tensors.py, get_linear_scheme."""
    scheme, method = published(spec), settings.get("quant_method")
    if scheme is None or not isinstance(method, str):
        return None
    if scheme.basis == "assumed" and method not in READERS.keys() | _READ_TOO:
        return f"{method[:40]} weights"
    if method == "gptq" and settings.get("sym") is False:
        return "GPTQ with zero points (sym: false)"
    if settings.get("quant_algo") in _UNREAD_ALGORITHMS:
        return f"{settings['quant_algo']} of ModelOpt"
    packed = any(form.name.startswith("packed_int") for form in scheme.formats)
    if packed and any(inputs_of_groups(settings)):
        return "packed integers with quantized inputs"
    return None


def _linears_in_mxfp4(spec: ModelSpec) -> bool:
    """Source: sglang 0.5.23, compressed_tensors/compressed_tensors.py, _get_scheme_from_parts and
    _is_mxfp4_moe."""
    scheme = published(spec)
    if scheme is None or all(form.name != "mxfp4" for form in scheme.formats):
        return False
    rules = RuleIndex(registered_scheme(spec, scheme).rules)
    forms = (
        rules.format_of(block.prefix + tensor.name, tensor, block.part)
        for block in spec.blocks
        for tensor in block.tensors
        if tensor.kind is Kind.LINEAR
    )
    return any(form is not None and form.name == "mxfp4" for form in forms)


_TENSORRT_MLA = frozenset({
    "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "Dots3NoteForCausalLM",
    "Glm5NextForConditionalGeneration", "GlmMoeDsaForCausalLM", "HYV4ForCausalLM",
    "KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration",
    "LongcatFlashForCausalLM", "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration",
})  # fmt: skip
"""Those that take TensorRT-LLM's kernels of MLA on compute capability 10. Source: sglang 0.5.23,
srt/arg_groups/model_overrides/deepseek_v2.py and kimi_k3.py."""


_METHOD_AS_WRITTEN = frozenset({
    "Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration", "Qwen3NextForCausalLM",
    "Qwen3_5MoeForConditionalGeneration", "InternS2PreviewForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration", "Qwen4ExpForConditionalGeneration", "Glm4MoeForCausalLM",
    "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration", "GlmMoeDsaForCausalLM",
    "Glm5NextForConditionalGeneration", "HYV4ForCausalLM", "LongcatFlashForCausalLM",
    "Dots3NoteForCausalLM",
})  # fmt: skip
"""Architectures that take a checkpoint's quant_method as --quantization on compute capability 10,
and with it the kernels before Marlin's. Source: sglang 0.5.23, srt/arg_groups/model_overrides/
qwen3_moe.py and glm4_moe.py; overrides.py, _deepseek_moe_quant_resolution."""


def _without_marlin(
    spec: ModelSpec, method: object, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why the kernels before Marlin's do not read the model, where they are taken: they read
    AWQ in float16, of no experts, and no GPTQ. Source: sglang 0.5.23, awq/awq.py, AWQConfig;
    gptq/schemes/gptq_linear.py."""
    if architecture(accelerator) != "blackwell" or spec.architecture not in _METHOD_AS_WRITTEN:
        return None
    experts = any(block.mlp and block.mlp.experts for block in spec.blocks)
    if method != "gptq" and (method != "awq" or (spec.dtype == "F16" and not experts)):
        return None
    return UnsupportedError(
        "quantization",
        f"On this GPU SGLang reads this model's {method} by kernels that lack it, unless it is"
        f" started with --quantization {method}_marlin.",
        ({"engine": ("vllm",)}, {"quantization": ("fp8", "nvfp4")}),
    )


def _without_cache_dtype(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Source: sglang 0.5.23, srt/arg_groups/overrides.py (_deepseek_v4_kv_cache_dtype,
    _dsa_kv_cache_dtype_default, _mla_kv_cache_dtype_checks)."""
    if workload.kv_cache_dtype != "F8_E5M2" or workload.engine_version < (0, 5, 23):
        return None
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    compressed = any(isinstance(mixer, CompressedAttention) for mixer in mixers)
    latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    refused = is_sparse_latent(spec) or (
        latent and spec.architecture in _TENSORRT_MLA and architecture(accelerator) == "blackwell"
    )
    if not compressed and not refused:
        return None
    return UnsupportedError(
        "kv_cache_dtype",
        "SGLang's kernels of this model's attention read no cache in fp8_e5m2 there.",
        ({"kv_cache_dtype": ("fp8_e4m3", "auto")},),
    )


def _without_kernels(spec: ModelSpec, accelerator: Accelerator) -> UnsupportedError | None:
    capability = accelerator.compute_capability
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    sparse = any(
        isinstance(mixer, CompressedAttention)
        or (isinstance(mixer, LatentAttention) and mixer.indexer is not None)
        for mixer in mixers
    )
    if not sparse or capability is None or capability >= _SPARSE_ATTENTION:
        return None
    return UnsupportedError(
        "gpu",
        f"SGLang has no kernel of sparse attention for compute capability"
        f" {capability[0]}.{capability[1]}; it needs 9.0 or newer.",
    )
