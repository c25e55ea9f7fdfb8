"""What to say of the GPUs that a text names and that its answer is not of."""

import re
from collections.abc import Collection, Iterator, Sequence

from fitgauge.engine.quantity import GB
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.model_choice import is_left
from fitgauge.services.ask.names import GpuNames

CAPACITY = re.compile(
    r"\btotal capac?ity of (\d{1,3}(?:\.\d{1,2})?) GiB"
    r"|\b(\d{1,3}(?:\.\d{1,2})?) GiB total capac?ity"
)
"""What PyTorch prints of the GPU where memory ran out."""

_LIKE_A_GPU = re.compile(
    r"\b(?:geforce |nvidia |amd |intel )?(?:rtx|gtx|gt|rx|quadro|tesla|radeon|arc)"
    r" ?[a-z]?\d{3,4}[a-z]?(?: ?(?:ti|super|xt))?\b"
    r"|\b[a-z]{1,2}\d{3,4}\b(?=\W{1,2}\d{1,3} ?gi?b\b)",
    re.IGNORECASE,
)
"""What is written like the name of a GPU: with a brand, or before its memory."""
_MEMORY_ALONE = re.compile(r"\d+GB")
_ITS_MEMORY = re.compile(r"\W{1,2}(\d{1,3}) ?gi?b\b", re.IGNORECASE)
"""Behind such a name."""

_ROUNDED = 0.06
"""How far memory may be from what a GPU is sold with: "12G" of 11."""

BEFORE = 40
"""Characters before a fact that say what it is."""


def unknown_gpu(text: str, gpu: str | None) -> tuple[str | None, str]:
    """Return the memory that PyTorch prints of a GPU, else that of what is written like the name of
    one, else that name, where a text names none that is known; and what to say of it.

    gpu: what it names, which may be a memory alone."""
    if gpu is not None and not _MEMORY_ALONE.fullmatch(gpu):
        return gpu, ""
    if gpu is None and (capacity := CAPACITY.search(text)):
        return f"{capacity[1] or capacity[2]}GiB", ""
    if (match := _LIKE_A_GPU.search(text)) is None:
        return gpu, ""
    if (memory := _ITS_MEMORY.match(text, match.end())) is None:
        return gpu or match[0], ""
    size = f"{memory[1]}GB"
    return size, f"gpu: {match[0]} is not in the catalog; the answer is of any GPU of {size}."


def other_memory(facts: Sequence[Fact], gpus: GpuNames) -> Iterator[str]:
    """Yield what to say of each GPU that is named with memory that no such one was sold with."""
    for one in (fact.value for fact in facts):
        match = gpus.find(one.name) if one.name and one.memory else None
        if match is None or match.accelerator.unified_memory or match.count > 1:
            continue
        sold = round(match.accelerator.marketed_bytes / GB)
        if abs(one.memory / sold - 1) < _ROUNDED or gpus.find(f"{one.name} {one.memory:g}GB"):
            continue
        yield (
            f"gpu: {match.accelerator.name} has {sold} GB: for a card of {one.memory:g} GB send"
            f" {one.memory:g}GB."
        )


_EDITION = re.compile(r"[ -]?(?:super|ti|xtx?|gre|max|pro|ultra)\b(?! \d)", re.IGNORECASE)
"""What an edition of a GPU is called."""


def other_editions(text: str, facts: Sequence[Fact], gpus: GpuNames) -> Iterator[str]:
    """Yield what to say of each GPU that is named in an edition that the catalog has not."""
    for fact in facts:
        name = fact.value.name
        after = _EDITION.match(text, fact.end)
        if name and after and (match := gpus.find(name)) and not gpus.find(name + after[0]):
            yield (
                f"gpu: {name}{after[0]} is not in the catalog; the answer is of"
                f" {match.accelerator.name}."
            )


def gpus_not_among(
    text: str, facts: Sequence[Fact], names: Collection[str], gpus: GpuNames
) -> Iterator[Fact]:
    """Yield the GPUs that a text asks about and that are none of some names."""
    taken = {match.accelerator.id for match in map(gpus.find, names) if match}
    for fact in facts:
        name = fact.value.name
        match = gpus.find(name) if name else None
        is_taken = (
            match is None
            or match.accelerator.id in taken
            or any(name.lower() in one.lower() for one in names)
        )
        if not (is_taken or is_left(text, fact)):
            yield fact
