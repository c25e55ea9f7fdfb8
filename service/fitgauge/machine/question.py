"""This machine's GPUs as a question has them: names of the catalog, and the memory in use."""

from collections import Counter

import msgspec

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import FitgaugeError
from fitgauge.machine.drivers import Machine, MachineGpu

_SAME = 0.1
"""Share of a GPU's memory by which a driver and the catalog may differ: ECC, reserved memory. The
variants of a GPU differ by more."""

_DIVIDES = next(name for name, engine in ENGINES.items() if engine.line_up is not None)


class MachineQuestion(msgspec.Struct, frozen=True):
    """What to ask of a machine's GPUs."""

    gpu: str
    """The GPUs as `gpu` names them, without a count where they are of one kind."""
    gpu_count: int
    """How many."""
    engine: EngineName | None
    """The engine that divides a model over GPUs of several kinds; None for GPUs of one kind."""
    other_memory_gib: float | None
    """GiB in use on the fullest of them; None where no tool says."""
    description: str
    """The same as a person reads it: "2 x RTX 4090, 3.1 GiB in use"."""


def machine_question(machine: Machine, catalog: Catalog, *, mixed: bool) -> MachineQuestion:
    """Return the question about the GPUs of a machine. mixed: whether it may be about several
    kinds; else it is about the kind with the most memory."""
    read = [(gpu, _row(gpu, catalog)) for gpu in machine.gpus]
    largest = _size(max(machine.gpus, key=lambda gpu: gpu.memory_bytes))
    rows = [pair for pair in read if pair[1]] or [
        pair for pair in read if _size(pair[0]) == largest
    ]
    notes = [
        f"{gpu.name} is not in the catalog: "
        + (f"read as a GPU of {largest}" if (gpu, row) in rows else "left out")
        for gpu, row in read
        if row is None
    ]
    memory: Counter[str] = Counter()
    for gpu, row in rows:
        memory[_name(gpu, row)] += gpu.memory_bytes
    if len(memory) > 1 and not mixed:
        ((most, _),) = memory.most_common(1)
        notes += [f"{name} is left out: one kind of GPU trains" for name in memory if name != most]
        rows = [(gpu, row) for gpu, row in rows if _name(gpu, row) == most]
    kinds = Counter(_name(gpu, row) for gpu, row in rows)
    words = " + ".join(f"{count} x {name}" if count > 1 else name for name, count in kinds.items())
    used = max((gpu.used_bytes for gpu, _ in rows if gpu.used_bytes is not None), default=None)
    others = [_others(gpu, row) for gpu, row in rows if gpu.used_bytes is not None]
    in_use = "" if used is None else f", {_most(used, len(rows))}{used / GIB:.1f} GiB in use"
    return MachineQuestion(
        gpu=words if len(kinds) > 1 else next(iter(kinds)),
        gpu_count=len(rows),
        engine=_DIVIDES if len(kinds) > 1 else None,
        other_memory_gib=round(max(others) / GIB, 2) if others else None,
        description=". ".join((words + in_use, *dict.fromkeys(notes))),
    )


def _name(gpu: MachineGpu, row: Accelerator | None) -> str:
    """Return what a question calls a GPU."""
    return row.name if row else _size(gpu)


def _most(used: int, count: int) -> str:
    """Return what says that the figure is of the fullest GPU."""
    return "up to " if count > 1 and used else ""


def _row(gpu: MachineGpu, catalog: Catalog) -> Accelerator | None:
    """Return the catalog's row of a GPU: that of its name with the nearest memory; None where the
    name is unknown or all of that name have other memory."""
    rows: list[Accelerator] = []
    for text in (gpu.name, f"{gpu.name} {_size(gpu)}"):
        try:
            match = catalog.find(text)
        except FitgaugeError:
            continue
        rows += [row for row in (match.accelerator, *match.others) if row.vendor != "custom"]
    near = min(rows, key=lambda row: _difference(gpu, row), default=None)
    return near if near and _difference(gpu, near) <= _SAME else None


def _difference(gpu: MachineGpu, row: Accelerator) -> float:
    """Return how far the memory of a GPU is from that of a row, as a share."""
    sizes = [row.marketed_bytes, row.total_bytes or row.usable.expected]
    if gpu.unified:
        sizes.append(_bytes_sold(row))
    return min(abs(gpu.memory_bytes / size - 1) for size in sizes)


def _bytes_sold(row: Accelerator) -> int:
    """Return the memory on the box in binary units [bytes], as memory modules are."""
    return round(row.marketed_bytes / 10**9) * GIB


def _size(gpu: MachineGpu) -> str:
    """Return a GPU's memory as it is sold: "24GB"."""
    return f"{max(1, round(gpu.memory_bytes / GIB))}GB"


def _others(gpu: MachineGpu, row: Accelerator | None) -> int:
    """Return the bytes in use that a process lacks: of unified memory, those beyond what it never
    gets."""
    withheld = gpu.memory_bytes - row.usable.expected if gpu.unified and row else 0
    return max(0, (gpu.used_bytes or 0) - max(0, withheld))
