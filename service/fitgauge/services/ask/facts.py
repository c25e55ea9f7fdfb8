"""What one phrase of a question says, and where it stands."""

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
