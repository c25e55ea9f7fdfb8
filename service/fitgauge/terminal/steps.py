"""A training step that was measured here, against its estimate."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fitgauge.console import open_console
from fitgauge.measure.training import MeasuredTerm
from fitgauge.terminal.drawing import draw_bar, gib

_BAR = 20


def show_step(terms: Sequence[MeasuredTerm]) -> None:
    """Print two bars for every term: the estimate, and the measurement, green where it lies in the
    estimate's interval."""
    console = open_console()
    scale = max((max(term.measured, term.estimated) for term in terms), default=0) / _BAR or 1
    table = Table(box=None, pad_edge=False, show_header=False)
    for justify in ("left", "left", "left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for term in terms:
        colour = "green" if term.within else "yellow"
        estimate = draw_bar(term.estimated / scale, "blue")
        table.add_row(term.name, estimate, "estimated", gib(term.estimated), "")
        table.add_row(
            "",
            draw_bar(term.measured / scale, colour),
            "measured",
            gib(term.measured),
            Text(f"{term.difference:+.1%}", style=colour),
        )
    console.print(table)
