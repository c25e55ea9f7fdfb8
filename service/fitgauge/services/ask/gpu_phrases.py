"""Which GPUs a row of counts, sizes and names means."""

from collections.abc import Iterator
from typing import Any

import msgspec
from lark import Token as Terminal

from fitgauge.services.ask.facts import Fact


class Hardware(msgspec.Struct, frozen=True):
    """What one phrase says of GPUs."""

    name: str | None = None
    """Name of the GPU."""
    count: int | None = None
    """How many, or how many in each machine."""
    memory: float | None = None
    """Memory of one [GB]."""
    ram: float | None = None
    """Memory of the host [GB]."""
    named: bool = False
    """Whether words such as "GPU" or "VRAM" stand in the phrase."""
    mac: bool = False
    """Whether it is a Mac."""
    machines: int | None = None
    """Machines with `count` GPUs each."""


_MOST_IN_A_NODE = 16
"""A larger number after a count is no second count: "three 24 3090" have 24 GB."""


_MOST_GPUS = 100_000
"""A larger count is no count of GPUs."""


def gpu_facts(parts: list[Any]) -> Iterator[Fact]:
    """Yield the GPUs that a row of counts, sizes and names means: a second name, or a count before
    it, begins another."""
    groups: list[list[Any]] = [[]]
    current: set[str] = set()
    for place, part in enumerate(parts):
        kind = _kind(part)
        ahead = [_kind(one) for one in parts[place + 1 : place + 4]]
        is_next = kind == "GPU" or (kind in ("COUNT", "NUM", "MACHINES") and "GPU" in ahead)
        of_each = kind == "COUNT" and "memory" in current and ahead[:1] == ["memory"]
        is_other = kind == "memory" == _kind(groups[-1][-1] if groups[-1] else None) == part[0]
        if of_each or is_other or (is_next and "GPU" in current):
            groups.append([])
            current = set()
        groups[-1].append(part)
        current.add(kind)
    for group in groups:
        yield from _group(group)


def _group(parts: list[Any]) -> Iterator[Fact]:
    count = machines = memory = ram = name = None
    named = mac = False
    before = counted = ""
    for part in parts:
        if isinstance(part, tuple) and not isinstance(part, Terminal):
            kind, amount, _ = part
            if kind == "memory" and memory is None:
                memory = amount
            elif kind == "ram" and before == "GPUS" and memory is None:
                memory = amount  # "GPU 16GB RAM"
            elif kind == "ram":
                ram = amount
                count = None if before == "NUM" else count  # "Ryzen 5600 RAM: 16GB"
            before = "memory"
            continue
        token = part.value
        if part.type in ("COUNT", "NUM"):
            counted = part.type
            count = min(int(token.value) * (count or 1), _MOST_GPUS + 1)
        elif part.type == "MACHINES":
            if isinstance(token.value, int):
                machines = token.value
            elif before == "GPU" and counted == "NUM" and token.text.lower().endswith("s"):
                machines, count = count, None  # "2 H200 nodes" have all of their GPUs
        elif part.type == "GPU":
            name = str(token.value)
        elif part.type == "GPUS":
            named = True
            mac = mac or (token.text.lower() == "unified memory" and name is None)
        elif part.type == "MAC":
            mac = True
        before = part.type
    if count is not None and count > _MOST_GPUS:
        count = None
    tokens = [part[2] if _kind(part) == "memory" else part.value for part in parts]
    servers = any(part.type == "MACHINES" for part in parts if isinstance(part, Terminal))
    if servers and not (name or memory or ram or named or machines):
        return  # "two servers" have any number of GPUs
    if {count, memory, name, ram, machines} == {None}:
        return
    yield Fact(
        "hardware",
        Hardware(name, count, memory, ram, named, mac, machines),
        min(token.start for token in tokens),
        max(token.end for token in tokens),
        tokens[0].sentence,
    )


def _kind(part: Any) -> str:  # noqa: ANN401 - a terminal or a memory
    return part.type if isinstance(part, Terminal) else "memory"
