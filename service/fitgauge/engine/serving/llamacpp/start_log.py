"""llama.cpp's start-up log (llama-server, llama-cli), from the builds of 2024 to those of 2026.

Wording from its sources: src/llama-model.cpp (`model buffer size`), src/llama-kv-cache.cpp,
llama-memory-recurrent.cpp (`KV buffer size`, `RS buffer size`, `size = ... cells`),
src/llama-context.cpp (`compute buffer size`, `n_ctx`)."""

import re

from msgspec import structs

from fitgauge.engine.serving.llamacpp.tensor_overrides import expert_layers
from fitgauge.engine.serving.options import ALL_LAYERS
from fitgauge.engine.serving.start_log.arguments import argument
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import (
    Flag,
    Measurement,
    StartLog,
    find_readings,
    first,
    has,
    outcome,
    rule,
)
from fitgauge.engine.serving.start_log.names import device_count, gpu_name, hub_id

SIGNATURES = (
    "load_tensors:", "llama_model_loader:", "llama_kv_cache", "llama_context:",
    "llama_new_context_with_model:", "ggml_cuda_init:",
    "memory_breakdown_print:",
    "print_info:", "llm_load_print_meta:", "llama_init_from_model:", "KV buffer size",
    "compute buffer size", "model buffer size",
    "ggml_backend_", "ggml_gallocr_", "llama_model_load", "llama_init", "ggml-cuda",
    "llama-server ", "llama-cli ",
)  # fmt: skip

_DEVICE = r"(?<![A-Za-z0-9_])(?P<rank>[A-Za-z]{2,12}\d{0,2}(?:_[A-Za-z]{2,12}\d{0,2}){0,2})"
RULES = (
    rule(
        "buffer size =",
        rf"load_tensors: +{_DEVICE} (?:model )?buffer size = +(?P<weights>NUM) MiB",
        "MiB",
    ),
    rule("KV buffer size", rf"{_DEVICE} KV buffer size = +(?P<kv_pool>NUM) MiB", "MiB"),
    rule("RS buffer size", rf"{_DEVICE} RS buffer size = +(?P<state>NUM) MiB", "MiB"),
    rule(
        "compute buffer size",
        rf"{_DEVICE} compute buffer size (?:=|of|is) +(?P<activations>NUM) MiB",
        "MiB",
    ),
    rule("output buffer size", rf"{_DEVICE} +output buffer size = +(?P<output>NUM) MiB", "MiB"),
    rule("cells", r"size = +NUM MiB \( *(?P<kv_tokens>INT) cells", "tokens"),
    rule(
        "cudaMalloc failed",
        r"allocating (?P<requested>NUM) MiB on device (?P<rank>\d{1,2}): cudaMalloc failed",
        "MiB",
    ),
    rule(
        "MiB free)",
        r"- (?P<rank>\w{2,12}) +: [^()]{2,60} \((?P<total>NUM) MiB, (?P<free_at_start>NUM) MiB"
        r" free\)",
        "MiB",
    ),
    rule(
        "MiB free",
        r"using device (?P<rank>\w{2,12}) \([^()]{2,60}\)[^-]{0,40}- (?P<free_at_start>NUM) MiB"
        r" free",
        "MiB",
    ),
)
_BREAKDOWN = (
    rule(
        "memory_breakdown_print:",
        r"- (?P<rank>[A-Za-z]{2,12}\d{1,2}) \([^()]{2,60}\) *\| +(?P<total>NUM) = +(?P<free>NUM) \+"
        r" +\( *NUM = +(?P<weights>NUM) \+ +"
        r"(?P<kv_pool>NUM) \+ +(?P<activations>NUM)\)",
        "MiB",
    ),
)
"""The table that is printed at the end, and before a load where layers are fitted to the GPUs:
model, context and compute of each.

Source: common/fit.cpp, common_memory_breakdown_print.
"""
_HOST = re.compile(r"^CPU|_Host$|^AMX|^BLAS")

