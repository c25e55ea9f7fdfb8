"""The format of SGLang's KV cache where none is asked for.

Source: sglang 0.5.23, srt/mem_cache/kv_cache_dtype.py (configure_kv_cache_dtype),
srt/layers/quantization/modelopt_quant.py and fp8.py (from_config), compressed_tensors.py
(CompressedTensorsKVCacheMethod), srt/arg_groups/overrides.py (_dsa_kv_cache_dtype_default)."""

from collections.abc import Mapping

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import LatentAttention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.sglang.gpus import architecture, is_blackwell
from fitgauge.engine.serving.token_pool import SparseRows, held
from fitgauge.engine.serving.workload import Workload

_FP8 = "F8_E4M3"


def cache_dtype(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> str:
    """Return the format that `auto` stands for, `auto` where that is the activations' own.

    Sparse MLA (DeepSeek V3.2, GLM-5) has fp8 on Blackwell and 16 bit elsewhere, whatever its
    checkpoint says."""
    if workload.kv_cache_dtype != "auto":
        return workload.kv_cache_dtype
    if is_sparse_latent(spec):
        return _FP8 if is_blackwell(accelerator) else "auto"
    return _FP8 if checkpoint_is_fp8(workload.settings(spec)) else "auto"


def is_sparse_latent(spec: ModelSpec) -> bool:
    """Return whether any layer has latent attention with an indexer."""
    return any(
        isinstance(mixer, LatentAttention) and mixer.indexer is not None
        for mixer, _ in held(spec, None)
    )


def checkpoint_is_fp8(settings: Mapping[str, object]) -> bool:
    """Return whether a checkpoint of ModelOpt's or compressed-tensors', or one of FP8 with its key,
    has an FP8 cache."""
    nested = settings.get("quantization")
    if isinstance(nested, Mapping):
        return _is_fp8(nested.get("kv_cache_quant_algo"))
    method = settings.get("quant_method")
    if not settings.get("quant_algo") and method != "compressed-tensors":
        return method == "fp8" and _is_fp8(settings.get("kv_cache_quant_algo"))
    scheme = settings.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        is_static = not scheme.get("dynamic")
        return scheme.get("type") == "float" and scheme.get("num_bits") == 8 and is_static
    apart = settings.get("hf_quant_config")
    if isinstance(apart, Mapping):
        return _is_fp8(apart.get("kv_cache_quant_algo"))
    return _is_fp8(settings.get("kv_cache_quant_algo"))


def _is_fp8(algorithm: object) -> bool:
    return isinstance(algorithm, str) and algorithm.upper() == "FP8"


RAW_ROWS = (0, 5, 23)
"""From here on Blackwell's kernels of sparse MLA read rows of fp8 without scales; the releases
before were not read, logs of early 2026 print rows with scales."""


_SCALED_ON_CONSUMER = "GlmMoeDsaForCausalLM"
"""The architecture whose rows have scales on consumer Blackwell GPUs."""


def sparse_rows(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> SparseRows:
    """Return how rows of sparse attention are stored: of MLA in fp8 latent and rotated key alone
    where `_has_raw_rows`, in layers that share another's index as in those with one; of MiniMax M3
    the indexer's key in fp8 on Hopper and compute capability 10 where the cache is. Source:
    kv_cache_configurator.py, calculate_mla_kv_cache_dim; memory_pool.py,
    get_minimax_sparse_index_dtype."""
    narrow = workload.kv_cache_dtype == _FP8 and architecture(accelerator) in _NARROW_INDEX
    return SparseRows(
        scaled=is_sparse_latent(spec) and not _has_raw_rows(spec, workload, accelerator),
        index_dtype=_FP8 if narrow else "BF16",
    )


_NARROW_INDEX = ("hopper", "blackwell")


def _has_raw_rows(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> bool:
    """Return whether a row of sparse MLA in fp8 is latent and rotated key alone. Source:
    overrides.py, _dsa_split_backend_resolution (trtllm; flashinfer_sparse_mla of GLM on SM120);
    kv_cache_configurator.py, calculate_mla_kv_cache_dim."""
    if workload.engine_version < RAW_ROWS or not is_blackwell(accelerator):
        return False
    consumer = architecture(accelerator) == "consumer_blackwell"
    return not (consumer and spec.architecture == _SCALED_ON_CONSUMER)
