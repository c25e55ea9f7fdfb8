"""What was guessed of a question, and whether another reading changes the verdict."""

from collections.abc import Callable, Iterator, Sequence

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib
from fitgauge.services.common.reading_schemas import Reading, Verdict

_SAME = 0.01
"""Share of the usable memory within which another reading is not estimated."""


def size_readings(sent: str, model: Model) -> Iterator[Reading]:
    """Yield how a size was read, unless its name was a guess too."""
    for note in model.spec.notes:
        if note.code == "model-is-a-size" and model.guessed_from is None:
            yield Reading(
                field="model", sent=sent, taken=note.message.partition(": assuming ")[2].rstrip(".")
            )


def gpu_readings(
    sent: str,
    match: GpuMatch,
    verdict: Verdict,
    least_bytes: int,
    judge: Callable[[Accelerator], Verdict | None],
) -> Iterator[Reading]:
    """Yield how an ambiguous GPU was read.

    least_bytes: what a GPU needs at the least where it does not fit.
    judge: the verdict on another accelerator, None where there is none. It is called for those
    that may change `verdict`: with less memory where it fits, with enough where it does not."""
    taken = match.accelerator
    if match.note is None or (taken.vendor == "custom" and not taken.derived_from):
        return
    estimated = {
        other.name: judge(other)
        for other in match.others
        if _may_differ(taken, other, verdict, least_bytes)
    }
    verdicts = {name: one for name, one in estimated.items() if one is not None}
    size = f" ({gib(taken.usable.expected)} usable)" if taken.vendor == "custom" else ""
    yield Reading(
        field="gpu",
        sent=sent,
        taken=f"{match.count} x {taken.name}{size}",
        others=[other.name for other in match.others],
        changes_verdict=any(one != verdict for one in verdicts.values()) if match.others else None,
        verdicts=verdicts,
    )


def other_verdicts(readings: Sequence[Reading], taken: Verdict) -> str:
    """Return the readings with another verdict than `taken` as sentences to end a summary with, or
    nothing."""
    return "".join(
        f" Read as {name}, it {_IN_WORDS[verdict]}."
        for reading in readings
        for name, verdict in reading.verdicts.items()
        if verdict != taken
    )


_IN_WORDS: dict[Verdict, str] = {
    "fits": "fits",
    "tight": "is tight",
    "does_not_fit": "does not fit",
    "unsupported": "is unsupported",
}


def _may_differ(taken: Accelerator, other: Accelerator, verdict: Verdict, least_bytes: int) -> bool:
    """Return whether the memory of another reading may change the verdict."""
    share = other.usable.expected / taken.usable.expected
    if verdict == "fits":
        return share < 1 - _SAME
    if verdict == "tight":
        return abs(share - 1) > _SAME
    enough = share > 1 + _SAME and other.usable.high >= least_bytes
    return verdict == "does_not_fit" and enough
