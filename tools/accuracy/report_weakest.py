"""The end of docs/ACCURACY.md: the figures that rest on least evidence."""

from math import isfinite

from accuracy.table import table
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.training import load_training
from fitgauge.services.truth_gaps import FIGURES, Figure, weakest

WEAKEST = """## The twenty figures that rest on least evidence

Coefficients of each engine's newest release and of training, those with fewest runs first, of these
the widest; none of them moves weights or the KV cache. `fitgauge truth gaps` lists them with the
classes of GPU that no run has shown, and `fitgauge measure MODEL --engine ENGINE` makes a row of
truth of a run of yours."""


def document() -> str:
    """Return the section."""
    rows = [
        (row.engine, row.release, row.name, row.runs, _spread(row), row.mend)
        for row in weakest(load_engines(), load_training())[:FIGURES]
    ]
    head = ("engine", "from", "figure", "runs", "interval", "what would measure it")
    return WEAKEST + "\n\n" + table(head, rows) + "\n"


def _spread(row: Figure) -> str:
    """Return half the interval in % of the value."""
    return f"± {100 * row.spread:.0f} %" if isfinite(row.spread) else "the value is 0"
