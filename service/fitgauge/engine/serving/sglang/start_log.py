"""SGLang's start-up log. Its "GB" are 2^30 bytes (sglang/srt/utils: get_available_gpu_memory
divides by 1 << 30).

Wording from python/sglang/srt: model_executor/model_runner.py (`Load weight begin/end`, `Memory
pool end`), mem_cache/memory_pool.py (`KV Cache is allocated`, `Mamba Cache is allocated`,
`SWAKVPool mem usage`), managers/scheduler.py (`max_total_num_tokens=`)."""

import re

from msgspec import structs

from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.start_log.arguments import argument, flag, flags, options
from fitgauge.engine.serving.start_log.lines import Line, joined
from fitgauge.engine.serving.start_log.measurements import (
    Flag,
    Measurement,
    StartLog,
    find_readings,
    first,
    last_start,
    measured,
    outcome,
    rule,
)
from fitgauge.engine.serving.start_log.names import gpu_name, hub_id

SIGNATURES = (
    "server_args=", "Load weight begin. avail mem", "Load weight end.", "KV Cache is allocated.",
    "max_total_num_tokens=",
    "sglang.launch_server", "Memory pool end.", "The server is fired up",
    "--mem-fraction-static", "sglang/srt/", "sglang serve ",
)  # fmt: skip

_RULES = (
    rule("Load weight begin", r"Load weight begin\. avail mem=(?P<free_at_start>NUM) ?GB"),
    rule(
        "Load weight end",
        r"avail mem=(?P<free_after_weights>NUM) ?GB, mem usage=(?P<weights>NUM) ?GB",
    ),
    rule("KV Cache is", r"#tokens: (?P<kv_tokens>INT)", "tokens"),
    rule("KV Cache is", r"K size: (?P<k_pool>NUM) ?GB, V size: (?P<v_pool>NUM) ?GB"),
    rule("KV Cache is", r"KV size: (?P<kv_pool>NUM) ?GB"),
    rule(
        "Mamba Cache is",
        r"conv_state size: (?P<conv_state>NUM) ?GB,? ssm_state size: (?P<ssm_state>NUM) ?GB",
    ),
    rule("SWAKVPool", r"SWAKVPool mem usage: (?P<all_pools>NUM) ?GB"),
    rule("Memory pool end", r"Memory pool end\. avail mem=(?P<free_after_pool>NUM) ?GB"),
    rule(
        "graph end",
        r"graph end\. (?:Time )?elapsed[:=] ?NUM s[.,] mem usage=(?P<cuda_graphs>NUM) ?GB",
    ),
    rule("max_total_num_tokens=", r"max_total_num_tokens=(?P<kv_tokens>INT)", "tokens"),
    rule(
        "max_running_requests=",
        r"max_running_requests=(?P<max_running_requests>INT), context_len",
        "requests",
    ),
)

_ARGUMENTS: dict[str, tuple[str, type[Flag]]] = {
    "tensor_parallel": ("tp_size", int), "pipeline_parallel": ("pp_size", int),
    "data_parallel": ("dp_size", int),
    "expert_parallel": ("ep_size", int), "context_length": ("context_length", int),
    "quantization": ("quantization", str),
    "kv_cache_dtype": ("kv_cache_dtype", str),
    "gpu_memory_utilization": ("mem_fraction_static", float),
    "max_batched_tokens": ("chunked_prefill_size", int),
    "max_num_seqs": ("max_running_requests", int),
    "enforce_eager": ("disable_cuda_graph", bool), "cpu_offload_gib": ("cpu_offload_gb", float),
    "dtype": ("dtype", str), "hicache_on": ("enable_hierarchical_cache", bool),
    "hicache_gb": ("hicache_size", float),
    "draft_tokens": ("speculative_num_draft_tokens", int),
    "disaggregation": ("disaggregation_mode", str),
}  # fmt: skip
OPTIONS = options(_ARGUMENTS)
_SHORT: dict[str, tuple[str, type[Flag]]] = {
    "tensor_parallel": ("tp", int), "pipeline_parallel": ("pp", int),
    "data_parallel": ("dp", int), "expert_parallel": ("ep", int),
}  # fmt: skip
_ALGORITHM = "speculative_algorithm"
_COMMANDS = ("server_args=", "launch_server", "sglang serve ")
_LINE = re.compile(r"max_total_num_tokens=\d+.{0,200}?context_len=(?P<context>\d{1,9})")
_CHUNK = re.compile(r"chunked_prefill_size=(?P<tokens>\d{1,9})")
_RANK = re.compile(r"^[^\]]{0,80}?\d\d:\d\d:\d\d(?P<rank>(?: (?:DP|TP|PP|EP)\d{1,4}){1,4})\]")
_POOL_DTYPE = re.compile(
    r"KV Cache is allocated\. dtype: torch\.(?P<dtype>float8_e4m3fn|float8_e5m2)"
)
_VERSION = re.compile(r"sglang(?:==| version:? | v)(?P<version>\d[\w.+-]{1,40})", re.IGNORECASE)


