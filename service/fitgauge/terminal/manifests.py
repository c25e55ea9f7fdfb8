"""The model servers of manifests: one line each, then what to change and what was left out."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fitgauge.console import as_typed, open_console
from fitgauge.engine.quantity import GIB
from fitgauge.services.manifests.schemas import ManifestsAnswer, ServerAnswer
from fitgauge.services.manifests.service import remarks
from fitgauge.terminal.drawing import COLOURS, gib

_WIDTHS = (12, 18, 20)
"""Columns of verdict, need and GPUs; the model has the rest."""


def show_manifests(answer: ManifestsAnswer) -> None:
    """Print one line for every server, then what to change in those that do not fit, then the
    lines that the answers leave out."""
    console = open_console()
    console.print(as_typed(answer.summary), highlight=False, markup=False)
    for server in answer.servers:
        _server(server, console)
        if server.verdict != "fits":
            _advice(server, console, alone=len(answer.servers) == 1)
    notes = [
        f"{file}:{remark.line}: {as_typed(remark.message)}"
        for file, remark, server in remarks(answer)
        if server is None or remark.message != server.summary
    ]
    if notes:
        console.print()
    for note in notes:
        console.print(f"[dim]- {escape(note)}[/dim]", soft_wrap=True, highlight=False)


def _server(server: ServerAnswer, console: Console) -> None:
    """Print where a server stands, then its verdict, its need, its GPUs and its model."""
    verdict = server.verdict or "no answer"
    needs = ""
    if server.required_bytes is not None and server.budget_bytes is not None:
        needs = f"{server.required_bytes / GIB:.1f} of {server.budget_bytes / GIB:.1f} GiB"
    table = Table.grid(padding=(0, 2))
    for width in _WIDTHS:
        table.add_column(width=width)
    table.add_column(overflow="fold")
    table.add_row(
        Text(verdict.replace("_", " "), style=COLOURS.get(verdict, "red")),
        needs,
        f"{server.gpu_count} x {server.gpu}" if server.gpu else "",
        str(server.request.get("model", "")),
    )
    console.print(
        f"[bold]{escape(server.file)}:{server.line}[/bold] {escape(server.name)}",
        soft_wrap=True,
        highlight=False,
    )
    console.print(table)
    if server.download_bytes:
        console.print(f"[dim]{gib(server.download_bytes)} to download[/dim]", highlight=False)


def _advice(server: ServerAnswer, console: Console, *, alone: bool) -> None:
    """Print why a server does not fit, and what to change. alone: why was said already."""
    if not alone:
        console.print(as_typed(server.summary), highlight=False, markup=False)
    for change in server.changes:
        console.print(
            f"  [bold]{change.verdict.replace('_', ' ')}[/bold]: {escape(as_typed(change.change))}"
            f" ({gib(change.required_bytes)})",
            highlight=False,
        )
