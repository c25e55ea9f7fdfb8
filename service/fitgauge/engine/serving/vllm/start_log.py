"""vLLM's start-up log, 0.5 to 0.33.

Wording by version, from its sources: v0 worker/worker.py (`the current vLLM instance can use
...`); v1/worker/gpu_model_runner.py (`Model loading took`, `Graph capturing finished`,
`Estimated CUDA graph memory`); v1/worker/gpu_worker.py (`Available KV cache memory`, `Actual
usage is`, `CUDA graph pool memory`); v1/core/kv_cache_utils.py and kv_cache_planning.py (`GPU KV
cache size`, `is needed, which`). Where gpu_worker.py says "consumed memory" (0.28 to 0.33) its
"peak activation" holds the estimate for CUDA graphs too."""

import re

from msgspec import structs

from fitgauge.engine.serving.start_log.arguments import argument, flag, flags, options
from fitgauge.engine.serving.start_log.lines import Line, joined
from fitgauge.engine.serving.start_log.measurements import (
    OUT_OF_MEMORY,
    Flag,
    Measurement,
    Outcome,
    StartLog,
    find_readings,
    first,
    has,
    last_start,
    rule,
)
from fitgauge.engine.serving.start_log.names import gpu_name, hub_id

SIGNATURES = (
    "Initializing a V", "Initializing an LLM engine", "Model loading took",
    "Loading model weights took", "GPU KV cache size:",
    "vLLM API server", "the current vLLM instance", "Available KV cache memory:",
    "non-default args:", "# GPU blocks:", "# cuda blocks:",
    "total_gpu_memory (", "KV cache is needed, which", "stored in KV cache (", "(VllmWorker",
        "(EngineCore", "(Worker_TP",
    "Free memory on device", "No available memory for the cache blocks", "vllm serve ",
    "vllm.entrypoints", "vllm/v1/", "vllm/worker/", "larger than the available KV cache memory",
)  # fmt: skip

_RULES = (
    rule("weights took", r"Loading model weights took (?P<weights>NUM) G"),
    rule("loading took", r"Model loading took (?P<weights>NUM) G"),
    rule("total_gpu_memory", r"total_gpu_memory \((?P<total>NUM) ?GiB\)"),
    rule("gpu_memory_utilization (", r"gpu_memory_utilization \(NUM\) = (?P<budget>NUM)GiB"),
    rule("weights take", r"model weights take (?P<weights_rounded>NUM)GiB"),
    rule("non_torch_memory", r"non_torch_memory takes (?P<runtime>NUM)GiB"),
    rule("activation peak", r"activation peak memory takes (?P<activations>NUM)GiB"),
    rule("reserved for KV", r"reserved for KV Cache is (?P<kv_pool>NUM)GiB"),
    rule("weights memory:", r"weights memory: (?P<weights_rounded>NUM)GiB"),
    rule("torch peak memory", r"torch peak memory increase: (?P<activations>NUM)GiB"),
    rule("non-torch forward", r"non-torch forward increase memory: (?P<runtime>NUM)GiB"),
    rule("total consumed", r"total consumed \(from mem_get_info\): (?P<consumed>NUM)GiB"),
    rule("Actual usage is", r"Actual usage is (?P<weights_rounded>NUM) GiB for weight"),
    rule("consumed memory", r"Actual usage is (?P<consumed>NUM) GiB for consumed memory"),
    rule("for weight, ", r"GiB for weight, (?P<activations>NUM) GiB for peak activation"),
    rule("+ non-torch), ",
    r"\+ non-torch\), (?P<activations_and_graphs>NUM) GiB for peak activation"),
    rule("for non-torch", r"(?P<runtime>NUM) GiB for non-torch memory"),
    rule("for CUDAGraph", r"(?P<cuda_graphs>NUM) GiB for CUDAGraph memory"),
    rule("Free memory on device", r"\((?P<free_at_start>NUM)/(?P<total>NUM) GiB\) on startup"),
    rule("Initial free memory",
        r"Initial free memory (?P<free_at_start>NUM) GiB, reserved (?P<kv_pool>NUM) GiB"),
    rule("Available KV cache", r"Available KV cache memory: (?P<kv_pool>NUM) GiB"),
    rule("memory in use is", r"Current kv cache memory in use is (?P<kv_pool>NUM) GiB"),
    rule("is needed, which", r"\((?P<kv_needed>NUM) GiB KV cache is needed"),
    rule("estimated maximum", r"maximum model length is (?P<longest_context>INT)", "tokens"),
    rule("the available KV",
        r"larger than the available KV cache memory \((?P<kv_pool>NUM) ?GiB\)"),
    rule("Estimated CUDA graph",
        r"Estimated CUDA graph memory: (?P<cuda_graphs_estimated>NUM) GiB total"),
    rule("Graph capturing",
        r"Graph capturing finished in NUM secs?, took (?P<cuda_graphs>NUM) GiB"),
    rule("graph pool memory", r"CUDA graph pool memory: (?P<cuda_graphs>NUM) GiB \(actual"),
    rule("graph pool memory", r", (?P<cuda_graphs_estimated>NUM) GiB \(estimated\)"),
    rule("KV cache size:", r"KV cache size: (?P<kv_tokens>INT) tokens", "tokens"),
    rule("Maximum concurrency",
        r"Maximum concurrency for INT tokens per request: (?P<max_concurrency>NUM)x", "requests"),
    rule(" blocks: ", r"# (?:GPU|cuda|rocm) blocks: (?P<kv_blocks>INT)", "blocks"),
    rule("stored in KV cache", r"stored in KV cache \((?P<kv_tokens>INT)\)", "tokens"),
)  # fmt: skip

