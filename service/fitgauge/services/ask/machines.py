"""What a text says of the machine that GPUs are in and of where they are from: that it is a laptop,
how much of their memory others hold, its own memory, the cloud, whose they are."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from fitgauge.catalog.gpu_kinds import kinds_in
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.instances import CLOUD_NAMES
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.options import ALL_LAYERS
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.services.ask.names import GpuNames
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.vocabulary import rows

_LAPTOP = re.compile(
    r"\b(?:laptop|thinkpad|legion|zephyrus|mobile)\b|笔记本|ノート(?:pc|パソコン)|노트북",
    re.IGNORECASE,
)
_OUTSIDE = re.compile(r"\be-?gpu\b|\bdesktop\b|\bvs\.?\b|\bor\b", re.IGNORECASE)
"""Words by which a GPU may be none of the laptop."""

_SIZE = r"(?P<{0}>\d{{1,6}}(?:\.\d{{1,2}})?)\s?(?P<{0}_unit>[gm]i?b|g)\b"
_MEMORY = r"(?:\s+(?:of\s+)?(?:the\s+|my\s+)?(?:gpu\s+)?(?:vram|memory|ram))?\s+"
_HELD = re.compile(
    rf"{_SIZE.format('held')}{_MEMORY}(?:is\s+|are\s+)?(?:already\s+|currently\s+)?"
    r"(?:used|in use|taken|occupied)\b"
    rf"|\b(?:already|currently|desktop|display|windows|browser|comfyui|xorg)\s+(?:us\w+|tak\w+|occup\w+|hold\w*|eat\w*)\s+(?:up\s+)?(?:about\s+)?"
    rf"{_SIZE.format('taken')}",
    re.IGNORECASE,
)
_BY_OTHERS = re.compile(
    r"\bnvidia-smi\b|\brocm-smi\b|\balready\b|\bcurrently\b|\bstill\b|\bby (?:my|the|an?|another)\b"
    r"|\b(?:desktop|display|next to|alongside|in addition)\b",
    re.IGNORECASE,
)
"""Words by which what is in use is no need of the model that is asked about."""
_FREE = re.compile(
    rf"(?<!of which )(?<![\w.]){_SIZE.format('free')}{_MEMORY}"
    r"(?:is\s+|are\s+)?(?:left|free|remaining)\b",
    re.IGNORECASE,
)
_AT_START = re.compile(
    r"free memory on device\W{0,3}(?:cuda:\d\W{0,2})?\((?P<free>[\d.]+)/(?P<sold>[\d.]+) ?gib\)",
    re.IGNORECASE,
)
"""What vLLM prints where too little is free for its share."""
_TABLE = re.compile(r"(?P<used>\d{1,6})\s?MiB\s?[/,|]\s{0,8}(?P<sold>\d{4,6})\s?MiB")
"""A GPU's memory in the table of nvidia-smi, or in its CSV."""
_OF_WHAT_IS_LEFT = 0.97
"""Share of free memory that an engine is given: it starts only with as much free as its share."""
_USUAL_SHARE = 0.9
"""Share from which on the engine's own default starts too."""
_BY_ITSELF = re.compile(r"\boom\b|\bout[ -]of[ -]memory\b|OutOfMemory", re.IGNORECASE)
"""Words by which what is in use is the need of the model that is asked about."""
_SCALE = {"g": 1.0, "m": 1 / 1024}


def in_laptop(text: str, name: str, count: int | None, gpus: GpuNames) -> str:
    """Return the name of the one GPU of a text, as that of a laptop where the machine is one and
    there is such a GPU: they have less memory than those of the same number for desktops."""
    if (count or 1) > 1 or _LAPTOP.search(text) is None or _OUTSIDE.search(text) is not None:
        return name
    own, laptop = gpus.find(name), gpus.find(f"{name} laptop")
    return f"{name} laptop" if own and laptop and own.accelerator != laptop.accelerator else name


def held_by_others(
    text: str, match: GpuMatch | None, settings: Mapping[str, object], *, serves: bool
) -> dict[str, object]:
    """Return what others hold of each GPU, and the share that this leaves to an engine that takes
    one; nothing where a text says nothing of it. match: the GPU; settings: what else it says;
    serves: whether it is about serving."""
    held = _memory_of_others(text, match)
    if held is None:
        return {}
    engine = ENGINES.get(str(settings.get("engine") or DEFAULT_ENGINES[0]))
    is_file = str(settings.get("quantization", "")).startswith(("q", "Q", "iq"))
    if (
        not serves
        or match is None
        or is_file
        or engine is None
        or not engine.budget_is_device_share
    ):
        return {"other_memory_gib": held}
    left = 1 - held * GIB / match.accelerator.usable.expected
    share = math.floor(left * _OF_WHAT_IS_LEFT * 100) / 100
    fields: dict[str, object] = {"other_memory_gib": held}
    return fields | ({"gpu_memory_utilization": share} if 0 < share < _USUAL_SHARE else {})


