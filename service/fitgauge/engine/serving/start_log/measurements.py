"""Measurements as a log prints them, and the rules that find them."""

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

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
    """One printed number. value: bytes, tokens, blocks or requests, as `name` says; resolution:
    half of the last digit printed, in the same unit. rank: the device or worker that printed it,
    empty for the engine as a whole. line: where it stands in the text."""

    name: str
    value: float
    resolution: float
    rank: str
    line: int


class StartLog(msgspec.Struct, frozen=True, kw_only=True):
    """What one log says.

    model: a Hub ID, None where the log names a path alone; called: how a file names its model,
    to tell its owner. gpu: as the log spells it. flags: under the names of the contract where it
    has them, else under the engine's own. remarks: facts that explain memory and are no flag
    (`draft_model`, `lora`, ...)."""

    engine: EngineName | None
    version: str | None = None
    model: str | None = None
    called: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    flags: dict[str, Flag] = {}
    remarks: tuple[str, ...] = ()
    readings: tuple[Measurement, ...] = ()
    outcome: Outcome | None = None


class Rule(NamedTuple):
    """A line to look for. key: a literal every match holds, sought first, so that a log costs
    one pass. Every group of `pattern` is the reading of its name in `unit`, or in the unit the
    group `<name>_unit` holds; the group `rank` says whose it is."""

    key: str
    pattern: re.Pattern[str]
    unit: str = "GiB"


def rule(key: str, pattern: str, unit: str = "GiB") -> Rule:
    """Return a Rule; in `pattern` NUM stands for a number and INT for a whole one with thousands
    separators."""
    return Rule(key, re.compile(pattern.replace("NUM", NUMBER).replace("INT", COUNT)), unit)


def no_rank(_: str) -> str:
    """For engines that are one process."""
    return ""


def find_readings(
    lines: Iterable[Line], rules: tuple[Rule, ...], rank_of: Callable[[str], str] = no_rank
) -> list[Measurement]:
    """Return every reading in the order of the text."""
    found = []
    for line in lines:
        for key, pattern, unit in rules:
            if key not in line.text:
                continue
            for match in pattern.finditer(line.text):
                groups = match.groupdict()
                rank = groups.get("rank") or rank_of(line.text)
                for name, printed in groups.items():
                    if printed and name != "rank" and not name.endswith("_unit"):
                        scale = _UNITS.get(groups.get(name + "_unit") or unit, 1)
                        found.append(_reading(name, printed, scale, rank, line.number))
    return found


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
            key in line.text and pattern.search(line.text)
            for line in lines[begin:end]
            for key, pattern, _ in rules
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
