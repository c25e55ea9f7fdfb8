"""What every view draws with: bars, bare tables, sizes and prices."""

from rich.table import Table
from rich.text import Text

from fitgauge.engine.quantity import GIB, Bytes

COLOURS = {"fits": "green", "tight": "yellow", "does_not_fit": "red", "unsupported": "red"}
_NEED_BAR = 16


def need_bar(required: Bytes, budget: int, verdict: str) -> tuple[Text, str]:
    """Return a bar of what is needed against a budget, and both in GiB."""
    bar = draw_bar(_NEED_BAR * min(1.0, required.expected / max(1, budget)), COLOURS[verdict])
    return bar, f"{required.expected / GIB:.1f} of {budget / GIB:.1f}"


def bare_table(*left: str, right: tuple[str, ...]) -> Table:
    """Return a bare table of words on the left and numbers on the right; in a narrow terminal
    the words are folded."""
    table = Table(box=None, pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def usd(low: float, high: float) -> str:
    """Return a range of prices, one number where it is none."""
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def draw_bar(length: float, colour: str) -> Text:
    """Return whole blocks and an eighth at the end."""
    whole, rest = divmod(round(length * 8), 8)
    return Text("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else ""), style=colour)


def gib(size: int) -> str:
    """Return bytes in GiB, with two decimals."""
    return f"{size / GIB:.2f} GiB"
