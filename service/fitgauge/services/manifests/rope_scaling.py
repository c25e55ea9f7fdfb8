"""The scaling of rotary positions that a command asks for."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fitgauge.engine.serving.container import PositionFlags

_LONGEST = 4096
"""Characters of a flag's value that are read."""


class Scaling(NamedTuple):
    """What flags say of positions."""

    factor: float
    """By how much they are stretched."""
    positions: int | None
    """The `max_position_embeddings` that goes with it; None where it is left as it is."""


def scaling_of(facts: PositionFlags, flag: str, value: str | None) -> Scaling | None:
    """Return what a flag says of positions, None for nothing. flag: as the parser reads it."""
    if value is None or len(value) > _LONGEST:
        return None
    if flag == facts.factor:
        return _scaling(str(value), None)
    if flag not in facts.overrides:
        return None
    try:
        config = msgspec.json.decode(value.encode())
    except (msgspec.DecodeError, RecursionError):
        return None
    inner = config.get("text_config", config) if isinstance(config, dict) else None
    if not isinstance(inner, dict):
        return None
    rope = inner.get("rope_parameters", inner.get("rope_scaling", inner))
    positions = inner.get("max_position_embeddings")
    if not isinstance(rope, dict) or "factor" not in rope:
        return None
    return _scaling(rope["factor"], positions if isinstance(positions, int) else None)


def _scaling(factor: object, positions: int | None) -> Scaling | None:
    try:
        return Scaling(msgspec.convert(factor, float, strict=False), positions)
    except msgspec.ValidationError:
        return None


def lengthens(
    facts: PositionFlags, scaling: Scaling, version: tuple[int, ...], environment: Mapping[str, str]
) -> bool:
    """Return whether the engine takes a longer context for it."""
    return (
        facts.by_positions_alone is None
        or version < facts.by_positions_alone
        or scaling.positions is not None
        or environment.get(facts.any_length or "", "").lower() in ("1", "true")
    )
