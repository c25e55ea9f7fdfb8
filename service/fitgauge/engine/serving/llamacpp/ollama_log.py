"""Ollama's log: its own lines (llm/server.go, ml/device.go: key=value pairs) around those of the
llama.cpp it runs."""

import re

from msgspec import structs

from fitgauge.engine.serving.llamacpp import start_log
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import (
    Measurement,
    StartLog,
    find_readings,
    first,
    last_integers,
    measured,
    outcome,
    rule,
)
from fitgauge.engine.serving.start_log.names import device_count, gpu_name

SIGNATURES = (
    "source=server.go", "source=sched.go", "source=routes.go", "source=device.go", "source=ggml.go",
    "source=memory.go", "source=images.go", "source=llama_server.go", "registry.ollama.ai/",
    "source=runner.go", "source=gpu.go", "source=types.go", "llama runner started", "OLLAMA_",
    "llama runner process has terminated", "requires more system memory", "ollama run ",
)  # fmt: skip

_SIZE = r'"?(?P<{0}>NUM) (?P<{0}_unit>GiB|MiB|KiB|B)"?'
_RULES = (
    rule('msg="model weights"', r"device=(?P<rank>\w{2,12}) size=" + _SIZE.format("weights")),
    rule('msg="kv cache"', r"device=(?P<rank>\w{2,12}) size=" + _SIZE.format("kv_pool")),
    rule('msg="compute graph"', r"device=(?P<rank>\w{2,12}) size=" + _SIZE.format("activations")),
    rule('msg="total memory"', r"size=" + _SIZE.format("process")),
    rule('msg="gpu memory"', r"free=" + _SIZE.format("free_at_start")),
    rule("inference compute", r"total=" + _SIZE.format("total")),
)  # fmt: skip
"""`memory.required.*` of older versions is what Ollama expected, not what it got, so no rule
reads it."""

_LISTENING = re.compile(r"\(version (?P<version>\d[\w.+-]{1,40})\)")
_INTEGERS = {
    "context_length": ("KvSize:", re.compile(r"KvSize:(\d{1,9})")),
    "n_parallel": ("Parallel:", re.compile(r"Parallel:(\d{1,5})")),
    "n_ubatch": ("BatchSize:", re.compile(r"BatchSize:(\d{1,7})")),
    "n_gpu_layers": ("offloaded", re.compile(r"offloaded (\d{1,4})/\d{1,4} layers")),
}
_COMMAND = {
    "context_length": ("--ctx-size", re.compile(r"--ctx-size (\d{1,9})")),
    "n_parallel": ("--parallel", re.compile(r"--parallel (\d{1,5})")),
    "n_gpu_layers": ("--n-gpu-layers", re.compile(r"--n-gpu-layers (\d{1,4})")),
}
_VARIABLES = {
    "context_length": (
        "OLLAMA_CONTEXT_LENGTH",
        re.compile(r"OLLAMA_CONTEXT_LENGTH[:=]([1-9]\d{0,8})"),
    ),
    "concurrency": ("OLLAMA_NUM_PARALLEL", re.compile(r"OLLAMA_NUM_PARALLEL[:=]([1-9]\d{0,4})")),
}
"""The context of one slot, and slots, which all have their cache from the start; the sizes above
are of all slots. 0 leaves the choice to Ollama. Source: envconfig/config.go."""
_CACHE_TYPE = re.compile(r"(?:KvCacheType:|--kv-cache-type )(?P<type>[a-z]\w{1,7})")
_RUN = re.compile(r"ollama run (?P<tag>[A-Za-z0-9][\w.:/-]{1,96})")
_TAG = re.compile(r"registry\.ollama\.ai/library/(?P<tag>[a-z0-9][\w.-]{1,64}:e?\d[\w.-]{0,64})")
"""A tag without a size (`latest`) is not what its name means elsewhere."""
_LOAD = "starting "


def read(lines: list[Line]) -> StartLog:
    """Return what Ollama's log says of the last model it loaded."""
    version = first(lines, "(version ", _LISTENING)
    loaded = _last_load(lines)
    flags = last_integers(lines, _VARIABLES) | start_log.flags_of(loaded)
    sizes = last_integers(loaded, _COMMAND) | last_integers(loaded, _INTEGERS)
    flags |= sizes
    if "context_length" in sizes:  # of all slots
        flags.pop("concurrency", None)
    cache = first(loaded, "ache", _CACHE_TYPE)
    if cache and cache["type"] != "f16":
        flags["kv_cache_dtype"] = cache["type"]
    own = [_of_host(reading) for reading in find_readings(loaded, _RULES)]
    runner = start_log.device_readings(loaded)
    exact = {reading.name for reading in runner}
    readings = [reading for reading in own if reading.name not in exact] + runner
    return StartLog(
        engine="ollama",
        version=version["version"] if version else None,
        model=start_log.model_of(loaded) or _tag(lines, loaded),
        called=start_log.name_of(loaded),
        gpu=gpu_name(lines),
        gpu_count=start_log.devices(readings) or device_count(lines),
        flags=flags,
        remarks=start_log.remarks_of(loaded),
        readings=tuple(readings),
        outcome=outcome(
            loaded,
            oom=(
                "cudaMalloc failed: out of memory",
                "CUDA error: out of memory",
                "unable to allocate CUDA",
            ),
            served=("llama runner started",),
            has_pool=measured(readings, "process"),
        ),
    )


def _tag(lines: list[Line], loaded: list[Line]) -> str | None:
    """Return the name that `ollama run` is given, or that the server logs of what it loaded."""
    match = first(lines, "ollama run ", _RUN) or first(loaded, "registry.ollama.ai/library", _TAG)
    return match["tag"] if match else None


def _last_load(lines: list[Line]) -> list[Line]:
    """From the last runner that was given a model; the whole log where none was."""
    starts = [
        index for index, line in enumerate(lines) if _LOAD in line.text and "--model" in line.text
    ]
    return lines[starts[-1] :] if starts else lines


def _of_host(reading: Measurement) -> Measurement:
    if not reading.rank.startswith("CPU"):
        return reading
    return structs.replace(reading, name="host_" + reading.name)
