"""What one phrase of a question says, and where it stands; and which of it nothing used."""

import bisect
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple


class Fact(NamedTuple):
    """What one phrase says, and where it stands."""

    kind: str
    """What it is about."""
    value: Any
    """What it says."""
    start: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""
    sentence: int
    """Index of its sentence."""


_TURN = re.compile(r"^(?:me|user|you|human|q|bot|assistant|ai|chatgpt|a)\s?:", re.I | re.M)
"""Who speaks, at the start of a line."""


def of_last_turns(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts of a dialogue, of each kind of setting those of the last turn that has some
    and all of GPUs, which "two of them" counts; all of another text."""
    turns = [match.start() for match in _TURN.finditer(text)]
    if len(turns) < 2:
        return list(facts)
    last = {fact.kind: bisect.bisect(turns, fact.start) for fact in facts}
    return [
        fact
        for fact in facts
        if fact.kind in ("hardware", "number")
        or bisect.bisect(turns, fact.start) == last[fact.kind]
    ]


_SETTINGS = (
    *("length", "prompt", "output", "tokens", "users", "batch", "global_batch", "accumulation"),
    *("budget", "format", "zero", "rank", "utilization"),
)
"""Facts that look like settings: what is not used of them is named."""

_CLAUSE = re.compile(r"[,;?!。，、\n]")
_AROUND = 16
"""Characters around a number that was not understood."""

_MOST = 10


def leftovers(text: str, facts: Sequence[Fact], used: Collection[int]) -> list[str]:
    """Return numbers with a unit that look like settings and were not used. used: where the facts
    begin that were."""
    left = [fact for fact in facts if fact.kind in _SETTINGS and fact.start not in used]
    return list(dict.fromkeys(_around(text, fact) for fact in left))[:_MOST]


def _around(text: str, fact: Fact) -> str:
    """Return a number with the words around it, within its clause."""
    first, last = max(0, fact.start - _AROUND), fact.end + _AROUND
    before = _CLAUSE.split(text[first : fact.start])[-1]
    after = _CLAUSE.split(text[fact.end : last])[0]
    if first and text[first - 1].isalnum():
        before = before.partition(" ")[2]
    if text[last : last + 1].isalnum():
        after = after.rpartition(" ")[0]
    return f"{before}{text[fact.start : fact.end]}{after}".strip()
