"""Which launches llama.cpp refuses.

Source: llama.cpp as llama-cpp-python 0.3.36 ships it, src/llama-context.cpp
(llama_init_from_model), src/llama.cpp (llama_max_devices), ggml/include/ggml-cuda.h
(GGML_CUDA_MAX_DEVICES)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.mixers import Attention
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.formats import GGUF_BLOCKS
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError

MOST_GPUS = 16
"""The GPUs that one process takes."""

_WITHOUT_FLASH_ATTENTION = frozenset({"Grok1ForCausalLM", "GrokForCausalLM"})
"""Architectures that run without FlashAttention, which a quantized cache of values needs."""

_WHOLE = {"kv_cache_dtype": ("f16", "auto")}


def refusal(
    spec: ModelSpec, workload: Workload, accelerator: Accelerator
) -> UnsupportedError | None:
    """Return why llama.cpp makes no such cache; None where it does: blocks of its type must divide
    the keys and the values of one head."""
    dtype = workload.kv_cache_dtype
    numbers = GGUF_BLOCKS[dtype][0] if dtype in GGUF_BLOCKS else 1
    if numbers == 1:
        return None
    if spec.architecture in _WITHOUT_FLASH_ATTENTION:
        reason = "llama.cpp runs this model without FlashAttention, which a quantized cache needs."
        return UnsupportedError("kv_cache_dtype", reason, (_WHOLE,))
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    widths = {
        width
        for mixer in mixers
        if isinstance(mixer, Attention) and mixer.causal
        for width in (mixer.head_dim, mixer.value_dim)
    }
    uneven = sorted(width for width in widths if width % numbers)
    if not uneven:
        return None
    reason = (
        f"llama.cpp's {dtype.lower()} cache has blocks of {numbers}, which do not divide heads of"
        f" {uneven[0]}."
    )
    return UnsupportedError("kv_cache_dtype", reason, (_WHOLE,))
