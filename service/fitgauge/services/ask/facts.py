"""What one phrase of a question says, and where it stands; and which of it nothing used."""

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
