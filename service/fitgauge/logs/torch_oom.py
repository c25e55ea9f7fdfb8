"""PyTorch's out-of-memory message: the wording since 2.2 and the one before
(c10/cuda/CUDACachingAllocator.cpp)."""

from itertools import takewhile

from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import Measurement, find_readings, rule

_UNIT = r"(?P<{0}>NUM) (?P<{0}_unit>GiB|MiB|KiB|bytes)"

RULES = (
    rule("Tried to allocate", r"Tried to allocate " + _UNIT.format("requested")),
    rule(
        "total capac",
        r"GPU (?P<rank>\d{1,3}) has a total capaci?ty of "
        + _UNIT.format("total")
        + " of which "
        + _UNIT.format("free"),
    ),
    rule("process has", r"this process has " + _UNIT.format("in_use") + " memory in use"),
    rule("allocated by PyTorch", _UNIT.format("allocated") + " is allocated by PyTorch"),
    rule(
        "reserved by PyTorch but",
        _UNIT.format("reserved_unallocated") + " is reserved by PyTorch but unallocated",
    ),
    rule(
        "total capacity;", r"\(GPU (?P<rank>\d{1,3}); " + _UNIT.format("total") + " total capacity"
    ),
    rule("already allocated", _UNIT.format("allocated") + " already allocated"),
    rule("already allocated", r"already allocated; " + _UNIT.format("free") + " free"),
    rule("reserved in total", _UNIT.format("reserved") + " reserved in total by PyTorch"),
)


def read(lines: list[Line]) -> list[Measurement]:
    """Return the numbers of the first message: those that follow are what it broke."""
    for index, line in enumerate(lines):
        if "ut of memory. Tried to allocate" in line.text:
            wrapped = takewhile(
                lambda later: "Tried to allocate" not in later.text, lines[index + 1 : index + 3]
            )
            return find_readings(
                [Line(line.number, " ".join([line.text, *(part.text for part in wrapped)]))], RULES
            )
    return []
