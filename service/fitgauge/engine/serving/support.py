"""Whether an engine runs these weights on this accelerator, and the nearest thing that works
where it does not. The tables are in the rows of the engines (`engine.Engine`)."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.note import Note
from fitgauge.engine.quantization.formats import GGUF_BLOCKS, GGUF_FILE_BITS
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving import architectures, kv_offload, platforms
from fitgauge.engine.serving.engine_facts import Capability, Version
from fitgauge.engine.serving.registry import ENGINES, preferred
from fitgauge.engine.serving.rope_scaling import (
    OPTION,
    farthest_context,
    scaled_context,
    usual_factor,
)
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import Alternative, UnsupportedError


def refusal(
    workload: Workload, scheme: Scheme, accelerator: Accelerator, spec: ModelSpec
) -> UnsupportedError | None:
    """Return why the engine does not run `spec` stored in `scheme` on this GPU, with what does;
    None where it does or nothing is known."""
    engine, method = workload.engine, _method(scheme)
    return (
        _half_refusal(workload)
        or ENGINES[engine].refusal(spec, workload, accelerator)
        or platforms.refusal(engine, method, scheme.form, accelerator)
        or _format(engine, workload.engine_version, scheme, accelerator)
        or _kernels(engine, accelerator)
        or architectures.refusal(workload, spec, method, accelerator)
        or kv_offload.refusal(workload, accelerator)
    )


def _half_refusal(workload: Workload) -> UnsupportedError | None:
    """Return why one half of disaggregated serving is not answered for an engine: llama.cpp, MLX
    and others have none; TensorRT-LLM fills its pool first and then allocates buffers of
    max_tokens_in_buffer, which is not modelled."""
    engine = workload.engine
    if workload.disaggregation is None or "disaggregation" in ENGINES[engine].options:
        return None
    others = tuple(name for name in preferred() if "disaggregation" in ENGINES[name].options)
    return UnsupportedError(
        "disaggregation",
        f"One half of disaggregated serving is not estimated for {engine}.",
        ({"engine": others}, {"disaggregation": (None,)}),
    )


def context_refusal(
    context_length: int, spec: ModelSpec, engine: EngineName, factor: float | None = None
) -> UnsupportedError | None:
    """Return why a context is longer than the model reads; None where it is not. factor: of YaRN;
    None: the one that the context needs, where the engine takes any.

    vLLM, SGLang and TGI refuse to start with it, Ollama shortens it, the others generate nonsense
    beyond it. Source: vllm/config/model.py, _get_and_verify_max_len; sglang
    srt/configs/model_config.py, _derive_context_length; ollama llm/server.go, NewLlamaServer."""
    if context_length <= spec.max_context_length or not spec.max_context_length:
        return None
    scales = OPTION in ENGINES[engine].options
    longest = farthest_context(spec) if factor is None else scaled_context(spec, factor)
    longest = longest if scales else spec.max_context_length
    if context_length <= longest:
        return None
    why = "a repository whose config.json extends it by RoPE scaling (YaRN) reads more."
    instead: tuple[Alternative, ...] = ({"context_length": (longest,)},)
    needed = int(usual_factor(spec, context_length))
    if needed and scales:
        why = f"with `{OPTION}` {needed} YaRN stretches its positions that far."
        instead = ({OPTION: (needed,)}, *instead)
    elif needed:
        gguf = ENGINES[engine].reads_gguf
        others = (name for name in preferred() if OPTION in ENGINES[name].options)
        nearest = tuple(sorted(others, key=lambda name: ENGINES[name].reads_gguf != gguf))
        why = f"YaRN stretches its positions that far, and {engine} has no flag for it."
        instead = ({"engine": nearest}, *instead)
    elif longest > spec.max_context_length:
        why = f"its config has {spec.max_context_length:,}, which YaRN stretches no further."
    return UnsupportedError(
        "context_length",
        f"`context_length` {context_length:,} exceeds the {longest:,} tokens that the model reads;"
        f" {why}",
        instead,
    )


def runs_engine(engine: EngineName, accelerator: Accelerator) -> bool:
    """Return whether the engine runs on this accelerator at all, whatever the weights."""
    return platforms.built(engine, accelerator) and _kernels(engine, accelerator) is None


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
    ("modelopt_nvfp4", "modelopt_nvfp4"), ("modelopt_mxfp8", "modelopt_mxfp8"),
    ("modelopt", "modelopt"),
    ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"),
    ("mxfp8", "mxfp8"), ("fbgemm", "fbgemm_fp8"), ("fp8", "fp8"), ("awq", "awq"), ("gptq", "gptq"),
    ("nf4", "bitsandbytes"),
    ("fp4", "bitsandbytes"), ("llm_int8", "bitsandbytes"), ("bitsandbytes", "bitsandbytes"),
    ("w8a8", "int8"), ("int8", "int8"),
    ("int4", "int4"),
)  # fmt: skip


def _method(scheme: Scheme) -> str | None:
    """Return the family of a scheme as far as it is known: of one that was assumed from a config
    was not read, nothing is."""
    method = family(scheme)
    if scheme.basis == "assumed" and not any(method in row.formats for row in ENGINES.values()):
        return None
    return method


def _format(
    engine: EngineName, version: tuple[int, ...], scheme: Scheme, accelerator: Accelerator
) -> UnsupportedError | None:
    method = _method(scheme)
    if method is None:
        return None
    row = ENGINES[engine]
    needed, until = row.formats.get(method), row.removed_formats.get(method)
    if until and version >= until:
        needed = None
    if needed is None:
        since = f" from {_dotted(until)} on" if until and version >= until else ""
        reason = f"{engine} reads no {scheme.name} weights{since}"
        if row.own_format is not None:
            files, quantization = row.own_format
            return UnsupportedError(
                "quantization", f"{reason}, only {files}.", ({"quantization": (quantization,)},)
            )
        readers = tuple(
            name
            for name, other in ENGINES.items()
            if method in other.formats and method not in other.removed_formats
        )[:2]
        others: tuple[Alternative, ...] = ({"engine": readers},) if readers else ()
        if since and until:
            others = ({"engine_version": (_dotted((*until[:-1], until[-1] - 1)),)}, *others)
        return UnsupportedError(
            "quantization", f"{reason}.", (*others, {"quantization": ("awq", "bf16")})
        )
    capability = accelerator.compute_capability
    if capability is None or capability >= needed:
        return None
    return UnsupportedError(
        "quantization",
        f"{engine} needs compute capability {_dotted(needed)} or newer for {scheme.name} weights;"
        f" {accelerator.name} has {_dotted(capability)}.",
        (_older_gpu(engine, capability),),
    )


def _older_gpu(engine: EngineName, capability: Capability) -> Alternative:
    """Return the nearest format the engine runs on a GPU of this capability."""
    for method in ("awq", "gptq"):
        needed = ENGINES[engine].formats.get(method)
        if needed and max(needed, ENGINES[engine].min_compute_capability) <= capability:
            return {"quantization": (method, "fp16")}
    return {"engine": ("llama.cpp",), "quantization": ("q4_k_m",)}


def _kernels(engine: EngineName, accelerator: Accelerator) -> UnsupportedError | None:
    capability = accelerator.compute_capability
    needed = ENGINES[engine].min_compute_capability
    if capability is None or capability >= needed:
        return None
    return UnsupportedError(
        "engine",
        f"{engine} needs compute capability {_dotted(needed)} or newer; {accelerator.name} has"
        f" {_dotted(capability)}.",
        ({"engine": ("llama.cpp",)},),
    )


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)


def flash_attention_note(engine: EngineName, accelerator: Accelerator) -> Note | None:
    """Return what to do where FlashAttention does not run; None where it does, or the engine has
    its own kernels."""
    capability, instead = accelerator.compute_capability, ENGINES[engine].without_flash_attention
    if capability is None or capability >= (8, 0) or instead is None:
        return None
    return Note(
        "flash-attention-unsupported",
        "gpu",
        f"FlashAttention 2 is unsupported on {accelerator.name} (compute capability"
        f" {_dotted(capability)}, it needs 8.0): {instead}.",
    )


def newer_wheels(
    engine: EngineName, version: Version, accelerator: Accelerator
) -> tuple[Version, Capability] | None:
    """Return the first release whose wheels are for newer GPUs than this one, and the least
    compute capability of these, where this version is such a release; else None."""
    capability, wheels = accelerator.compute_capability, ENGINES[engine].wheels
    if capability is None or wheels is None:
        return None
    first, needed = wheels
    return None if capability >= needed or version < first else wheels


def wheels_note(workload: Workload, accelerator: Accelerator) -> Note | None:
    """Return that the wheels of this version are for newer GPUs, though its code runs on this
    one; None where they are for it too."""
    capability = accelerator.compute_capability
    wheels = newer_wheels(workload.engine, workload.engine_version, accelerator)
    if wheels is None or capability is None:
        return None
    first, needed = wheels
    return Note(
        "wheels-for-newer-gpus",
        "engine_version",
        f"{workload.engine}'s wheels are built for compute capability {_dotted(needed)} and newer"
        f" from {_dotted(first)} on; {accelerator.name} has {_dotted(capability)}: take an older"
        " version, or build it.",
    )
