"""Whether a text says that memory ran out, and which: a device's, the engine's KV cache, or the
host's. Messages of PyTorch, CUDA, HIP, Metal, vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp, Ollama,
MLX, bitsandbytes, XLA and the Linux kernel."""

import re
from itertools import takewhile
from typing import Literal

from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import Measurement, find_readings, rule

MemoryKind = Literal["device", "kv_cache", "host"]
"""Which memory ran out."""

_KV_CACHE = (
    "No available memory for the cache blocks",
    "KV cache is needed, which",
    "larger than the available KV cache memory",
    "stored in KV cache (",
    "Not enough memory. Please try to increase --mem-fraction-static",
    "leave no GPU memory for the KV cache",
    "Not enough memory to handle",
)
_HOST = (
    "requires more system memory",
    "DefaultCPUAllocator",
    "Out of memory: Kill",
    "oom-kill",
    "oom_reaper",
    "OOMKilled",
    "Cannot allocate memory",
    "std::bad_alloc",
    "exit code 137",
)
_DEVICE = (
    "CUDA out of memory",
    "HIP out of memory",
    "XPU out of memory",
    "NPU out of memory",
    "MPS backend out of memory",
    "OutOfMemoryError",
    "CUDA error: out of memory",
    "): out of memory",  # CUDA runtime error in cudaMallocAsync(...)
    "HIP error: out of memory",
    "cudaMalloc failed",
    "hipMalloc failed",
    "cudaErrorMemoryAllocation",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "hipErrorOutOfMemory",
    "ErrorOutOfDeviceMemory",
    "CallbackErrorOutOfMemory",
    "Insufficient Memory",
    "[metal::malloc]",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "RESOURCE_EXHAUSTED",
    "Requested amount of GPU memory",
    "unable to allocate CUDA",
    "unable to allocate ROCm",
    "unable to allocate Metal",
    "unable to allocate Vulkan",
    "failed to allocate CUDA",
    "failed to allocate buffer",
    "failed to allocate compute buffers",
    "is less than desired GPU memory utilization",
)
_PROSE = re.compile(r"\bout[ -]of[ -](?:\w{2,12} )?memory\b|\bOOM(?:ed)?\b", re.IGNORECASE)
"""How people and small tools write it; too common in harmless lines to be read of a whole log."""

_TRAINING = re.compile(
    r"\b(?:loss\.backward|run_backward|backward\(|optimizer\.step|training_step|trainer\.train"
    r"|deepspeed|axolotl|unsloth|llamafactory|torchtune|torchtitan|litgpt|megatron|trl|peft"
    r"|accelerate launch|swift sft|fine-?tun(?:e|ing)|(?:sft|grpo|dpo|pre)[-_ ]?train(?:er|ing)?)\b"
    r"|/trainer\.py|/train\w{0,24}\.py|per_device_train_batch_size|train_micro_batch_size"
    r"|\bzero_optimization",
    re.IGNORECASE,
)

TrainingPhase = Literal["optimizer_step", "loss"]
_PHASES: dict[TrainingPhase, re.Pattern[str]] = {
    "optimizer_step": re.compile(
        r"\b_optimizer_step\b|_take_model_step|torch/optim/|optimizer\.step\("
    ),
    "loss": re.compile(
        r"\bloss_function\(|\bcross_entropy(?:_loss)?\(|\blogits\.float\(|\blm_head\("
    ),
}
"""Calls in a traceback that tell what memory ran out for."""

_CHECKPOINTED = re.compile(
    r"torch/utils/checkpoint\.py|gradient_checkpointing['\"]?[ =:]{1,3}[Tt]rue|/unsloth(?:_zoo)?/"
    r"|\bUnsloth \d{4}\.\d"
)
"""What shows that activations are checkpointed already: Unsloth does by itself."""

_CAPTURES = re.compile(r"\bcaptur(?:e|ing)\b.{0,20}\bcuda ?graph|\bcapture_model\b", re.IGNORECASE)
"""What shows that CUDA graphs are captured: the KV cache is in place by then."""

_SIZE = r"(?P<{0}>NUM) (?P<{0}_unit>GiB|MiB|KiB|GB|MB|KB|bytes)"
_RULES = (
    rule(
        "requires more system memory",
        r"system memory \(" + _SIZE.format("host_needed") + r"\) than is available \("
        + _SIZE.format("host_free"),
    ),
    rule(
        "[metal::malloc]",
        r"allocate (?P<requested>NUM) bytes which is greater than the maximum allowed buffer size"
        r" of (?P<buffer_limit>NUM) bytes",
        "bytes",
    ),
    rule(
        "MPS backend out of memory",
        r"\(MPS allocated: " + _SIZE.format("allocated") + r", other allocations: "
        + _SIZE.format("other") + r", max allowed: " + _SIZE.format("total"),
    ),
    rule(
        "Requested amount of GPU memory",
        r"GPU memory \((?P<requested>NUM) bytes\) could not be allocated",
        "bytes",
    ),
    rule("DefaultCPUAllocator", r"tried to allocate (?P<host_requested>NUM) bytes", "bytes"),
    rule("buffer of size", r"failed to allocate \w{2,20} buffer of size (?P<requested>NUM)", "B"),
)  # fmt: skip


def memory_kind(lines: list[Line], *, of_an_engine: bool) -> MemoryKind | None:
    """Return which memory ran out; None where no line says that one did. of_an_engine: the text
    is a log that a parser recognised, of which prose is not believed."""
    kinds: tuple[tuple[MemoryKind, tuple[str, ...]], ...] = (
        ("kv_cache", _KV_CACHE),
        ("device", _DEVICE),
        ("host", _HOST),
    )
    for kind, needles in kinds:
        if any(needle in line.text for line in lines for needle in needles):
            return kind
    prose = not of_an_engine and any(_PROSE.search(line.text) for line in lines)
    return "device" if prose else None


def is_training(lines: list[Line]) -> bool:
    """Return whether the text looks like a training run's: its calls, its tools, its flags."""
    return any(_TRAINING.search(line.text) for line in lines)


def training_phase(lines: list[Line]) -> TrainingPhase | None:
    """Return the phase of training that the last calls before the first message are of; None where
    they do not tell."""
    calls = takewhile(lambda line: not any(one in line.text for one in _DEVICE), lines)
    phases = [name for line in calls for name, call in _PHASES.items() if call.search(line.text)]
    return phases[-1] if phases else None


def checkpoints(lines: list[Line]) -> bool:
    """Return whether a training run checkpoints activations already."""
    return any(_CHECKPOINTED.search(line.text) for line in lines)


def captures_graphs(lines: list[Line]) -> bool:
    """Return whether a server got as far as its CUDA graphs."""
    return any(_CAPTURES.search(line.text) for line in lines)


def read_numbers(lines: list[Line]) -> list[Measurement]:
    """Return the numbers of messages other than PyTorch's on CUDA."""
    return find_readings(lines, _RULES)
