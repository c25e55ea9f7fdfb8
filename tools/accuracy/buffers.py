"""Buffers that engines of single machines printed (buffers.jsonl), beside the terms of an
estimate: a part of docs/ACCURACY.md."""

from collections.abc import Iterator
from functools import cache
from statistics import mean, median
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from accuracy.table import table
from accuracy.truth import HERE, Run, check
from fitgauge.engine.quantity import MIB

TermName = Literal["weights", "kv_cache", "state_cache", "activations", "projector", "total"]

PREFACE = """## Buffers as llama.cpp, Ollama and MLX print them

{starts} published starts of {sources} sources (`tools/accuracy/buffers.jsonl`), each asked with
the settings that its source shows; of several GPUs, the one that the row names. A start is
*changed for* where a cause was mended by it, else *kept aside*, all of a source alike. *Within*
allows half a per cent of rounding. Far off are Ollama's own engine before 0.30, which held other
buffers, and Ollama's choice of larger micro-batches where memory is left.
"""


class Printed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one start printed."""

    question: dict[str, Any]
    """Fields of POST /v1/fit."""
    stage: int = 0
    """Which GPU, where several hold layers of their own."""
    mib: dict[TermName, float]
    """Terms as printed [MiB]; `total`: all of them."""
    part: Literal["changed for", "kept aside"]
    """Whether code was changed for it."""
    source: str
    """Where it is published."""


class Compared(NamedTuple):
    """One printed term and its estimate."""

    start: Printed
    term: TermName
    estimate: tuple[float, float, float]
    """Expected, low and high, as printed."""

    @property
    def error(self) -> float:
        """Estimated over printed, less one."""
        return self.estimate[0] / self.start.mib[self.term] - 1

    @property
    def is_within(self) -> bool:
        """Whether what was printed lies in the interval."""
        _, low, high = self.estimate
        return low * 0.995 <= self.start.mib[self.term] <= high * 1.005


@cache
def starts() -> tuple[Printed, ...]:
    """Return the published starts; missing fields and wrong types are refused."""
    decoder = msgspec.json.Decoder(Printed)
    return tuple(map(decoder.decode, (HERE / "buffers.jsonl").read_bytes().splitlines()))


@cache
def compared() -> tuple[Compared, ...]:
    """Return every printed term beside its estimate. Raises LookupError for a model that is not
    bundled."""
    return tuple(one for start in starts() for one in _compared(start))


def _compared(start: Printed) -> Iterator[Compared]:
    run = Run(
        id="", question=start.question, outcome=None, measured={}, scores=[], source=start.source
    )
    checked = check(run)
    if checked is None:
        raise LookupError(start.question["model"])
    stage = checked.estimate.stages[start.stage]
    terms = (*stage.fixed, *stage.cache)
    for name in start.mib:
        chosen = [term for term in terms if name in (term.name, "total")]
        low, expected, high = (
            sum(getattr(term, end) for term in chosen) / MIB for end in ("low", "bytes", "high")
        )
        yield Compared(start, name, (expected, low, high))


def document() -> str:
    """Return the section."""
    everything = compared()
    preface = PREFACE.format(
        starts=len(starts()), sources=len({start.source for start in starts()})
    )
    groups = [
        (engine, part, term)
        for engine in dict.fromkeys(start.question["engine"] for start in starts())
        for part in ("changed for", "kept aside")
        for term in get_args(TermName)
    ]
    rows: list[tuple[object, ...]] = []
    for engine, part, term in groups:
        members = [
            one
            for one in everything
            if (one.start.question["engine"], one.start.part, one.term) == (engine, part, term)
        ]
        if members:
            errors = [100 * abs(one.error) for one in members]
            rows.append(
                (
                    engine,
                    part,
                    term,
                    len(members),
                    round(median(errors), 1),
                    round(max(errors), 1),
                    round(100 * mean(one.is_within for one in members)),
                )
            )
    head = ("engine", "part", "term", "number", "median error, %", "most", "within, %")
    return f"{preface}\n{table(head, rows)}\n"
