"""The number formats of vLLM's KV cache: which one `--kv-cache-dtype` means for a model and a
GPU, and how wide a token is in it."""

from collections.abc import Mapping

from fitgauge.engine.model.dtypes import BITS, dtype
from fitgauge.engine.model.mixers import Attention, CompressedAttention, LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.vllm.kv_cache import turboquant
from fitgauge.engine.serving.vllm.quirks import quirks
from fitgauge.engine.unsupported import UnsupportedError

AUTO = "auto"

ELEMENT_BYTES: dict[str, int] = {
    "float16": 2, "bfloat16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
    "fp8_ds_mla": 1,
    "fp8_per_token_head": 1, "int8_per_token_head": 1, "int4_per_token_head": 1, "nvfp4": 1,
    "nvfp4_4over6": 1, **dict.fromkeys(turboquant.PRESETS, 1),
}  # fmt: skip
"""Bytes of one element of the tensor that vLLM makes. Sources: `config/cache.py` (CacheDType;
its octave and ultraquant formats left out), `utils/torch_utils.py`
(STR_DTYPE_TO_TORCH_DTYPE)."""

_CANONICAL: dict[str, str] = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "fp8",
    "F8_E5M2": "fp8_e5m2",
    "F4": "nvfp4",
}

FP8_DS_MLA_TOKEN_BYTES = 656
"""512 fp8 latents, 4 fp32 scales and 64 bf16 rotated numbers. Source:
`v1/attention/backends/mla/flashmla_sparse.py`."""

_USUAL = (AUTO, "bf16", "fp16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "int8_per_token_head")
"""The cache dtypes to name where one is unknown."""


def cache_format(name: str) -> str:
    """vLLM's name of a cache dtype: 'BF16' -> 'bfloat16', 'fp8' -> 'fp8'. Raises
    UnsupportedError for one it does not have."""
    text = name.strip().lower()
    if text == AUTO or text in ELEMENT_BYTES:
        return text
    try:
        return _CANONICAL[dtype(name)]
    except (UnsupportedError, KeyError):
        raise UnsupportedError(
            "kv_cache_dtype",
            f"{name!r} is no KV cache dtype of vLLM that is counted here.",
            ({"kv_cache_dtype": _USUAL},),
        ) from None


def cuda_major(compute_capability: tuple[int, int] | None) -> int:
    """NVIDIA's architecture by the first number of its compute capability; 0 for a GPU without
    CUDA, or an unknown one."""
    return compute_capability[0] if compute_capability else 0


def resolved_format(
    spec: ModelSpec, name: str, compute_capability: tuple[int, int] | None, *, requantized: bool
) -> str:
    """Return the format the layers really use: what was asked for, else what the checkpoint or the
    model's class asks for, else `auto`. requantized: whether the weights are in another format
    than the checkpoint's, whose settings then say nothing.

    Sources: `utils/torch_utils.py` (resolve_kv_cache_dtype_string),
    `model_executor/models/config.py` (GlmMoeDsaForCausalLM), `layers/attention/attention.py` (a
    compressed-tensors `kv_cache_scheme`), `layers/attention/mla_attention.py`
    (_canonicalize_sparse_mla_kv_cache_dtype) and `models/deepseek_v4/attention.py`
    (_resolve_dsv4_kv_cache_dtype)."""
    requested = cache_format(name)
    if quirks(spec).cache_dtype_ignored:
        return AUTO
    if requested == AUTO and not requantized:
        requested = checkpoint_format(spec.quantization)
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    if any(isinstance(mixer, CompressedAttention) for mixer in mixers):
        return "fp8_ds_mla"
    if not any(isinstance(mixer, LatentAttention) and mixer.indexer for mixer in mixers):
        return requested
    return sparse_latent_format(spec.model_type, requested, cuda_major(compute_capability))


def sparse_latent_format(model_type: str, requested: str, major: int) -> str:
    """Return the format of MLA with an indexer, which follows from the kernel that reads it.

    Hopper: FlashMLA reads `fp8` as rows of 656 bytes, FlashInfer takes an explicit `fp8_e4m3` as
    it is. Blackwell (10.x): FlashInfer takes both as they are, and GLM asks for fp8 there.
    Blackwell (12.x): 656-byte rows whatever is asked. ROCm takes what is asked (826,944 tokens
    of GLM-5.2 in 43.1 GiB of an MI300: 79 layers of 576 + 132 bytes)."""
    if major == 12 and requested in (AUTO, "fp8", "fp8_e4m3"):
        return "fp8_ds_mla"
    if major == 10:
        return (
            "fp8_e4m3" if requested == AUTO and model_type.startswith("glm_moe_dsa") else requested
        )
    return "fp8_ds_mla" if major == 9 and requested == "fp8" else requested


def checkpoint_format(quantization: Mapping[str, object] | None) -> str:
    """Return the format that a checkpoint's quantization asks for, `auto` where it asks for none.

    ModelOpt says `kv_cache_scheme` or `kv_cache_quant_algo` (in hf_quant_config.json one level
    deeper, and without a `quant_method`), compressed-tensors `kv_cache_scheme`. Sources:
    `utils/torch_utils.py` (get_kv_cache_quant_algo_string),
    `transformers_utils/model_arch_config_convertor.py` (_normalize_quantization_config)."""
    if not quantization:
        return AUTO
    method = str(quantization.get("quant_method") or "")
    if method == "compressed-tensors":
        return "fp8" if quantization.get("kv_cache_scheme") else AUTO
    nested, producer = quantization.get("quantization"), quantization.get("producer")
    inner: Mapping[str, object] = nested if isinstance(nested, Mapping) else {}
    legacy = (
        isinstance(producer, Mapping)
        and producer.get("name") == "modelopt"
        and bool(inner.get("quant_algo"))
    )
    if not method.startswith("modelopt") and not legacy:
        return AUTO
    scheme = next(
        (
            place[key]
            for key in ("kv_cache_scheme", "kv_cache_quant_algo")
            for place in (inner, quantization)
            if place.get(key)
        ),
        None,
    )
    if isinstance(scheme, Mapping):
        bits = scheme.get("num_bits") if scheme.get("type") == "float" else None
        if bits == 8 and scheme.get("dynamic") is False:
            return "fp8_e4m3"
        if bits == 4:
            return "nvfp4"
        return AUTO
    return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}.get(str(scheme).lower(), AUTO)


