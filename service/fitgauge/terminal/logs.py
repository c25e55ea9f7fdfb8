"""What was measured: a start-up log against its estimate, and how well GPUs are used."""

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fitgauge.console import as_typed, open_console
from fitgauge.services.explain_log.schemas import LogAnswer
from fitgauge.services.utilization.schemas import UtilizationAnswer
from fitgauge.terminal.drawing import draw_bar, gib

_LEDGER_BAR = 20
_SHARE_BAR = 32
_UNITS: dict[str, Callable[[int], str]] = {"bytes": gib, "tokens": lambda count: f"{count:,}"}


def show_ledger(answer: LogAnswer, console: Console | None = None) -> None:
    """Print the summary, two bars for every term (green: the measurement lies in the estimate's
    interval), and what made the difference."""
    console = console or open_console()
    console.print(Text(as_typed(answer.summary)), soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False, show_header=False)
    for justify in ("left", "left", "left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for unit, words in _UNITS.items():
        rows = [row for row in answer.rows if row.unit == unit]
        scale = (
            max((max(row.measured, row.estimated or 0) for row in rows), default=0) / _LEDGER_BAR
            or 1
        )
        for row in rows:
            name, difference = row.name, ""
            if row.estimated is not None:
                table.add_row(
                    name, draw_bar(row.estimated / scale, "blue"), "estimated", words(row.estimated)
                )
                name, difference = "", words(row.difference or 0)
            colour = {True: "green", False: "yellow", None: "default"}[row.within]
            kind = "at least" if row.measured_is == "at_least" else "measured"
            change = Text(
                difference if difference.startswith("-") or not difference else "+" + difference,
                style=colour,
            )
            table.add_row(
                name,
                draw_bar(max(row.measured, 0) / scale, colour),
                kind,
                words(row.measured),
                change,
            )
    console.print(table)
    for part in answer.memory:
        console.print(f"{part.name:<24}{gib(part.bytes):>12}  {part.basis}", highlight=False)
    for cause in map(as_typed, answer.causes):
        console.print(f"  {escape(cause)}", soft_wrap=True, highlight=False)
    for fix in answer.fixes:
        verdict = f"{fix.verdict.replace('_', ' ')}: " if fix.verdict else ""
        size = f" ({gib(fix.required_bytes)})" if fix.required_bytes else ""
        console.print(f"- {verdict}{escape(fix.change)}{size}", soft_wrap=True, highlight=False)
        if fix.command:
            console.print(f"    {escape(fix.command)}", soft_wrap=True, highlight=False)
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


def show_utilization(answer: UtilizationAnswer, console: Console | None = None) -> None:
    """Print the summary, a bar for every share, and suggestions."""
    console = console or open_console()
    console.print(Text(as_typed(answer.summary)), soft_wrap=True)
    console.print()
    shares = {"MFU": answer.mfu, "HFU": answer.hfu}
    if answer.trace is not None:
        trace = answer.trace
        shares = {
            "tensor cores, of kernels": trace.tensor_core_share,
            "communication": trace.communication_share,
            "of it alone": trace.exposed_communication_share,
            "idle": trace.idle_share,
        }
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, share in shares.items():
        if share is not None:
            table.add_row(name, draw_bar(min(1.0, share) * _SHARE_BAR, "blue"), f"{share:.1%}")
    console.print(table)
    for line in answer.advice:
        console.print(f"  {escape(line)}", soft_wrap=True, highlight=False)
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)