def _memory_of_others(text: str, match: GpuMatch | None) -> float | None:
    """Return what others hold [GiB], said as what is in use or as what is free of a GPU; that
    of the fullest GPU in a table of nvidia-smi; None where nothing is said."""
    table = [int(row["used"]) for row in _TABLE.finditer(text)]
    if table and _BY_ITSELF.search(text) is None:
        return round(max(table) / 1024, 2) or None
    if (start := _AT_START.search(text)) is not None:
        return max(0.0, round(float(start["sold"]) - float(start["free"]), 2)) or None
    if (held := _HELD.search(text)) is not None and _BY_OTHERS.search(text) is not None:
        name = "held" if held["held"] else "taken"
        return _gib(held, name)
    if match is None or (free := _FREE.search(text)) is None:
        return None
    rest = match.accelerator.usable.expected / GIB - _gib(free, "free")
    return round(rest, 2) if rest > 0 else None


def _gib(match: re.Match[str], name: str) -> float:
    return float(match[name]) * _SCALE[match[f"{name}_unit"][0].lower()]


_OFFLOADED = re.compile(
    r"(?<!kv )(?<!cache )\boffload\w*\b[^.?]{0,24}\b(?:ram|cpu|(?:system|host|main) memory)\b"
    r"|\b(?:ram|cpu)[- ]offload\w*\b|\bspill\w*\b"
    r"|\bexperts\b[^.?]{0,12}\b(?:on|in|to)\b[^.?]{0,8}\b(?:cpu|ram)\b|卸载到?\s*(?:内存|cpu)",
    re.IGNORECASE,
)
_OFFLOADED_SIZE = re.compile(
    r"\bcpu[-_ ]offload[-_ ]gi?b[ =:]{1,3}(?P<flag>\d{1,3}(?:\.\d)?)\b"
    r"|\b(?:cpu[-_ ])?offload(?:ing)?[-_ ]?(?:gb|gib)?\W{0,3}(?:of |is )?"
    r"(?P<after>\d{1,3}(?:\.\d)?) ?(?:gi?b|g)\b(?! (?:of )?(?:\w+ )?(?:ram|memory)\b)"
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

_HOW_MUCH = re.compile(r"\bhow much (?:system |cpu |host |main )?ram\b|多少内存", re.IGNORECASE)
ENOUGH = 4096.0
"""Where the memory of the machine, or what stays on the GPU, is what is asked for [GiB]."""


def offloaded(text: str) -> dict[str, float]:
    """Return what of the weights a text keeps in host memory, as fields of a request."""
    fields: dict[str, float] = {}
    if (match := _OFFLOADED_SIZE.search(text)) is not None:
        fields["cpu_offload_gib"] = float(match[str(match.lastgroup)])
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
    if match is None and is_about(text, "no gpu"):
        return max(sizes, default=None), ""
    if match is None or match.accelerator.unified_memory:
        return None, ""
    if (lacking := _LACKING.search(text)) is not None:
        return float(lacking[1]), ""
    if sizes:
        return max(sizes), ""
    if _HOW_MUCH.search(text) or is_about(text, "layers"):
        return ENOUGH, "host_memory_gib: taken as enough, since how much is needed is asked."
    if _OFFLOADED.search(text):
        return _USUAL, f"host_memory_gib: taken as {_USUAL:g}; say how much the machine has."
    return None, ""


_ALSO_OTHERS = frozenset(
    {"google", "microsoft", "amazon", "oracle", "lambda", "huawei", "tencent", "alibaba"}
)
"""Names that publish models or mean something else: of a cloud only where the next word says so."""

_SPACED = {text: cloud for cloud, texts in rows("clouds") for text in texts.split("|")}
"""Names of several words or signs."""

_NOTEBOOK = re.compile(
    r"(?<![\w/.])(colab|kaggle)\b(?![./]\w)(?!(?:'s)?\s+(?:pro|paid|data\w*|competition))"
    r"(?:(?<=free kaggle)|(?!\s+notebook))",
    re.IGNORECASE,
)
_FREE_GPUS = {"colab": ("T4", 1), "kaggle": ("T4", 2)}
"""Source: mccormickml.com/2024/04/23/colab-gpus-features-and-pricing (March 2026: the T4 is free);
Kaggle's "GPU T4 x2", instead of one P100 (ContextLab/llmXive issue 367: T4 or P100)."""


def clouds_in(text: str, listed: Collection[str]) -> list[str]:
    """Return the clouds that a text names, of those that the catalog lists, in its order."""
    named = _pattern(frozenset(listed)).finditer(text.lower())
    names = (_SPACED.get(match[0]) or CLOUD_NAMES.get(match[0], match[0]) for match in named)
    return list(dict.fromkeys(name for name in names if name in listed))


@cache
def _pattern(listed: frozenset[str]) -> re.Pattern[str]:
    """Return what finds their names as words of their own, not as the owner of a repository."""
    words = {*listed, *CLOUD_NAMES} - _ALSO_OTHERS
    latin = [name for name in (*words, *_SPACED) if name.isascii()]
    others = [name for name in _SPACED if not name.isascii()]
    joined = "|".join(map(re.escape, sorted(latin, key=len, reverse=True)))
    return re.compile(rf"(?<![\w/.-])(?:{joined})(?![\w/-])|" + "|".join(others))


def free_gpu(text: str) -> tuple[str, int, str] | None:
    """Return the GPU that a free notebook has, how many and a sentence on it; None for none."""
    match = _NOTEBOOK.search(text)
    if match is None:
        return None
    name, count = _FREE_GPUS[match[1].lower()]
    return name, count, f"gpu: taken as {count} x {name}, which {match[1].title()} gives for free."


_SOLD = r"[ -]?(?:gpus?|cards?|graphics|accelerators?|karten?|grafikkarten?|显卡|カード)"
_PROCESSOR = r"[ -]?(?:ryzen|epyc|threadripper|cpus?|processors?)"
_WORDS = {
    "Apple": r"\b(?:i?macs?|macbooks?|apple silicon)\b(?! address)",
    "AMD": rf"\bamd(?!{_PROCESSOR})\b|\bradeon\b",
    "Intel": rf"\bintel(?: arc\b|{_SOLD})|\barc{_SOLD}",
    "NVIDIA": r"\b(?:nvidia|geforce)\b(?!['’/-]|\s*$| {2})",
    "Google": r"\btpus?\b",
}
"""By vendor, as the catalog names it; where the same word stands for processors, only with what
follows. Of a model's name, which is blanked, NVIDIA is the publisher."""

_VENDORS = {name: re.compile(words, re.IGNORECASE) for name, words in _WORDS.items()}

_AGAINST = re.compile(
    r"(?:\b(?:no|not|non|without|except|unlike|from|(?:other|rather) than|instead of"
    r"|ohne|kein\w*|sans|sin)(?: an?| my)?|不用|非) ?$",
    re.IGNORECASE,
)
"""What stands before a vendor or a kind of GPU that is not meant."""
_LOOKED_BACK = 24
"""Letters of a text before them that are read for it."""

_POWER = re.compile(
    r"\b(?:under|below|less than|at most|max(?:imum)?|up to|within|unter|höchstens|menos de"
    r"|moins de)\s+(\d{2,5}) ?w(?:atts?)?\b",
    re.IGNORECASE,
)
"""The most power that GPUs may draw [W]."""


def choice_in(text: str) -> dict[str, object]:
    """Return what a text says of the GPUs to choose from, by the fields of a recommendation."""
    power = _POWER.search(text)
    constraints: dict[str, object] = {
        "vendors": vendors_in(text),
        "kinds": kinds_in(text, _is_meant),
        "max_watts": int(power[1]) if power else None,
    }
    return {field: value for field, value in constraints.items() if value}


def vendors_in(text: str) -> list[str]:
    """Return the vendors that a text names, in the order of the table."""
    return [
        vendor for vendor, words in _VENDORS.items() if any(map(_is_meant, words.finditer(text)))
    ]


def _is_meant(match: re.Match[str]) -> bool:
    """Return whether nothing before a vendor or a kind rules it out."""
    before = match.string[max(0, match.start() - _LOOKED_BACK) : match.start()]
    return _AGAINST.search(before) is None


def unnamed_mac(text: str, gpus: Sequence[GpuMatch | None]) -> str | None:
    """Return that a Mac without its chip is left out where a text names other GPUs."""
    if "Apple" not in vendors_in(text) or any(
        match is None or match.accelerator.vendor == "Apple" for match in gpus
    ):
        return None
    return "gpu: the Mac is left out; name its chip and memory, such as M4 Max 64GB."
