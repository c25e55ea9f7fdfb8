"""Which GPUs a row of counts, sizes and names means, and how many of them a text says there are
otherwise."""

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from lark import Token as Terminal

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.scan import Token
from fitgauge.services.ask.vocabulary import NUMBER_WORDS


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


class _Group:
    """The parts of a phrase about one GPU, read one by one."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._before = self._counted = ""

    def add_memory(self, kind: str, amount: float) -> None:
        """Read memory, which is that of the machine but behind "GPU": "GPU 16GB RAM"."""
        is_ram = kind == "ram" and (self._before != "GPUS" or "memory" in self._fields)
        if is_ram:
            self._fields["ram"] = amount
            if self._before == "NUM":
                self._fields.pop("count", None)  # "Ryzen 5600 RAM: 16GB"
        elif kind in ("memory", "ram"):
            self._fields.setdefault("memory", amount)
        self._before = "memory"

    def add(self, kind: str, token: Token) -> None:
        """Read a count, a name or a word of GPUs."""
        fields, value = self._fields, token.value
        if kind in ("COUNT", "NUM"):
            self._counted = kind
            number = int(value) * fields.get("count", 1)  # type: ignore[call-overload]
            fields["count"] = min(number, _MOST_GPUS + 1)
        elif kind == "MACHINES" and isinstance(value, int):
            fields["machines"] = value
        elif kind == "MACHINES" and (self._before, self._counted) == ("GPU", "NUM"):
            if token.text.lower().endswith("s") and "count" in fields:
                fields["machines"] = fields.pop("count")  # "2 H200 nodes" have all of their GPUs
        elif kind == "GPU":
            fields["name"] = str(value)
        elif kind in ("GPUS", "MAC"):
            is_mac = token.text.lower() == "unified memory" and "name" not in fields
            fields["mac"] = fields.get("mac", False) or kind == "MAC" or is_mac
            fields["named"] = fields.get("named", False) or kind == "GPUS"
        self._before = kind

    def hardware(self, *, servers: bool) -> Hardware | None:
        """Return what they say; None for nothing. servers: whether machines are named, which have
        any number of GPUs where only they are counted."""
        if self._fields.get("count", 0) > _MOST_GPUS:
            del self._fields["count"]
        one = Hardware(**self._fields)
        is_one = {one.memory, one.name, one.ram, one.machines} != {None}
        return one if is_one or (one.count is not None and (one.named or not servers)) else None


def _group(parts: list[Any]) -> Iterator[Fact]:
    group = _Group()
    for part in parts:
        if _kind(part) == "memory":
            group.add_memory(*part[:2])
        else:
            group.add(part.type, part.value)
    servers = any(_kind(part) == "MACHINES" for part in parts)
    if (one := group.hardware(servers=servers)) is None:
        return
    tokens = [part[2] if _kind(part) == "memory" else part.value for part in parts]
    start, end = min(token.start for token in tokens), max(token.end for token in tokens)
    yield Fact("hardware", one, start, end, tokens[0].sentence)


def _kind(part: Any) -> str:  # noqa: ANN401 - a terminal or a memory
    return part.type if isinstance(part, Terminal) else "memory"


_COUNT = rf"(?P<count>an?|\d{{1,3}}|{'|'.join(NUMBER_WORDS)})"
_ADDED = re.compile(
    r"\b(?:add|buy|get|put|plug|use|with|adding|buying|getting)\s+(?:in\s+)?(?:a\s+|an\s+|one\s+)?"
    r"(?:(?P<two>second|2nd|another|more|extra)|(?P<three>third|3rd)|(?P<four>fourth|4th))\b"
    r"|\b(?:an?|ein(?:en?)?|une?|uma?) (?P<named>second|2nd)\b"
    r"|(?P<also>再(?:加|买|插|上)\s*(?:一|1)?\s*[张块片])",
    re.IGNORECASE,
)
"""Something that comes to what is there."""
_ANOTHER_GPU = re.compile(
    r"\W*(?:$|[.,;?!，。？！]|(?:one|gpus?|cards?|graphics|geforce|nvidia|amd)\b"
    r"|of (?:them|those|these)\b)",
    re.IGNORECASE,
)
"""What follows it where it is a GPU and not "more context"; else a GPU's name does."""
_COUNTS = re.compile(
    r"\b([1-9])\s?x?\s*(?:or|vs\.?|versus|oder|ou|或者?|还是)\s*([2-9])\s?(?:x\b|(?=(?:x\s)?[a-z]+\d))"
    rf"|\b(\d{{1,2}}|{'|'.join(NUMBER_WORDS)})\s?x?\s(?:\w+\s){{0,2}}?[a-z]{{0,3}}\d{{2,4}}(?:s|\s?ti)?"
    rf"\s+(?:or|vs\.?|versus|instead of)\s+(?:\w+\s){{0,3}}?(\d{{1,2}}|{'|'.join(NUMBER_WORDS)})"
    r"(?=\s*(?:$|[?!.,;]|of (?:them|those)|cards|gpus))",
    re.IGNORECASE,
)
"""Two numbers of one GPU: "1x or 2x H100", "4 H100 instead of 8", "one 4090 or do I need two"."""
_MACHINES = r"(?:nodes|machines|servers|workers|hosts|boxes|pcs|instances)"
_IN_EACH = re.compile(
    rf"{_COUNT}\s+(?:\w+\s+)?{_MACHINES}\b[\s,;(]*"
    r"(?:(?:each|every one)\s+(?:of them\s+)?(?:with|has|having|of|contain\w*)"
    r"|(?:with|of|having|has)\s+each)\b",
    re.IGNORECASE,
)
"""Machines of which each has the GPUs that follow."""
_NODES_OF = re.compile(
    rf"\b{_COUNT}\s+(?:single\s+|full\s+)?nodes?\s+(?:of|with)\s+"
    r"(?!\d)"
    r"|\b(?:an?|one|single)\s+(?:full\s+|whole\s+|nvidia\s+|amd\s+)?[a-z]{1,2}\d{2,3}\w?\s+node\b",
    re.IGNORECASE,
)
"""Whole nodes of a GPU that is named without a number: "a node of H100", "an H100 node"."""
_PER_NODE = re.compile(
    rf"\b{_COUNT}\s+(?:gpus?\s+|cards?\s+)?"
    r"(?:per|in each|in every|a)\s+(?:node|machine|server|host|box)\b",
    re.IGNORECASE,
)
_NODES = re.compile(rf"\b{_COUNT}\s+(?:\w+\s+)?{_MACHINES}\b", re.IGNORECASE)
_LISTED = re.compile(
    r"\b(?:GPU|Device)\s+(\d{1,2}):\s|\|\s*(\d{1,2})\s+(?:NVIDIA|Tesla|Quadro|GeForce|AMD)\b",
    re.IGNORECASE,
)
"""A GPU in the list that a driver or an engine prints, with its index."""
_ONE_OF = re.compile(
    r"\b(?:use|using|used|on)\s+(?:only\s+|just\s+)?one of (?:them|these|those)\b|\bone each\b"
    r"|(?:使用|用|只用).{0,2}其中(?:一|1)[张块片]",
    re.IGNORECASE,
)