def served_dtype(model_dtype: str) -> str:
    """Return the dtype a model runs in: its own, and 16 bits where it was stored in 32. Source:
    `config/model.py`, _resolve_auto_dtype."""
    return "BF16" if model_dtype in ("F32", "F64") else model_dtype


def element_bytes(name: str, model_dtype: str) -> int:
    """Return the bytes of one cached element [bytes]; `auto` is the model's own dtype."""
    return BITS[model_dtype] // 8 if name == AUTO else ELEMENT_BYTES[name]


def attention_token_bytes(mixer: Attention, heads: int, name: str, model_dtype: str) -> int:
    """Return keys and values of one token in one layer, `heads` KV heads on this rank.

    nvfp4 packs two numbers a byte and adds an fp8 scale for every 16; the per-token-head formats
    add a 4-byte scale to each key and value. Sources: `v1/attention/backends/flashinfer.py` and
    `triton_attn.py`, customize_spec."""
    if name in turboquant.PRESETS:
        return heads * turboquant.slot_bytes(mixer.head_dim, name)
    width = mixer.head_dim + mixer.value_dim
    if name.startswith("nvfp4"):
        return heads * 2 * (mixer.head_dim // 2 + mixer.head_dim // 16)
    if name.endswith("_per_token_head"):
        return heads * ((width // 2 if name.startswith("int4") else width) + 8)
    return heads * width * element_bytes(name, model_dtype)


def latent_token_bytes(mixer: LatentAttention, name: str, model_dtype: str) -> int:
    """Return the latent and the rotated key of one token in one layer, the same on every rank."""
    if name == "fp8_ds_mla":
        return FP8_DS_MLA_TOKEN_BYTES
    return (mixer.latent_dim + mixer.rope_dim) * element_bytes(name, model_dtype)
