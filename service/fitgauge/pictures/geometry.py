"""Where everything stands in a stacked bar. `web/pictures.js` places the same for the page."""

from collections.abc import Sequence
from typing import NamedTuple

from fitgauge.engine.quantity import Bytes
from fitgauge.services.common.schemas import TermAnswer

COLOURS = 8


class Segment(NamedTuple):
    """One part of the bar."""

    name: str
    """Of the term."""
    size: int
    """Bytes of the term."""
    left: float
    """Where it begins, as a share of the bar's width."""
    width: float
    """Its width, as a share of the bar's."""
    colour: int
    """Number of its colour."""


class Marks(NamedTuple):
    """Places along the bar, as shares of its width."""

    capacity: float
    """What may be used."""
    low: float
    """Lower end of the interval of what is required."""
    expected: float
    """What is required."""
    high: float
    """Upper end of that interval."""


def segments(terms: Sequence[TermAnswer], required: Bytes, available: int) -> list[Segment]:
    """Return the parts of the bar from left to right."""
    whole = max(required.high, available, 1)
    left = 0.0
    parts: list[Segment] = []
    for term in terms:
        if term.bytes > 0:
            width = term.bytes / whole
            parts.append(Segment(term.name, term.bytes, left, width, len(parts) % COLOURS))
            left += width
    return parts


def marks(required: Bytes, available: int) -> Marks:
    """Return where the capacity line and the interval stand."""
    whole = max(required.high, available, 1)
    return Marks(
        available / whole, required.low / whole, required.expected / whole, required.high / whole
    )
