"""Which engine runs which weights on which card, and the nearest thing that works where it does
not.

Sources, each read in the version named: vllm 0.33 model_executor/layers/quantization
(get_min_capability, QUANTIZATION_METHODS); sglang 0.5.23 srt/layers/quantization; transformers
5.23 quantizers/; TensorRT-LLM 1.2 support matrix (docs, reference/support-matrix);
text-generation-inference 3.3 server/layers and docs, conceptual/quantization; llama.cpp ggml.h,
ggml_type; mlx-lm 0.32 utils.py."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.formats import GGUF_BLOCKS, GGUF_FILE_BITS
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving import architectures as implemented
from fitgauge.engine.serving import platforms
from fitgauge.engine.serving.vllm import compute_capability as cards
from fitgauge.engine.serving.vllm import defaults as vllm
from fitgauge.engine.serving.workload import GGUF_ENGINES, EngineName, Workload

Capability = tuple[int, int]

_ANY: Capability = (0, 0)

LEAST: dict[EngineName, Capability] = {
    "vllm": (7, 0), "sglang": (7, 5), "tensorrt-llm": (8, 0), "tgi": (7, 0), "transformers": (5, 0),
    "llama.cpp": (5, 0), "ollama": (5, 0),
}  # fmt: skip
"""Least NVIDIA compute capability of an engine's own kernels and wheels."""

FORMATS: dict[EngineName, dict[str, Capability]] = {
    "vllm": {
        "awq": (7, 5), "gptq": (6, 0), "fp8": (7, 5), "fbgemm_fp8": (8, 0), "mxfp4": (8, 0),
        "mxfp8": (8, 0), "nvfp4": (7, 5),
        "modelopt": (8, 0), "compressed-tensors": (7, 0), "torchao": (7, 5), "quark": (7, 0),
        "int8": (7, 5), "int4": (7, 5),
        "bitsandbytes": (7, 0), "gguf": (6, 0),
    },
    "sglang": {
        "awq": (7, 5), "gptq": (8, 0), "fp8": (8, 0), "mxfp4": (8, 0), "mxfp8": (10, 0),
        "nvfp4": (8, 0), "modelopt": (8, 9),
        "compressed-tensors": (7, 0), "torchao": (8, 0), "quark": (7, 0), "int8": (7, 5),
        "int4": (7, 5), "bitsandbytes": (7, 0),
        "gguf": (6, 0),
    },
    "tensorrt-llm": {
        "awq": (8, 0), "gptq": (8, 0), "fp8": (8, 9), "nvfp4": (10, 0), "mxfp4": (9, 0),
        "modelopt": (8, 9), "int8": (8, 0),
        "int4": (8, 0), "compressed-tensors": (8, 9),
    },
    "tgi": {
        "awq": (7, 5), "gptq": (7, 0), "fp8": (8, 0), "fbgemm_fp8": (8, 0), "bitsandbytes": (7, 0),
        "compressed-tensors": (8, 0),
        "int8": (7, 5), "int4": (7, 5),
    },
    "transformers": {
        "awq": (7, 5), "gptq": _ANY, "fp8": (8, 9), "fbgemm_fp8": (9, 0), "mxfp4": (7, 5),
        "nvfp4": (9, 0), "bitsandbytes": _ANY,
        "compressed-tensors": _ANY, "torchao": _ANY, "quark": _ANY, "int8": _ANY, "int4": _ANY,
        "gguf": _ANY, "modelopt": (8, 9),
    },
    "llama.cpp": {"gguf": _ANY, "mxfp4": _ANY},
    "ollama": {"gguf": _ANY, "mxfp4": _ANY},
    "mlx": {"mlx": _ANY, "int8": _ANY, "int4": _ANY, "mxfp4": _ANY, "mxfp8": _ANY, "nvfp4": _ANY},
}  # fmt: skip
"""Formats of weights an engine reads, each with its least compute capability; what is not named
is not read."""

