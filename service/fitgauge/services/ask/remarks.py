"""What a question says that no request has a field for, each with what to do about it."""

import math
import re

from fitgauge.services.ask.topics import DISTILLS, is_about
from fitgauge.services.ask.vocabulary import NUMBER_WORDS, rows

_COPIES = re.compile(
    r"\b(second|another|[2-9]|[1-9]\d{1,2}|"
    + "|".join(word for word, count in NUMBER_WORDS.items() if count > 1)
    + r")x? (?:instances?|replica|copy"
    r"|(?:[\w.-]+ ){0,3}(?:replicas|copies|[\w.-]*\d+(?:\.\d+)?b models))\b"
)
"""Several of one model: "3 copies", "two llama 3.1 8b models"."""

_OF_ITS_OWN = re.compile(
    r"\b(?:one|an?|1x?|two|2x?) [\w -]{2,24}\b(?:each|apiece|per (?:replica|copy|instance))\b"
    r"|\bits own (?:gpu|card)\b"
)
"""GPUs that each copy has for itself: "one L40S each"."""

_SHARE = 0.92
"""Of a GPU that all copies take together: vLLM's own of one."""

_WITHOUT_GPU = (
    "gpu: runs without one are not estimated. What a model needs on a GPU is about what it needs in"
    " the memory of the machine."
)
_REMARKS = [
    (re.compile(pattern.replace("{distills}", DISTILLS.pattern)), sentence)
    for pattern, sentence in rows("remarks")
]
"""The first is of draft models, the second of distillation."""


def share_of_each(text: str) -> tuple[float, str] | None:
    """Return the part of one GPU that each of several copies of a model has, and the words that
    say how many there are; None for one."""
    match = _COPIES.search(text.lower())
    if match is None or _OF_ITS_OWN.search(text.lower()):
        return None
    copies = int(match[1]) if match[1].isdigit() else NUMBER_WORDS.get(match[1], 2)
    return math.floor(_SHARE / copies * 100) / 100, match[0]


def remarks(text: str, *, alone: bool, drafted: bool, training: bool) -> list[str]:
    """Return a sentence for each, with the words of the question that it is about. alone: whether
    it is about a machine without a GPU, and the answer is not; drafted: whether it names a draft
    model, or a teacher; training: whether it is about training, of which few say anything."""
    rows = _REMARKS[1 : 1 + (not drafted)] if training else _REMARKS[drafted:]
    matches = ((pattern.search(text.lower()), sentence) for pattern, sentence in rows)
    notes = [f"{match[0]}: {sentence}" for match, sentence in matches if match]
    return [*notes, _WITHOUT_GPU] if alone and is_about(text, "no gpu") else notes
