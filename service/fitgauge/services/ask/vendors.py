"""Whose GPUs a question is about that names none: "which Mac", "an AMD card", "ein Arc"."""

import re
from collections.abc import Sequence

from fitgauge.catalog.gpu_match import GpuMatch

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
"""What stands before a vendor that is not meant."""


def vendors_in(text: str) -> list[str]:
    """Return the vendors that a text names, in the order of the table."""
    return [
        vendor
        for vendor, words in _VENDORS.items()
        if any(not _AGAINST.search(text[: match.start()]) for match in words.finditer(text))
    ]


def unnamed_mac(text: str, gpus: Sequence[GpuMatch | None]) -> str | None:
    """Return that a Mac without its chip is left out where a text names other GPUs."""
    if "Apple" not in vendors_in(text) or any(
        match is None or match.accelerator.vendor == "Apple" for match in gpus
    ):
        return None
    return "gpu: the Mac is left out; name its chip and memory, such as M4 Max 64GB."