_OF_EACH = re.compile(rf"\b{_COUNT} (?:of|x) (?:them|those|these|each|either)\b", re.IGNORECASE)
"""How many there are of each GPU that the text sets side by side."""


_OR = r"\s*(?:/|,?\s(?:or|vs\.?|versus|oder|ou)\s|或者?|还是|と|か)\s*"
SIZES_ON_A_PAR = re.compile(
    rf"\b(\d{{1,3}})\s?(?:gi?b?)?{_OR}(?:the\s)?(\d{{1,3}})\s?(?:gi?b?)?(?![\w.]|\s?[k%])",
    re.IGNORECASE,
)
"""Two sizes of one GPU: "A100 40 or 80"."""


def counts_side_by_side(text: str) -> tuple[str, ...]:
    """Return two numbers of one GPU that a text sets side by side; empty for none."""
    match = _COUNTS.search(text)
    numbers = filter(None, match.groups()) if match is not None else ()
    return tuple(str(_number(number)) for number in numbers)


def count_of_each(text: str) -> int | None:
    """Return how many GPUs of each kind a text says there are, apart from their names."""
    match = _OF_EACH.search(text)
    return _number(match["count"]) if match is not None else None


def whole_nodes(text: str) -> int | None:
    """Return the number of whole nodes of a GPU that a text names without a number of GPUs."""
    match = _NODES_OF.search(text)
    return _number(match["count"] or "a") if match is not None else None


def _in_nodes(text: str) -> int | None:
    """Return the GPUs of all machines, of which a text says how many there are in each."""
    each, machines = _PER_NODE.search(text), _NODES.search(text)
    return _number(each["count"]) * _number(machines["count"]) if each and machines else None


def count_in_all(text: str, count: int | None) -> int | None:
    """Return how many GPUs there are, where the text says so otherwise than by a number of GPUs:
    in each of several machines, in a list with indices, or one of those it counts.

    count: what the text counts."""
    if _ONE_OF.search(text):
        return 1
    if (some := count_of_each(text)) is not None and some > 1:
        return some
    if (in_nodes := _in_nodes(text)) is not None:
        return in_nodes
    if (match := _IN_EACH.search(text)) is not None:
        return (count or 1) * _number(match["count"])
    listed = {int(match[1] or match[2]) for match in _LISTED.finditer(text)}
    return max(listed) + 1 if count is None and 0 in listed else count


def count_with_added(text: str, starts: Collection[int]) -> int | None:
    """Return how many GPUs there are with one that is added; None where none is.

    starts: where hardware is named."""
    for match in _ADDED.finditer(text):
        named = any(match.end() < start <= match.end() + 2 for start in starts)
        bare = match["named"] is None
        if match["also"] or named or (bare and _ANOTHER_GPU.match(text, match.end())):
            return {"three": 3, "four": 4}.get(str(match.lastgroup), 2)
    return None


def _number(written: str) -> int:
    """Return a number that is written in digits or as a word; 1 for "a"."""
    return int(written) if written.isdigit() else NUMBER_WORDS.get(written.lower(), 1)