_CONFIG: dict[str, tuple[str, type[Flag]]] = {
    "context_length": ("max_seq_len", int), "tensor_parallel": ("tensor_parallel_size", int),
    "pipeline_parallel": ("pipeline_parallel_size", int),
    "data_parallel": ("data_parallel_size", int),
    "quantization": ("quantization", str), "enforce_eager": ("enforce_eager", bool),
    "kv_cache_dtype": ("kv_cache_dtype", str),
    "dtype": ("dtype", str), "prefix_caching": ("enable_prefix_caching", bool),
}  # fmt: skip
_ARGUMENTS: dict[str, tuple[str, type[Flag]]] = {
    "context_length": ("max_model_len", int), "tensor_parallel": ("tensor_parallel_size", int),
    "pipeline_parallel": ("pipeline_parallel_size", int),
    "data_parallel": ("data_parallel_size", int),
    "quantization": ("quantization", str), "enforce_eager": ("enforce_eager", bool),
    "kv_cache_dtype": ("kv_cache_dtype", str),
    "gpu_memory_utilization": ("gpu_memory_utilization", float),
    "max_num_seqs": ("max_num_seqs", int),
    "language_model_only": ("language_model_only", bool),
    "max_batched_tokens": ("max_num_batched_tokens", int),
    "cpu_offload_gib": ("cpu_offload_gb", float),
    "kv_offload_replica_gib": ("kv_offloading_size", float),
    "block_size": ("block_size", int), "expert_parallel_on": ("enable_expert_parallel", bool),
    "kv_cache_memory_bytes": ("kv_cache_memory_bytes", int), "kv_role": ("kv_role", str),
}  # fmt: skip
OPTIONS = options(_ARGUMENTS)
_HALVES = {"kv_producer": "prefill", "kv_consumer": "decode"}
"""Roles of --kv-transfer-config that are of one half; kv_both is of either."""