_UNTIL: dict[tuple[EngineName, str], tuple[int, ...]] = {
    ("vllm", "bitsandbytes"): (0, 33),
    ("vllm", "gguf"): (0, 33),
}
"""The version that no longer reads a format."""

_INSTEAD: dict[EngineName, str] = {
    "llama.cpp": "a GGUF file or quantization q4_k_m",
    "ollama": "a GGUF file or quantization q4_k_m",
    "mlx": "an mlx-community checkpoint or quantization int4",
}  # fmt: skip


def refusal(
    workload: Workload, scheme: Scheme, accelerator: Accelerator, spec: ModelSpec
) -> str | None:
    """Return why the engine does not run `spec` stored in `scheme` on this card, with what does;
    None where it does or nothing is known."""
    engine, version = workload.engine, workload.version
    if engine == "vllm" and (removed := vllm.removed(spec, version)):
        return removed
    if engine == "vllm" and (
        reason := cards.refusal(spec, workload.cache_dtype, accelerator.compute_capability)
    ):
        return reason
    if engine == "vllm" and (unknown := _architecture(spec, version)):
        return unknown
    method = _method(scheme)
    elsewhere = platforms.refusal(engine, method, scheme.form, accelerator)
    unread = (
        elsewhere or _format(engine, version, scheme, accelerator) or _kernels(engine, accelerator)
    )
    return unread or implemented.refusal(workload, spec, method, accelerator)


def _architecture(spec: ModelSpec, version: tuple[int, ...]) -> str | None:
    if spec.task != "encoder_decoder" or spec.architecture in _ENCODER_DECODERS:
        return None
    if spec.architecture in _PLUGIN and version <= _ENCODER_DECODERS_UNTIL:
        return None
    plugin = ", or install vLLM's bart-plugin" if spec.architecture in _PLUGIN else ""
    return f"vllm has no {spec.architecture}. Send engine transformers{plugin}."


_ENCODER_DECODERS = frozenset({
    "WhisperForConditionalGeneration", "CohereAsrForConditionalGeneration",
    "NemotronParseForConditionalGeneration",
    "FireRedASR2ForConditionalGeneration",
})  # fmt: skip
_PLUGIN = frozenset(
    {
        "BartModel",
        "BartForConditionalGeneration",
        "Florence2ForConditionalGeneration",
        "MBartForConditionalGeneration",
    }
)
_ENCODER_DECODERS_UNTIL = (0, 10, 2)
"""Encoder-decoders that vLLM runs, those that need a plugin, and the last version that had them
itself (with the V0 engine).

Source: vllm 0.33, model_executor/models/registry.py (Encoder-decoder, _OOT_SUPPORTED_MODELS).
"""


def family(scheme: Scheme) -> str | None:
    """Return what engines call the method behind a scheme; None where nothing is quantized."""
    if scheme.form is None:
        return None
    name = scheme.name.lower()
    if scheme.name.upper() in GGUF_FILE_BITS or (
        scheme.name.upper() in GGUF_BLOCKS and name != "mxfp4"
    ):
        return "gguf"
    for start, method in _FAMILIES:
        if name.startswith(start):
            return method
    return name


_FAMILIES = (
    ("modelopt_nvfp4", "nvfp4"), ("modelopt_mxfp8", "mxfp8"), ("modelopt", "modelopt"),
    ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"),
    ("mxfp8", "mxfp8"), ("fbgemm", "fbgemm_fp8"), ("fp8", "fp8"), ("awq", "awq"), ("gptq", "gptq"),
    ("nf4", "bitsandbytes"),
    ("fp4", "bitsandbytes"), ("llm_int8", "bitsandbytes"), ("bitsandbytes", "bitsandbytes"),
    ("w8a8", "int8"), ("int8", "int8"),
    ("int", "int4"),
)  # fmt: skip


