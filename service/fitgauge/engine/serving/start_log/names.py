"""Names in a log that may be shown to others: Hub IDs and GPUs, never paths."""

import re
from collections.abc import Iterable

from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import first, rule

_HUB_ID = re.compile(
    r"(?P<owner>[A-Za-z0-9][\w.-]{0,95})/(?P<name>[A-Za-z0-9][\w.-]{0,95})(?P<rest>[@:][\w./-]{1,96})?",
    re.ASCII,
)
_CACHED = re.compile(
    r"models--(?P<owner>[A-Za-z0-9][\w.-]{0,95}?)--(?P<name>[A-Za-z0-9][\w.-]{0,95})", re.ASCII
)
_FOLDERS = frozenset({
    "models", "model", "home", "data", "mnt", "root", "workspace", "tmp", "checkpoints",
    "checkpoint", "weights", "llm", "llms",
    "app", "hf", "cache", "local", "opt", "srv", "var", "usr", "users", "output", "outputs", "out",
    "ckpt", "ckpts",
})  # fmt: skip
"""Owners that are folders: `models/llama-8b` is a path."""

_GPU_LINES = (
    rule(
        "compute capability", r"Device (?P<index>\d{1,2}): (?P<gpu>[^,]{2,60}), compute capability"
    ),
    rule(
        "using device",
        r"using device (?:CUDA|ROCm|HIP|Vulkan|MTL|Metal)(?P<index>\d{0,2})"
        r" \((?P<gpu>[^()]{2,60})\)",
    ),
    rule(
        "MiB free)",
        r"- (?:CUDA|ROCm|HIP|Vulkan|MTL|SYCL)(?P<index>\d{1,2}) +: (?P<gpu>[^()]{2,60}) \(\d",
    ),
    rule(
        "memory_breakdown_print:",
        r"- (?:CUDA|ROCm|Vulkan|MTL|SYCL)(?P<index>\d{1,2}) \((?P<gpu>[^()]{2,60})\) *\|",
    ),
    rule("name=", r'name="(?P<gpu>(?:NVIDIA|AMD|Radeon|Tesla|GeForce)[^"]{2,60})"'),
    rule("description=", r'description="(?P<gpu>(?:NVIDIA|AMD|Radeon|Tesla|GeForce)[^"]{2,60})"'),
    rule(
        "GPU ",
        r"\bGPU (?P<index>\d{1,2})(?:-\d{1,2})?: (?P<gpu>(?:NVIDIA|AMD|Tesla|GeForce|Quadro)[\w"
        r" ./+-]{2,60}?)(?= \(|\s*$)",
    ),
    rule("device_name=", r"device_name=(?P<gpu>(?:NVIDIA|AMD)_[\w-]{2,60})"),
    rule("Num GPUs", r"(?P<gpu>NVIDIA [\w ./+-]{2,60})\. Num GPUs"),
)


def hub_id(text: str | None) -> str | None:
    """Return the Hub ID that `text` is, or that the Hub's cache spells as a folder; None for any
    other path."""
    if not text:
        return None
    cached = _CACHED.search(text[:1024])
    if cached:
        return f"{cached['owner']}/{cached['name']}"
    match = _HUB_ID.fullmatch(text[:256])
    return text if match and match["owner"].lower() not in _FOLDERS else None


def gpu_name(lines: list[Line]) -> str | None:
    """Return the accelerator, where anything in the log names it."""
    for named in _GPU_LINES:
        match = first(lines, named.key, named.pattern)
        if match:
            return match["gpu"].replace("_", " ").strip()
    return None


def device_count(lines: Iterable[Line]) -> int | None:
    """Return how many devices llama.cpp lists."""
    device = _GPU_LINES[0]
    seen = {
        match["index"]
        for line in lines
        if device.key in line.text and (match := device.pattern.search(line.text))
    }
    return len(seen) or None
