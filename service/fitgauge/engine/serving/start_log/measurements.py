"""Measurements as a log prints them, and the rules that find them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal

import msgspec

from fitgauge.engine.quantity import GIB, KIB, MIB
from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.workload import EngineName

Outcome = Literal["served", "kv_too_small", "oom"]
Flag = str | int | float | bool

NUMBER = r"-?\d{1,12}(?:\.\d{1,6})?"
COUNT = r"\d[\d,]{0,15}"
_UNITS = {"GiB": GIB, "GB": GIB, "MiB": MIB, "MB": MIB, "KiB": KIB, "KB": KIB, "bytes": 1, "B": 1}
"""Every engine read here divides by powers of 1024, SGLang too where it writes GB."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One printed number."""

    name: str
    """What was measured."""
    value: float
    """Bytes, tokens, blocks or requests, as `name` says."""
    resolution: float
    """Half of the last digit printed, in the unit of `value`."""
    rank: str
    """The device or worker that printed it; empty for the engine as a whole."""
    line: int
    """Number of its line in the text."""


class StartLog(msgspec.Struct, frozen=True, kw_only=True):
    """What one log prints."""

    engine: EngineName | None
    """The engine that wrote it."""
    version: str | None = None
    """Its release."""
    model: str | None = None
    """A Hub ID; None where the log names a path alone."""
    called: str | None = None
    """How a file names its model, to tell its owner."""
    gpu: str | None = None
    """The GPU as the log spells it."""
    gpu_count: int | None = None
    """Number of GPUs."""
    flags: dict[str, Flag] = {}
    """Under the names of the contract where it has them, else under the engine's own."""
    remarks: tuple[str, ...] = ()
    """Facts that explain memory and are no flag (`draft_model`, `lora`, ...)."""
    readings: tuple[Measurement, ...] = ()
    """The numbers it prints."""
    outcome: Outcome | None = None
    """Whether the engine came up or ran out of memory; None: the log does not tell."""


class Rule:
    """A line to look for, whose pattern is compiled when a log first holds its key: most commands
    read no log, and there are some seventy of them."""

    def __init__(self, key: str, text: str, unit: str) -> None:
        self.key = key
        """A literal that every match holds, sought first, so that a log costs one pass."""
        self._text = text
        self.unit = unit
        """Unit of the readings, where no group `<name>_unit` holds it."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Every group is the reading of its name; the group `rank` names whose it is."""
        return re.compile(self._text)


def rule(key: str, pattern: str, unit: str = "GiB") -> Rule:
    """Return a Rule; in `pattern` NUM stands for a number and INT for a whole one with thousands
    separators."""
    return Rule(key, pattern.replace("NUM", NUMBER).replace("INT", COUNT), unit)


def no_rank(_: str) -> str:
    """For engines that are one process."""
    return ""


def find_readings(
    lines: Iterable[Line], rules: tuple[Rule, ...], rank_of: Callable[[str], str] = no_rank
) -> list[Measurement]:
    """Return every reading in the order of the text."""
    result = []
    for line in lines:
        for sought in rules:
            if sought.key not in line.text:
                continue
            for match in sought.pattern.finditer(line.text):
                groups = match.groupdict()
                rank = groups.get("rank") or rank_of(line.text)
                for name, printed in groups.items():
                    if printed and name != "rank" and not name.endswith("_unit"):
                        scale = _UNITS.get(groups.get(name + "_unit") or sought.unit, 1)
                        result.append(_reading(name, printed, scale, rank, line.number))
    return result


def _reading(name: str, printed: str, scale: int, rank: str, line: int) -> Measurement:
    plain = printed.replace(",", "")
    decimals = len(plain.partition(".")[2])
    half = 0.5 * 10**-decimals if decimals or scale > 1 else 0.0
    return Measurement(
        name=name, value=float(plain) * scale, resolution=half * scale, rank=rank, line=line
    )


def last_start(lines: list[Line], marker: str, rules: tuple[Rule, ...]) -> list[Line]:
    """Return the lines of the last start that got as far as a measurement: a process that is
    restarted prints `marker` every time."""
    begins = [index for index, line in enumerate(lines) if marker in line.text]
    if len(begins) < 2:
        return lines
    for begin, end in reversed(list(pairwise([*begins, len(lines)]))):
        if any(
            sought.key in line.text and sought.pattern.search(line.text)
            for line in lines[begin:end]
            for sought in rules
        ):
            return lines[begin:end]
    return lines


def has(lines: Iterable[Line], *needles: str) -> bool:
    """Return whether any line holds any of these literals."""
    return any(needle in line.text for line in lines for needle in needles)


def first(lines: Iterable[Line], key: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return the first match in a line that holds `key`."""
    return next(
        (match for line in lines if key in line.text and (match := pattern.search(line.text))), None
    )


def last_integers(
    lines: Iterable[Line], patterns: Mapping[str, tuple[str, re.Pattern[str]]]
) -> dict[str, Flag]:
    """Return the last number that each pattern matches, in a line that holds its literal."""
    result: dict[str, Flag] = {}
    for line in lines:
        for name, (key, pattern) in patterns.items():
            if key in line.text and (match := pattern.search(line.text)):
                result[name] = int(match[1])
    return result


def measured(readings: Iterable[Measurement], name: str) -> bool:
    """Return whether there is a reading of this name."""
    return any(reading.name == name for reading in readings)


OUT_OF_MEMORY = ("CUDA out of memory", "OutOfMemoryError", "HIP out of memory")
"""What PyTorch prints where an allocation fails."""


def outcome(
    lines: list[Line],
    *,
    oom: Sequence[str] = OUT_OF_MEMORY,
    kv_too_small: Sequence[str] = (),
    served: Sequence[str] = (),
    has_pool: bool = False,
) -> Outcome | None:
    """Return what became of a start, by the literals that tell. has_pool: the log has the size of
    what comes last, so that the engine came up."""
    if has(lines, *oom):
        return "oom"
    if has(lines, *kv_too_small):
        return "kv_too_small"
    return "served" if has_pool or has(lines, *served) else None
