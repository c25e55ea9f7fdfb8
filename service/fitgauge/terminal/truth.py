"""What was never measured, as a table."""

from collections.abc import Sequence

from rich.table import Table

from fitgauge.console import open_console
from fitgauge.services.truth_gaps import Figure, Gap

_NAMED = 3
"""GPUs of a class that are named."""


def show_gaps(gaps: Sequence[Gap], figures: Sequence[Figure]) -> None:
    """Print how often each engine was measured on each class of GPU, and the figures that rest on
    least, each with the run that would measure it."""
    console = open_console()
    table = Table("engine", "from", "class", "campaigns", "ever", "doubt", "GPUs", box=None)
    for gap in gaps:
        more = f" and {len(gap.gpus) - _NAMED} more" if len(gap.gpus) > _NAMED else ""
        table.add_row(
            gap.engine,
            gap.release,
            gap.gpu_class,
            f"{gap.measured}",
            f"{gap.measured_ever}",
            f"± {gap.doubt_share:.0%}",
            ", ".join(gap.gpus[:_NAMED]) + more,
        )
    console.print(table)
    console.print()
    weakest = Table("engine", "figure", "runs", "what would measure it", box=None)
    for figure in figures:
        weakest.add_row(figure.engine, figure.name, f"{figure.runs}", figure.mend)
    console.print(weakest)
    console.print("\nfitgauge measure MODEL --engine ENGINE --write truth.jsonl", highlight=False)
