"""Answers as a person reads them in a terminal: the picture before the table."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB
from fitgauge.questions.schemas import FitAnswer

_COLOURS = {"fits": "green", "tight": "yellow", "does_not_fit": "red", "unsupported": "red"}
_BAR = 32


def show_fit(answer: FitAnswer, console: Console | None = None) -> None:
    """The verdict, a bar for every term against the budget, the limits and what to change."""
    console = console or Console()
    colour, per_gpu = _COLOURS[answer.verdict], answer.per_gpu
    console.print(Text(answer.verdict.replace("_", " ").upper(), style=f"bold {colour}"), Text(answer.summary), sep="  ")
    console.print()
    scale = max(per_gpu.budget_bytes, per_gpu.required_bytes.expected) / _BAR
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="left", no_wrap=True)
    table.add_column(justify="left", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="left", style="dim", no_wrap=True)
    for term in answer.terms:
        spread = f"± {(term.high - term.low) / 2 / GIB:.2f}" if term.high > term.low else ""
        table.add_row(term.name, _bar(term.bytes / scale, colour), f"{term.bytes / GIB:.2f} GiB", f"{term.basis} {spread}")
    table.add_row(
        Text("required", style="bold"), _bar(per_gpu.required_bytes.expected / scale, colour), _gib(per_gpu.required_bytes.expected)
    )
    table.add_row(Text("budget", style="bold"), _bar(per_gpu.budget_bytes / scale, "blue"), _gib(per_gpu.budget_bytes))
    console.print(table)
    console.print()
    _limits(answer, console)
    for suggestion in answer.suggestions:
        console.print(
            f"  [bold]{suggestion.verdict.replace('_', ' ')}[/bold]: {escape(suggestion.change)} ({_gib(suggestion.required_bytes)})"
        )
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(warning)}[/dim]")
    console.print(f"\n{escape(answer.launch.command)}", soft_wrap=True, highlight=False)


def show_gpus(rows: list[Accelerator], console: Console | None = None) -> None:
    """One line for every accelerator."""
    console = console or Console()
    table = Table(box=None, pad_edge=False)
    for name, justify in (("id", "left"), ("name", "left"), ("usable", "right"), ("GB/s", "right"), ("known", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(row.id, row.name, _gib(row.usable.expected), f"{row.bandwidth_gbps or '?'}", row.usable_basis)
    console.print(table)


def _limits(answer: FitAnswer, console: Console) -> None:
    limits = answer.limits
    said = (
        ("KV cache tokens", limits.kv_cache_tokens),
        ("longest context", limits.max_context_length),
        ("most requests", limits.max_concurrency),
        ("fewest GPUs", limits.min_gpu_count),
    )
    console.print("   ".join(f"{name} [bold]{value:,}[/bold]" for name, value in said if value is not None), highlight=False)


def _bar(length: float, colour: str) -> Text:
    """Whole blocks and an eighth at the end."""
    whole, rest = divmod(round(length * 8), 8)
    return Text("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else ""), style=colour)


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"