_INTEGERS = {
    "context_length": ("n_ctx ", re.compile(r"\bn_ctx += (\d{1,9})")),
    "n_ubatch": ("n_ubatch", re.compile(r"\bn_ubatch += (\d{1,7})")),
    "n_batch": ("n_batch", re.compile(r"\bn_batch += (\d{1,7})")),
    "n_parallel": ("n_seq_max", re.compile(r"\bn_seq_max += (\d{1,5})")),
    "n_gpu_layers": ("offloaded", re.compile(r"offloaded (\d{1,4})/\d{1,4} layers")),
    "layers": ("offloaded", re.compile(r"offloaded \d{1,4}/(\d{1,4}) layers")),
}
_PROGRAM = re.compile(r"llama-(?:server|cli|bench)(?:\.exe)? ")
_OPTIONS = {
    "context_length": re.compile(r" (?:-c|--ctx-size)[ =](\d{1,9})"),
    "n_parallel": re.compile(r" (?:-np|--parallel)[ =](\d{1,5})"),
    "n_ubatch": re.compile(r" (?:-ub|--ubatch-size)[ =](\d{1,7})"),
    "n_gpu_layers": re.compile(r" (?:-ngl|--n-gpu-layers|--gpu-layers)[ =](\d{1,4})"),
    "n_cpu_moe": re.compile(r" (?:-ncmoe|--n-cpu-moe)[ =](\d{1,4})"),
}
_ALL_EXPERTS = re.compile(r" (?:-cmoe|--cpu-moe)(?![\w-])")
_OVERRIDE = re.compile(r" (?:-ot|--override-tensor)[ =][\"']?([^\s\"']{1,512})")
_UNIFIED = re.compile(r" (?:--kv-unified|-kvu)(?![\w-])")
_NO_PROJECTOR = re.compile(r" --no-mmproj(?:-auto)?(?![\w-])")
"""--no-mmproj-offload keeps the projector, in the machine's memory."""
_CACHE_OPTION = re.compile(r" (?:-ct|--cache-type-)(?P<part>[kv])[ =](?P<type>\w{2,8})")
OPTIONS = (
    *(name for pattern in _OPTIONS.values() for name in re.findall(r"--[a-z-]+", pattern.pattern)),
    *("--cache-type-k", "--cache-type-v", "--cpu-moe", "--override-tensor"),
)
_SLOT = re.compile(r"n_slots = (?P<slots>\d{1,5}), n_ctx_slot = (?P<context>\d{1,9})")
_CACHE_TYPE = re.compile(r"K \((?P<type>\w{2,8})\)")
_FLASH = re.compile(r"flash_attn += (?P<flash>\w{1,9})")
_FORMAT = re.compile(r"file type +(?:=|:) +(?P<format>[\w -]{2,24})|ftype += (?P<old>[\w -]{2,24})")
_BUILD = re.compile(
    r"(?:build(?::| =)|version:) +(?P<build>\d{3,6}) \([0-9a-f]{6,12}\)|build_info:"
    r" b(?P<info>\d{3,6})-[0-9a-f]{6,12}"
)
_LOADING = re.compile(r"load_model: loading model '(?P<path>[^']{1,512})'")
_PATH = re.compile(r"(?:tensors|values) from (?P<path>\S{1,512}) \(version")
_NAME = re.compile(r"general\.name +(?:str +)?= (?P<name>[\w .()+-]{2,80})")
_FILE_END = re.compile(
    r"(?:[-._](?:UD-)?(?:I?Q\d\w*|BF16|F16|F32|MXFP4))?(?:-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE
)
_FILE = re.compile(r" (?:-m|--model)[ =][\"']?(?P<path>[^\s\"']{1,512}\.gguf)")
_SIZE = re.compile(r"\d(?:\.\d{1,2})?[BbMm](?![A-Za-z0-9])")
_SOURCE = re.compile(
    r"repo_url str += https://huggingface\.co/(?P<id>[\w.-]{1,96}/[\w.-]{1,96})(?<!\.\.\.)\s*$"
)


def read(lines: list[Line]) -> StartLog:
    """Return what llama.cpp's log says."""
    readings, settings = buffers_or_table(lines), flags_of(lines)
    build = first(lines, "(", _BUILD) or first(lines, "build_info", _BUILD)
    return StartLog(
        engine="llama.cpp",
        version=(build["build"] or build["info"]) if build else None,
        model=model_of(lines),
        called=name_of(lines),
        gpu=gpu_name(lines),
        gpu_count=devices(readings) or device_count(lines),
        flags=settings,
        remarks=remarks_of(lines),
        readings=tuple(readings),
        outcome=outcome(
            lines,
            oom=(
                "cudaMalloc failed: out of memory",
                "CUDA error: out of memory",
                "ErrorOutOfDeviceMemory",
                "failed to allocate buffer for kv cache",
            ),
            served=(
                "server is listening",
                "model loaded",
                "all slots are idle",
                "starting the main loop",
                "graph splits",
            ),
        ),
    )


def device_readings(lines: list[Line]) -> list[Measurement]:
    """Buffers by device; what lies in host memory is named `host_...`, so that it is not counted.
    A device's caches (of full and of sliding layers, of a draft model) are one; buffers that are
    reserved again are logged again."""
    results: list[Measurement] = []
    pools: dict[tuple[str, str], int] = {}
    for reading in find_readings(lines, RULES):
        if _HOST.search(reading.rank):
            reading = structs.replace(reading, name="host_" + reading.name)
        key = (reading.name, reading.rank)
        if reading.name.endswith("kv_pool") and key in pools:
            first_pool = results[pools[key]]
            results[pools[key]] = structs.replace(
                first_pool,
                value=first_pool.value + reading.value,
                resolution=first_pool.resolution + reading.resolution,
            )
            continue
        pools.setdefault(key, len(results))
        results.append(reading)
    return results


def buffers_or_table(lines: list[Line]) -> list[Measurement]:
    """Return the buffers as they were allocated; the table of all of them where a quieter log
    has nothing else."""
    results = device_readings(lines)
    if any(reading.name in ("weights", "kv_pool", "requested") for reading in results):
        return results
    return [*results, *breakdown(lines)]


