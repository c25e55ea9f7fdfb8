"""What one phrase of a question says, and where it stands."""

import bisect
import re
from collections.abc import Sequence
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