def _method(scheme: Scheme) -> str | None:
    """Return the family of a scheme as far as it is known: of one that was assumed from a config
    nobody read, nothing is."""
    method = family(scheme)
    return (
        None
        if method is not None and scheme.basis == "assumed" and method not in _KNOWN
        else method
    )


def _format(
    engine: EngineName, version: tuple[int, ...], scheme: Scheme, accelerator: Accelerator
) -> str | None:
    method = _method(scheme)
    if method is None:
        return None
    needed, until = FORMATS[engine].get(method), _UNTIL.get((engine, method))
    if until and version >= until:
        needed = None
    if needed is None:
        readers = [
            name for name in FORMATS if method in FORMATS[name] and (name, method) not in _UNTIL
        ]
        instead = (
            _INSTEAD.get(engine)
            or f"engine {' or '.join(readers[:2])}, or an AWQ or 16-bit checkpoint"
        )
        said = f"{engine} reads no {scheme.name} weights"
        return (
            f"{said}{f' from {_dotted(until)} on' if until and version >= until else ''}. Send"
            f" {instead}."
        )
    capability = accelerator.compute_capability
    if capability is None or capability >= needed:
        return None
    return (
        f"{engine} needs compute capability {_dotted(needed)} or newer for {scheme.name} weights;"
        f" {accelerator.name} has {_dotted(capability)}. Send {_older_card(engine, capability)}."
    )


def _older_card(engine: EngineName, capability: Capability) -> str:
    """Return the nearest format the engine runs on a card of this capability."""
    for method in ("awq", "gptq"):
        needed = FORMATS[engine].get(method)
        if needed is not None and max(needed, LEAST.get(engine, _ANY)) <= capability:
            return f"quantization {method}, or fp16 weights"
    return "engine llama.cpp with quantization q4_k_m"


def _kernels(engine: EngineName, accelerator: Accelerator) -> str | None:
    capability, needed = accelerator.compute_capability, LEAST.get(engine, _ANY)
    if capability is None or capability >= needed:
        return None
    has = f"{accelerator.name} has {_dotted(capability)}"
    return (
        f"{engine} needs compute capability {_dotted(needed)} or newer; {has}. Send engine"
        " llama.cpp."
    )


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)


_KNOWN = frozenset(method for formats in FORMATS.values() for method in formats)


def flash_attention_note(engine: EngineName, accelerator: Accelerator) -> str | None:
    """Return what runs instead where FlashAttention does not, or None; llama.cpp, Ollama and MLX
    have kernels of their own."""
    capability = accelerator.compute_capability
    if capability is None or capability >= (8, 0) or engine in GGUF_ENGINES or engine == "mlx":
        return None
    instead = {
        "vllm": "vLLM takes its Triton attention there",
        "transformers": "use attn_implementation='sdpa'",
    }
    said = instead.get(engine, "another attention backend is needed")
    return (
        f"FlashAttention 2 is unsupported on {accelerator.name} (compute capability"
        f" {_dotted(capability)}, it needs 8.0): {said}."
    )


_WHEELS: dict[EngineName, tuple[tuple[int, ...], Capability]] = {"vllm": ((0, 24), (7, 5))}
"""The first version known to be published for newer cards alone, and the least capability of its
wheels.

Source: vLLM docs/getting_started/installation, gpu.cuda.inc.md: 7.0 in 0.14, 7.5 in 0.23.1rc1.
"""


def wheels_note(workload: Workload, accelerator: Accelerator) -> str | None:
    """That this version's published wheels are for newer cards, though its code runs on this
    one; None where they are for it too."""
    first, needed = _WHEELS.get(workload.engine, ((), _ANY))
    capability = accelerator.compute_capability
    if capability is None or capability >= needed or workload.version < first:
        return None
    return (
        f"{workload.engine}'s wheels are built for compute capability {_dotted(needed)} and newer"
        f" from {_dotted(first)} on; {accelerator.name} has {_dotted(capability)}: take an older"
        " version, or build it."
    )
