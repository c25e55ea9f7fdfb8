"""The memory of the machine itself, where a question offers it for weights."""

import re
from collections.abc import Collection

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.serving.options import ALL_LAYERS

_OFFLOADED = re.compile(
    r"(?<!kv )(?<!cache )\boffload\w*\b[^.?]{0,24}\b(?:ram|cpu|(?:system|host|main) memory)\b"
    r"|\b(?:ram|cpu)[- ]offload\w*\b|\bspill\w*\b"
    r"|\bexperts\b[^.?]{0,12}\b(?:on|in|to)\b[^.?]{0,8}\b(?:cpu|ram)\b|卸载到?\s*(?:内存|cpu)",
    re.IGNORECASE,
)
_OFFLOADED_SIZE = re.compile(
    r"\b(?:cpu[-_ ])?offload(?:ing)?[-_ ]?(?:gb|gib)?\W{0,3}(?:of |is )?"
    r"(?P<after>\d{1,3}(?:\.\d)?) ?(?:gi?b|g)\b"
    r"|\b(?P<before>\d{1,3}(?:\.\d)?) ?(?:gi?b|g) (?:of )?(?:weights |cpu )?offload(?:ed|ing)?\b",
    re.IGNORECASE,
)
"""How much of the weights is kept in host memory: vLLM's --cpu-offload-gb in words."""
_LAYERS = re.compile(
    r"(?<![\w-])(?:-ngl|--n-gpu-layers|--gpu-layers|n_gpu_layers)[ =:]{0,3}(?P<layers>\d{1,3})\b"
    r"|\b(?P<said>\d{1,3}) layers (?:on|to|onto|in) (?:the |my )?(?:gpu|vram)\b"
    r"|(?<![\w-])(?:-ncmoe|--n-cpu-moe|n_cpu_moe)[ =:]{0,3}(?P<experts>\d{1,3})\b"
    r"|(?<![\w-])(?P<all_experts>-cmoe|--cpu-moe)(?![\w-])",
    re.IGNORECASE,
)
"""Which layers stay there: llama.cpp's flags, without the command around them."""
_LACKING = re.compile(
    r"more system memory \([^)]*\) than is available \(([\d.]+) gib\)", re.IGNORECASE
)
"""What Ollama prints where the machine has too little."""
_USUAL = 64.0
"""Of a desktop that a text says nothing of [GiB]."""

_HOW_MUCH = re.compile(
    r"\bhow much (?:system |cpu |host |main )?ram\b|\bhow many layers\b|多少(?:内存|层)",
    re.IGNORECASE,
)
ENOUGH = 4096.0
"""Where the memory of the machine, or what stays on the GPU, is what is asked for [GiB]."""


def offloaded(text: str) -> dict[str, float]:
    """Return what of the weights a text keeps in host memory, as fields of a request."""
    fields: dict[str, float] = {}
    if (match := _OFFLOADED_SIZE.search(text)) is not None:
        fields["cpu_offload_gib"] = float(match["after"] or match["before"])
    for match in _LAYERS.finditer(text):
        if (on_gpus := match["layers"] or match["said"]) is not None:
            fields["n_gpu_layers"] = int(on_gpus)
        else:
            fields["n_cpu_moe"] = int(match["experts"] or ALL_LAYERS)
    return fields


def without_offloaded(text: str) -> str:
    """Return a text with blanks for those numbers, which are no GPU's."""
    for pattern in (_OFFLOADED_SIZE, _LAYERS):
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return text


def host_memory(
    text: str, match: GpuMatch | None, sizes: Collection[float]
) -> tuple[float | None, str]:
    """Return the memory of the machine [GiB], and what to say of it; None where the text offers
    none, or the GPU has no other memory than the machine's. sizes: those that it names [GiB]."""
    if match is None or match.accelerator.unified_memory:
        return None, ""
    if (lacking := _LACKING.search(text)) is not None:
        return float(lacking[1]), ""
    if sizes:
        return max(sizes), ""
    if _HOW_MUCH.search(text):
        return ENOUGH, "host_memory_gib: taken as enough, since how much is needed is asked."
    if _OFFLOADED.search(text):
        return _USUAL, f"host_memory_gib: taken as {_USUAL:g}; say how much the machine has."
    return None, ""
