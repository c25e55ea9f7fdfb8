"""Coefficients as runs show them: weighted medians, and the interval that held nine runs of ten."""

from typing import Any, NamedTuple

from accuracy.truth import Run, source_weights

LOGS = (
    "posted vLLM start-up logs (tools/accuracy/serving.jsonl, fit part), by"
    " tools/accuracy/calibrate.py"
)

LEAST_SPREAD = 0.02
"""An interval is never narrower than this share of its coefficient: logs print two decimals."""


class Seen(NamedTuple):
    """A coefficient as one run shows it."""

    run: Run
    value: float


def quantile(seen: list[Seen], share: float) -> float:
    """Return the weighted quantile: the least value with at least `share` of the weight at or
    below it; halfway to the next where it is met."""
    ordered = sorted(seen, key=lambda one: one.value)
    weights = source_weights([one.run for one in ordered])
    total, below = sum(weights), 0.0
    for number, (one, weight) in enumerate(zip(ordered, weights, strict=True)):
        below += weight
        if abs(below - share * total) < 1e-9 and number + 1 < len(ordered):
            return (one.value + ordered[number + 1].value) / 2
        if below > share * total:
            return one.value
    return ordered[-1].value


def coefficient(seen: list[Seen], otherwise: dict[str, Any]) -> dict[str, Any]:
    """Median and 5 to 95 % quantiles of what runs show, `otherwise` where none does."""
    seen = unfenced(seen)
    if not seen:
        return otherwise
    middle = quantile(seen, 0.5)
    least = abs(middle) * LEAST_SPREAD
    low, high = min(quantile(seen, 0.05), middle - least), max(quantile(seen, 0.95), middle + least)
    if len({one.run.campaign for one in seen}) < 3:
        low, high = min(low, otherwise["low"]), max(high, otherwise["high"])
    return {
        "low": round(max(0.0, low), 4),
        "expected": round(middle, 4),
        "high": round(high, 4),
        "runs": len(seen),
        "source": LOGS,
    }


def unfenced(seen: list[Seen]) -> list[Seen]:
    """Return what lies within Tukey's outer fences, three quartile distances (at least 10 % of
    the median) around the quartiles."""
    if len(seen) < 4:
        return seen
    first, third = quantile(seen, 0.25), quantile(seen, 0.75)
    reach = max(3 * (third - first), 0.1 * abs(quantile(seen, 0.5)))
    return [one for one in seen if first - reach <= one.value <= third + reach]


def derived(low: float, expected: float, high: float, source: str) -> dict[str, Any]:
    """Return a coefficient that no log of the fit part tells."""
    return {"low": low, "expected": expected, "high": high, "runs": 0, "source": source}


NOTHING = derived(0, 0, 0, "nothing of the kind")


def interval(seen: list[Seen]) -> dict[str, Any]:
    """Median and 5 to 95 % quantiles of all that runs show."""
    low, middle, high = (round(quantile(seen, share), 4) for share in (0.05, 0.5, 0.95))
    return {"low": low, "expected": middle, "high": high, "runs": len(seen), "source": LOGS}


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """Return bytes as whole numbers."""
    return row | {name: round(row[name]) for name in ("low", "expected", "high")}