def breakdown(lines: list[Line]) -> list[Measurement]:
    """Return the last table of what every device holds; none where the only one is what fitting
    started from and did not keep."""
    starts = [index for index, line in enumerate(lines) if "memory breakdown [MiB]" in line.text]
    unchanged = has(lines, "no changes needed") or not has(lines, "for initial parameters")
    if not starts or (len(starts) == 1 and not unchanged):
        return []
    return find_readings(lines[starts[-1] :], _BREAKDOWN)


def flags_of(lines: list[Line]) -> dict[str, Flag]:
    """Context, batch, layers on the GPU, cache format and quantization as the loader prints
    them."""
    flags = _of_command(lines)
    for name, (key, pattern) in _INTEGERS.items():
        match = first(lines, key, pattern)
        if match:
            flags[name] = int(match[1])
            if name == "context_length":  # of all slots
                flags.pop("concurrency", None)
    slot = first(lines, "n_ctx_slot", _SLOT)
    if slot:
        flags.setdefault("n_parallel", int(slot["slots"]))
        flags.setdefault("context_length", int(slot["context"]))
    cache = first(lines, "K (", _CACHE_TYPE)
    flash = first(lines, "flash_attn", _FLASH)
    stored = first(lines, "type", _FORMAT)
    if cache and cache["type"] not in ("f16", "F16"):
        flags["kv_cache_dtype"] = cache["type"]
    if flash:
        flags["flash_attention"] = flash["flash"] in ("1", "on", "enabled", "true", "auto")
    if stored:
        flags["file_type"] = (stored["format"] or stored["old"]).strip()
    return flags


def _of_command(lines: list[Line]) -> dict[str, Flag]:
    """Return the flags of a command line in the text: its context divided over the slots, each of
    which has its part of the cache from the start."""
    command = " ".join(line.text for line in lines if _PROGRAM.search(line.text))[:8192]
    settings: dict[str, Flag] = {
        name: int(match[1])
        for name, pattern in _OPTIONS.items()
        if (match := pattern.search(command))
    }
    context, slots = settings.get("context_length"), settings.get("n_parallel", 1)
    divided = isinstance(slots, int) and slots > 1 and not _UNIFIED.search(command)
    if divided and isinstance(context, int) and isinstance(slots, int):
        settings |= {"context_length": max(1, context // slots), "concurrency": slots}
    settings |= _experts_on_host(command, settings)
    if _NO_PROJECTOR.search(command):
        settings["language_model_only"] = True
    formats = {match["part"]: match["type"] for match in _CACHE_OPTION.finditer(command)}
    if len(formats) == 2 and len(set(formats.values())) == 1:  # one alone leaves the other in f16
        settings["kv_cache_dtype"] = formats["k"]
    return settings


def _experts_on_host(command: str, settings: dict[str, Flag]) -> dict[str, Flag]:
    """Return `n_cpu_moe` where other flags say so, and `override_tensor` where one of them keeps
    what no number of layers says."""
    overrides = _OVERRIDE.findall(command)
    count = expert_layers(overrides)
    if count is None:
        return {"override_tensor": ",".join(overrides)}
    if _ALL_EXPERTS.search(command):
        count = ALL_LAYERS
    stated = settings.get("n_cpu_moe")
    count = max(count, stated) if isinstance(stated, int) else count
    return {"n_cpu_moe": count} if count else {}


def model_of(lines: list[Line]) -> str | None:
    """Return the repository: from the Hub's cache in the path, from -hf on the command line, or
    from the file's own metadata."""
    path = first(lines, " from ", _PATH) or first(lines, "loading model '", _LOADING)
    command = next(
        (line.text for line in lines if "-hf " in line.text or "--hf-repo" in line.text), ""
    )
    option = re.search(r"(?:-hf|--hf-repo)[ =](?P<id>[\w./:-]{3,200})", command)
    source = first(lines, "repo_url", _SOURCE)
    return (
        hub_id(path["path"] if path else None)
        or hub_id(option["id"] if option else None)
        or hub_id(source["id"] if source else None)
    )


def name_of(lines: list[Line]) -> str | None:
    """`general.name` of the file or what its path ends with, without part, type and extension: the
    first that says how large the model is, as a converter may write any name."""
    named = first(lines, "general.name", _NAME)
    path = (
        first(lines, " from ", _PATH)
        or first(lines, "loading model '", _LOADING)
        or first(lines, ".gguf", _FILE)
    )
    names = [
        *([named["name"].strip()] if named else []),
        *([_FILE_END.sub("", re.split(r"[/\\]", path["path"])[-1])] if path else []),
    ]
    return next((name for name in names if _SIZE.search(name)), names[0] if names else None)


def devices(readings: list[Measurement]) -> int | None:
    """Return how many devices hold weights."""
    return len({reading.rank for reading in readings if reading.name == "weights"}) or None


def remarks_of(lines: list[Line]) -> tuple[str, ...]:
    """Return what explains memory in addition to flags."""
    remarks = {
        "projector": has(lines, "clip_model_loader", "mmproj", "clip_ctx"),
        "draft_model": any(
            argument(line.text, "model_draft") for line in lines if "draft" in line.text
        )
        or has(lines, "creating MTP draft context"),
    }
    return tuple(name for name, true in remarks.items() if true)