_ENGINE = re.compile(r"Initializing an? (?:V\d )?LLM engine(?: \(v?(?P<version>[\w.+-]{1,64})\))?")
_BANNER = re.compile(r"(?:vLLM API server version|\bversion) v?(?P<version>\d[\w.+-]{1,64})")
_UTILIZATION = re.compile(
    r"(?:gpu_memory_utilization \(|[Dd]esired GPU memory utilization (?:is )?\(|current"
    r" --gpu-memory-utilization=|"
    r"increase --gpu-memory-utilization from |--gpu-memory-utilization[ =])(?P<share>\d?\.?\d{1,6})"
)
_CONTEXT = re.compile(
    r"(?:max seq len \(|Using max model len |Maximum concurrency for |max_model_len[="
    r" ]|--max-model-len[ =])(?P<context>\d[\d,]{0,12})",
    re.IGNORECASE,
)
_BATCH = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(?P<tokens>\d{1,9})")
_NO_ITEMS = re.compile(
    r"limit[-_]mm[-_]per[-_]prompt(?=[^}\n]{0,120}\bimage\W{1,4}0\b)"
    r"(?=[^}\n]{0,120}\bvideo\W{1,4}0\b)"
)
"""Towers read images and videos: they are loaded where one of these may be sent."""
_DRAFTING = re.compile(
    r"speculative[-_]config['\"]?[ =:]{1,2}['\"]?(?P<settings>\{[^{}]{0,2048}\})"
    r"|--speculative[-_]config\.(?P<key>\w[\w-]{0,40})[ =](?P<value>[^\s'\"]{1,200})"
)
_WITHOUT_WEIGHTS = ("ngram", "suffix")
"""Methods that draft from the text alone."""
_POOLING = {
    "runner": ("pooling",),
    "convert": ("embed", "classify", "reward"),
    "task": ("embed", "embedding", "classify", "score", "reward"),
}
"""What makes it embed or score, before 0.11 by its task. Source: vllm/config/model.py."""
_WORKER = re.compile(
    r"\((?:VllmWorkerProcess|VllmWorker|Worker|EngineCore|RayWorkerWrapper)[ _]?"
    r"(?P<rank>[\w=]{0,40}(?: [A-Z]{2}\d{1,4}){0,4}) ?pid=(?P<pid>\d{1,10})"
)
_TENSOR_RANK = re.compile(r"TP(\d{1,3})")
_ENTRY = re.compile(r"\b(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d ")
_BLOCKS = (8, 16, 32, 64, 128)
_ROUNDING = 0.05
_MOST_CONTINUED = 4
_COMMANDS = (
    "non-default args:",
    "args: Namespace(",
    "vllm serve ",
    "vllm bench ",
    "vllm.entrypoints",
)
_LONGEST_COMMAND = 64 * 1024


def _drafting(commands: str) -> tuple[dict[str, Flag], str]:
    """Return how many tokens are drafted, and by which model, and the commands without that: the
    draft's name is not the model's."""
    rest = _DRAFTING.sub(" ", commands)
    written = " ".join(
        match["settings"] or f"--{match['key']} {match['value']}"
        for match in _DRAFTING.finditer(commands)
    )
    method = argument(written, "method") or argument(rest, "spec_method")
    tokens = flag(written, "num_speculative_tokens", int) or flag(rest, "spec_tokens", int)
    if not tokens or method in _WITHOUT_WEIGHTS:
        return {}, rest
    named = argument(written, "model") or argument(rest, "spec_model")
    if named is None:  # its own layers draft
        return {"speculative_tokens": tokens}, rest
    draft = hub_id(named)
    return {"speculative_tokens": tokens, "draft_model": draft} if draft else {}, rest


def read(lines: list[Line]) -> StartLog:
    """Return what vLLM's log says."""
    lines = last_start(lines, "non-default args:", _RULES)
    config = _joined(lines, _ENGINE)
    commands = joined(lines, *_COMMANDS)[:_LONGEST_COMMAND]
    drafting, commands = _drafting(commands)
    values = flags(commands, _ARGUMENTS) | flags(config, _CONFIG) | drafting
    if any(argument(commands, key) in words for key, words in _POOLING.items()):
        values["pooling"] = True
    if _NO_ITEMS.search(commands):
        values["language_model_only"] = True
    half = _HALVES.get(str(values.pop("kv_role", None)))
    if half is not None:
        values["disaggregation"] = half
    share = first(lines, "utilization", _UTILIZATION)
    if share and "gpu_memory_utilization" not in values:
        values["gpu_memory_utilization"] = float(share["share"])
    if "tensor_parallel" not in values and (widest := _widest(lines)):
        values["tensor_parallel"] = widest
    if has(lines, "_EP1 pid="):
        values["expert_parallel_on"] = True
    longest = first(lines, "ax", _CONTEXT)
    if longest and "context_length" not in values:
        values["context_length"] = int(longest["context"].replace(",", ""))
    batch = first(lines, "Chunked prefill", _BATCH)
    if batch:
        values["max_batched_tokens"] = int(batch["tokens"])
    version = _ENGINE.search(config) or first(lines, "version", _BANNER)
    readings = _with_tokens(find_readings(lines, _RULES, rank_of), values.get("context_length"))
    return StartLog(
        engine="vllm",
        version=version["version"] if version else None,
        model=hub_id(
            argument(config, "model")
            or argument(commands, "model")
            or argument(commands, "model_tag")
            or _served(commands)
        ),
        gpu=gpu_name(lines),
        flags=values,
        remarks=_remarks(lines, config, commands),
        readings=tuple(readings),
        outcome=_outcome(lines, readings),
    )


