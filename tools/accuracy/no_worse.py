"""Figures of accuracy against the committed ones: none may get worse."""

from collections.abc import Mapping

HIGHER_IS_BETTER = frozenset({"served", "failed", "balanced", "runs", "right"})

MARGIN = 0.05
"""Percentage points that rounding may move a figure."""

AIMED, AWAY = 91, 3
"""Middle of the coverage that is asked for (85 to 97), and percentage points it may move away
from it."""


def assert_no_worse(was: Mapping[str, float], now: Mapping[str, float], name: str) -> None:
    """Fails for the first figure of `now` that is worse than that of `was`."""
    for key, committed in was.items():
        change = f"{name} {key}: {committed} -> {now[key]}"
        if key == "coverage":
            assert abs(now[key] - AIMED) <= abs(committed - AIMED) + AWAY, change
        elif key in HIGHER_IS_BETTER:
            assert now[key] >= committed - MARGIN, change
        else:
            assert now[key] <= committed + MARGIN, change