def read(lines: list[Line]) -> StartLog:
    """Return what SGLang's log says."""
    lines = last_start(lines, "server_args=", _RULES)
    commands = joined(lines, *_COMMANDS)
    values = _by_replica(flags(commands, _SHORT) | flags(commands, _ARGUMENTS), commands)
    context = first(lines, "context_len=", _LINE)
    chunk = first(lines, "max_total_num_tokens=", _CHUNK)
    if context:
        values["context_length"] = int(context["context"])
    if chunk and "max_batched_tokens" not in values:
        values["max_batched_tokens"] = int(chunk["tokens"])
    tokens = values.pop("draft_tokens", 0)
    algorithm = argument(commands, _ALGORITHM)
    if isinstance(tokens, int) and tokens > 1 and algorithm not in (None, "NGRAM"):
        named = argument(commands, "speculative_draft_model_path")
        draft = hub_id(named)
        if named is None or draft is not None:
            values["speculative_tokens"] = tokens - 1  # the last one is the model's own
            values |= {"draft_model": draft} if draft else {}
    if values.get("hicache_on"):
        values["kv_offload_rank_gib"] = float(values.get("hicache_gb", 0)) * 10**9 / GIB
    if values.get("disaggregation") not in ("prefill", "decode"):
        values.pop("disaggregation", None)
    if values.get("kv_cache_dtype") == "auto":
        del values["kv_cache_dtype"]
    narrow = first(lines, "KV Cache is", _POOL_DTYPE)
    if narrow and "kv_cache_dtype" not in values:
        values["kv_cache_dtype"] = (
            narrow["dtype"]
            .removeprefix("float8")
            .replace("_e4m3fn", "fp8_e4m3")
            .replace("_e5m2", "fp8_e5m2")
        )
    version = first(lines, "lang", _VERSION)
    readings = _pooled(_summed(_drafted(find_readings(lines, _RULES, rank_of))))
    drafts = any(reading.name.startswith("draft_") for reading in readings)
    return StartLog(
        engine="sglang",
        version=version["version"] if version else None,
        model=hub_id(argument(commands, "model_path") or argument(commands, "model")),
        gpu=gpu_name(lines),
        flags=values,
        remarks=("draft_model",) if drafts or argument(commands, "speculative_algorithm") else (),
        readings=tuple(readings),
        outcome=outcome(
            lines,
            kv_too_small=("Not enough memory. Please try", "leave no GPU memory for the KV cache"),
            served=("The server is fired up", "Uvicorn running on"),
            has_pool=measured(readings, "kv_tokens"),
        ),
    )


def _by_replica(values: dict[str, Flag], commands: str) -> dict[str, Flag]:
    """Return the flags with the tensor degree of one replica: with DP attention --tp counts the
    ranks of all replicas.

    Source: layers/dp_attention.py, compute_dp_attention_world_info."""
    ranks = int(values.get("tensor_parallel", 1))
    replicas = int(values.get("data_parallel", 1))
    if not flag(commands, "enable_dp_attention", bool) or replicas < 2 or ranks % replicas:
        return values
    return {**values, "tensor_parallel": ranks // replicas}


def rank_of(text: str) -> str:
    """`TP0`, `DP0 TP0 EP0`: what stands behind the time."""
    match = _RANK.match(text)
    return match["rank"].strip() if match else ""


def _drafted(readings: list[Measurement]) -> list[Measurement]:
    """Return the readings with a rank's second load as its draft model's."""
    loaded: set[str] = set()
    results = []
    for reading in readings:
        if reading.rank in loaded and reading.name in (
            "weights",
            "free_at_start",
            "free_after_weights",
        ):
            reading = structs.replace(reading, name="draft_" + reading.name)
        elif reading.name == "weights":
            loaded.add(reading.rank)
        results.append(reading)
    return results


def _summed(readings: list[Measurement]) -> list[Measurement]:
    """K with V and the two states of Mamba layers as one pool each."""
    sums = {"v_pool": ("k_pool", "kv_pool"), "ssm_state": ("conv_state", "state")}
    results: list[Measurement] = []
    for reading in readings:
        partner = sums.get(reading.name)
        if partner and results and results[-1].name == partner[0]:
            other = results.pop()
            results.append(
                structs.replace(
                    other,
                    name=partner[1],
                    value=other.value + reading.value,
                    resolution=other.resolution + reading.resolution,
                )
            )
        else:
            results.append(reading)
    return results


def _pooled(readings: list[Measurement]) -> list[Measurement]:
    """Return the pools of full and of sliding layers as one; those after a rank's first end are
    its draft's."""
    results: list[Measurement] = []
    ended: set[str] = set()
    places: dict[tuple[str, str], int] = {}
    for reading in readings:
        rank = reading.rank
        if reading.name == "free_after_pool":
            ended.add(rank)
        if reading.name not in ("kv_pool", "kv_tokens", "all_pools"):
            results.append(reading)
            continue
        whole = reading.name == "all_pools"
        name = "kv_tokens" if reading.name == "kv_tokens" else "kv_pool"
        reading, place = structs.replace(reading, name=name), places.get((name, rank))
        if place is None:
            places[name, rank] = len(results)
            results.append(reading)
        elif whole:
            results[place] = reading
        elif rank in ended:
            results.append(
                reading if name == "kv_tokens" else structs.replace(reading, name="draft_kv_pool")
            )
        else:
            results[place] = _together(results[place], reading)
    return results


def _together(pool: Measurement, other: Measurement) -> Measurement:
    """Return two pools of one rank: their bytes as a sum, their tokens as the more, as sliding
    layers have 0.8 of those of full ones."""
    if pool.name == "kv_tokens":
        return max(pool, other, key=lambda reading: reading.value)
    return structs.replace(
        pool, value=pool.value + other.value, resolution=pool.resolution + other.resolution
    )