def _served(commands: str) -> str | None:
    match = re.search(r"\bvllm serve ['\"]?(?P<model>[\w./:@-]{3,200})", commands)
    return match["model"] if match else None


def _widest(lines: list[Line]) -> int | None:
    """Return the tensor parallelism the workers' names show; None where only the first one
    printed."""
    ranks = [
        int(match[1])
        for line in lines
        if "TP" in line.text and (match := _TENSOR_RANK.search(rank_of(line.text)))
    ]
    return max(ranks) + 1 if any(ranks) else None


def rank_of(text: str) -> str:
    """Return the worker that printed a line: `TP0`, `PP0_TP1`, `rank=0`, `DP0`, or the process
    where it has no other name."""
    match = _WORKER.search(text) if "pid=" in text else None
    if not match:
        return ""
    return match["rank"].strip("_ ") or (
        "" if "(EngineCore pid" in text else f"process {match['pid']}"
    )


def _joined(lines: list[Line], start: re.Pattern[str]) -> str:
    """Return the first line that `start` matches with what a terminal wrapped onto the next
    ones."""
    for index, line in enumerate(lines):
        if "Initializing a" in line.text and (match := start.search(line.text)):
            parts = [line.text[match.start() :]]
            for later in lines[index + 1 : index + 1 + _MOST_CONTINUED]:
                if _ENTRY.search(later.text):
                    break
                parts.append(later.text)
            return "".join(parts)
    return ""


def _remarks(lines: list[Line], config: str, commands: str) -> tuple[str, ...]:
    remarks = {
        "draft_model": (
            "speculative_config=Spec" in config
            or "'speculative_config': {" in commands
            or has(lines, "Loading drafter model")
        ),
        "lora": "'enable_lora': True" in commands or "--enable-lora" in commands,
        "encoder_cache": has(lines, "Encoder cache will be initialized"),
        "cpu_offload": "'cpu_offload_gb'" in commands,
        "kv_transfer": "kv_transfer_config" in commands,
        "graphs_estimated": has(lines, "CUDA graph memory profiling is enabled"),
        "sleep_mode": "'enable_sleep_mode': True" in commands,
        "blocks_overridden": "num_gpu_blocks_override" in commands,
    }
    return tuple(name for name, true in remarks.items() if true)


def _with_tokens(readings: list[Measurement], context_length: Flag | None) -> list[Measurement]:
    """Older versions print blocks and the requests they hold: tokens = blocks x the power of two
    next to requests x context / blocks."""
    by_name = {reading.name: reading for reading in readings}
    blocks, requests = by_name.get("kv_blocks"), by_name.get("max_concurrency")
    if (
        "kv_tokens" in by_name
        or not blocks
        or not requests
        or not isinstance(context_length, int)
        or blocks.value < 1
    ):
        return readings
    block = next(
        (
            size
            for size in _BLOCKS
            if abs(requests.value * context_length / blocks.value / size - 1) < _ROUNDING
        ),
        None,
    )
    if block:
        return [*readings, structs.replace(blocks, name="kv_tokens", value=blocks.value * block)]
    return readings


def _outcome(lines: list[Line], readings: list[Measurement]) -> Outcome | None:
    if has(lines, *OUT_OF_MEMORY):
        return "oom"
    if has(
        lines,
        "No available memory for the cache blocks",
        "KV cache is needed, which",
        "cache is needed, which is larger",
        "stored in KV cache (",
    ):
        return "kv_too_small"
    if has(lines, "is less than desired GPU memory utilization"):
        return "oom"
    if any(reading.name in ("kv_blocks", "kv_pool") and reading.value <= 0 for reading in readings):
        return "kv_too_small"
    served = (
        "Application startup complete",
        "init engine (profile",
        "Starting vLLM API server",
        "Graph capturing finished",
        "Actual usage is",
    )
    pool = any(
        reading.name in ("kv_tokens", "kv_blocks") and reading.value > 0 for reading in readings
    )
    return "served" if has(lines, *served) or pool else None
