"""TensorRT-LLM's start-up log, of the PyTorch backend and of built engines.

Wording from its sources: _torch/pyexecutor/_util.py (`Memory used after loading`, `Peak memory
during memory usage profiling`); cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp (`Allocated
... for max tokens in paged KV cache`, `Memory usage when calculating`). The pool of the
profiling pass comes before the real one."""

import re

from fitgauge.engine.serving.start_log.arguments import argument, flags
from fitgauge.engine.serving.start_log.lines import Line, joined
from fitgauge.engine.serving.start_log.measurements import (
    Flag,
    StartLog,
    find_readings,
    first,
    measured,
    outcome,
    rule,
)
from fitgauge.engine.serving.start_log.names import gpu_name, hub_id

SIGNATURES = (
    "[TensorRT-LLM]",
    "[TRT-LLM]",
    "[MemUsageChange]",
    "trtllm-serve",
    "TensorRT-LLM engine args",
    "tensorrt_llm/",
    "[TRT] [E]",
)

_RULES = (
    rule(
        "after loading model weights",
        r"model weights \(inside torch\)[^:]{0,40}: (?P<weights>NUM) GiB",
    ),
    rule(
        "allocated during inference",
        r"inference \(inside torch\)[^:]{0,40}: (?P<activations>NUM) GiB",
    ),
    rule(
        "Memory used outside torch", r"Memory used outside torch [^:]{0,80}: (?P<runtime>NUM) GiB"
    ),
    rule("device total memory", r"device total memory (?P<total>NUM) GiB"),
    rule("calculating max tokens in", r"kv cache: total: (?P<total>NUM) GiB"),
    rule("Allocated", r"Allocated (?P<kv_pool>NUM) GiB for max tokens(?: in paged KV cache)? \("),
    rule(
        "Allocated", r"GiB for max tokens(?: in paged KV cache)? \((?P<kv_tokens>INT)\)", "tokens"
    ),
)

_ARGUMENTS: dict[str, tuple[str, type[Flag]]] = {
    "tensor_parallel": ("tensor_parallel_size", int),
    "pipeline_parallel": ("pipeline_parallel_size", int),
    "expert_parallel": ("moe_expert_parallel_size", int), "context_length": ("max_seq_len", int),
    "max_num_seqs": ("max_batch_size", int), "max_batched_tokens": ("max_num_tokens", int),
    "gpu_memory_utilization": ("free_gpu_memory_fraction", float),
}  # fmt: skip
_SHORT: dict[str, tuple[str, type[Flag]]] = {
    "tensor_parallel": ("tp_size", int), "pipeline_parallel": ("pp_size", int),
    "expert_parallel": ("ep_size", int),
    "gpu_memory_utilization": ("kv_cache_free_gpu_memory_fraction", float),
    "kv_cache_dtype": ("kv_cache_dtype", str),
}  # fmt: skip
_COMMANDS = ("engine args", "LLM Args", "trtllm-serve", "max_seq_len=", "dynamo.trtllm")
_FRACTION = re.compile(r"fraction is set (?P<share>\d?\.?\d{1,6})")
_VERSION = re.compile(r"TensorRT-LLM version:? v?(?P<version>\d[\w.+-]{1,40})")
_MODEL = re.compile(r"trtllm-serve (?:serve )?['\"]?(?P<model>[\w./:@-]{3,200})")
_RANK = re.compile(r"\[RANK (?P<rank>\d{1,4})\]")


def read(lines: list[Line]) -> StartLog:
    """Return what TensorRT-LLM's log says."""
    commands = joined(lines, *_COMMANDS)
    values = flags(commands, _SHORT) | flags(commands, _ARGUMENTS)
    share = first(lines, "fraction is set", _FRACTION)
    if share:
        values["gpu_memory_utilization"] = float(share["share"])
    version, model = first(lines, "version", _VERSION), first(lines, "trtllm-serve", _MODEL)
    readings = find_readings(lines, _RULES, rank_of)
    return StartLog(
        engine="tensorrt-llm",
        version=version["version"] if version else None,
        model=hub_id(
            (model["model"] if model else None)
            or argument(commands, "model_path")
            or argument(commands, "model")
        ),
        gpu=gpu_name(lines),
        flags=values,
        readings=tuple(readings),
        outcome=outcome(
            lines,
            oom=("CUDA out of memory", "OutOfMemoryError", "cudaMalloc failed"),
            served=("Application startup complete", "ready to serve"),
            has_pool=measured(readings, "kv_tokens"),
        ),
    )


def rank_of(text: str) -> str:
    """Return the MPI rank that printed a line."""
    match = _RANK.search(text)
    return f"rank {match['rank']}" if match else ""
