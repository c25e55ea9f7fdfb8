"""How much one JSON text may hold."""

from fitgauge.errors import MalformedModelError

MAX_VALUES = 100_000
"""values of one JSON text. Parsed, each takes up to some 250 bytes, a hundred times what it
takes as text."""


def refuse_too_many_values(body: bytes, name: str) -> None:
    """Raise MalformedModelError where a JSON text may hold more than MAX_VALUES values."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise MalformedModelError(f"{name} has more than {MAX_VALUES:,} values.")
