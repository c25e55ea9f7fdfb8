"""Lists: recommended GPUs, models that fit, comparisons and layouts."""

from typing import Literal

from msgspec import UNSET, UnsetType
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fitgauge.console import as_typed, open_console
from fitgauge.engine.quantity import GIB
from fitgauge.services.compare.schemas import CompareAnswer, CompareRow
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer
from fitgauge.services.recommend.option_schemas import Recommendation
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.training_fit.run_schemas import TrainingRun
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer
from fitgauge.terminal.drawing import COLOURS, bare_table, draw_bar, need_bar

_RENT_BAR = 8
_WIDE = 120
"""Columns of a terminal below which the bars of a wide table are left out."""
_NARROW = 76
"""Columns of a terminal below which words of a wide table share one column."""


def show_models_for_gpu(answer: ModelsForGpuAnswer, console: Console | None = None) -> None:
    """Print one line for every model that fits, the most capable first; a wide terminal has its
    need as a bar against the budget."""
    console = console or open_console()
    trains = any(item.method for item in answer.items)
    console.print(
        f"{answer.total} models {'can be trained' if trains else 'fit'} on {answer.gpu.count} x"
        f" {escape(answer.gpu.name)}, the most capable first",
        highlight=False,
    )
    console.print()
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    names = ("10^9", "method" if trains else "engine", "weights", "verdict")
    for name in (*names, *(("needs of budget",) if wide else ()), "GiB"):
        justify: Literal["left", "right"] = "right" if name in ("10^9", "GiB") else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    for item in answer.items:
        need = need_bar(item.required_bytes, item.budget_bytes, item.verdict)
        table.add_row(
            item.model,
            f"{item.parameters / 1e9:.1f}",
            item.method or item.engine,
            item.quantization,
            Text(item.verdict, style=COLOURS[item.verdict]),
            *(need if wide else need[1:]),
        )
    console.print(table)
    if answer.total > len(answer.items):
        console.print(f"{len(answer.items)} of {answer.total}")
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


def show_comparison(answer: CompareAnswer, console: Console | None = None) -> None:
    """Print what fits in a sentence, then one line for every cell; what is the same in all of them
    is left out, and the bars in a narrow terminal."""
    console = console or open_console()
    console.print(Text(answer.summary), soft_wrap=True)
    console.print()
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False)
    settings = ("engine", "quantization", "context_length", "concurrency")
    answered = [row for row in answer.items if row.error is None]
    differing = [name for name in settings if len({getattr(row, name) for row in answered}) > 1]
    for name in ("model", "GPUs", *(name.replace("_", " ") for name in differing)):
        table.add_column(name, overflow="fold")
    for name in ("verdict", *(("needs of budget",) if wide else ()), "GiB"):
        table.add_column(name, no_wrap=True)
    for row in answer.items:
        verdict = row.verdict or "unknown"
        if row.required_bytes:
            need = need_bar(row.required_bytes, row.budget_bytes or 0, verdict)
        else:
            need = (Text(), "")
        table.add_row(
            row.model,
            row.gpu if row.gpu_count is None else f"{row.gpu_count} x {row.gpu}",
            *(str(_setting(row, name)) for name in differing),
            Text(verdict.replace("_", " "), style=COLOURS.get(verdict, "red")),
            *(need if wide else need[1:]),
        )
    console.print(table)
    if len(answer.items) < answer.total:
        console.print(f"{len(answer.items)} of {answer.total}")
    errors = dict.fromkeys(
        f"{row.error.detail} {as_typed(row.error.hint)}" for row in answer.items if row.error
    )
    notes = dict.fromkeys(
        f"{row.model} on {row.gpu}: {row.note.message}" for row in answer.items if row.note
    )
    for note in (*errors, *notes):
        console.print(f"[dim]- {escape(note)}[/dim]", soft_wrap=True)


def _setting(row: CompareRow, name: str) -> object:
    """Return a setting of a row; "?" where an error leaves it open."""
    value = getattr(row, name)
    return "?" if value is None else value


def show_recommendations(answer: RecommendAnswer, console: Console | None = None) -> None:
    """Print the options with their commands and, where a page is asked for, one line for every
    item: what the fullest GPU needs as a bar against its budget, its speed and its rent."""
    console = console or open_console()
    if answer.training or answer.training_options:
        _trained_on(answer, console)
        return
    console.print(f"[bold]{escape(answer.model.id)}[/bold]", highlight=False)
    for option in answer.options:
        _option(option, console)
    if answer.items:
        console.print()
        _items(answer, console)
    if answer.total > max(len(answer.items), len(answer.options)):
        shown = len(answer.items) or len(answer.options)
        console.print(
            f"\n{shown} of {answer.total} options that nothing beats (--limit for more)",
            highlight=False,
        )
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


def _option(option: Recommendation, console: Console) -> None:
    """Print why an option is one, what it is, its figures and its command."""
    reason = escape(option.reason or "")
    console.print(
        f"\n[bold]{reason[:1].upper()}{reason[1:]}[/bold]: {option.gpu.count} x"
        f" {escape(option.gpu.name)}, {escape(option.quantization)} in {option.engine}",
        highlight=False,
    )
    need = (option.required_bytes.expected / GIB, option.budget_bytes / GIB)
    figures = [f"{need[0]:.1f} of {need[1]:.1f} GiB{' per GPU' if option.gpu.count > 1 else ''}"]
    if option.decode is not None:
        figures.append(f"{option.decode.tokens_per_second_per_request:,.0f} tokens/s a request")
    if option.prefill is not None:
        figures.append(f"first token {option.prefill.seconds_to_first_token.expected:,.1f} s")
    if option.cost is not None and option.cost.rentals:
        figures.append(f"{option.cost.usd_per_hour_low:,.2f} USD/h")
        if option.cost.usd_per_million_output_tokens and option.cost.priced_at:
            requests = option.cost.priced_at.concurrency
            figures.append(
                f"{option.cost.usd_per_million_output_tokens.expected:,.2f} USD/M tokens at"
                f" {requests} request{'s' if requests > 1 else ''} at once"
            )
    console.print(f"  {', '.join(figures)}", highlight=False)
    console.print(f"  {escape(option.launch.command)}", soft_wrap=True, highlight=False)
    if option.launch.placeholder:
        replaced = escape(option.launch.placeholder)
        console.print(f"  [dim]Replace {replaced}.[/dim]", soft_wrap=True)


def _items(answer: RecommendAnswer, console: Console) -> None:
    """Print one line for every item; a narrow terminal shows numbers without bars."""
    wide, narrow = console.width >= _WIDE, console.width < _NARROW
    names = ("GPUs, engine, weights",) if narrow else ("GPUs", "engine", "weights")
    right = ("GiB", "tokens/s", "1st token s", "USD/h", *(("",) if wide else ()), "USD/M tokens")
    table = bare_table(
        *names,
        *(("needs of budget",) if wide else ()),
        right=tuple(name.replace(" ", "\n") for name in right) if narrow else right,
    )
    table.columns[-2].justify = "left" if wide else "right"
    dearest = (
        max((item.cost.usd_per_hour_low for item in answer.items if item.cost), default=0.0) or 1.0
    )
    for item in answer.items:
        speed = f"{item.decode.tokens_per_second.expected:,.0f}" if item.decode else "?"
        wait = f"{item.prefill.seconds_to_first_token.expected:,.1f}" if item.prefill else "?"
        need, gib = need_bar(item.required_bytes, item.budget_bytes, item.verdict)
        rent, bar, tokens = "?", Text(), "?"
        if item.cost:
            rent = f"{item.cost.usd_per_hour_low:,.2f}"
            bar = draw_bar(_RENT_BAR * item.cost.usd_per_hour_low / dearest, "magenta")
            if item.cost.usd_per_million_output_tokens:
                tokens = f"{item.cost.usd_per_million_output_tokens.expected:,.2f}"
        needed, rented = ((need,), (bar,)) if wide else ((), ())
        name = f"{item.gpu.count} x {item.gpu.name}"
        words: tuple[str, ...] = (name, item.engine, item.quantization)
        words = (", ".join(words),) if narrow else words
        table.add_row(*words, *needed, gib, speed, wait, rent, *rented, tokens)
    console.print(table)


def show_plans(answer: TrainingPlanAnswer, console: Console | None = None) -> None:
    """One line for every layout: what its fullest GPU needs as a bar against the GPU, how well it
    uses the GPUs, and of a run its hours and its price."""
    console = console or open_console()
    console.print(Text(answer.summary), soft_wrap=True)
    console.print()
    timed = any(plan.run is not UNSET for plan in answer.plans)
    right = ("GiB", "efficiency", *(("hours", "USD") if timed else ()))
    table = bare_table("GPUs", "layout", "batches", "needs of GPU", right=right)
    for plan in answer.plans:
        need = need_bar(plan.required_bytes, plan.usable_bytes, plan.verdict)
        batch = f"{plan.settings['micro_batch_size']} x {plan.settings['micro_batches']}"
        layout = str(plan.gpu_count), plan.layout, batch
        table.add_row(*layout, *need, f"{plan.efficiency:.0%}", *_run_cells(plan.run))
    if answer.plans:
        console.print(table)
    if answer.total > len(answer.plans):
        console.print(f"{len(answer.plans)} of {answer.total}")
    for plan in answer.plans[:1]:
        console.print(f"\n{escape(plan.launch.command)}", soft_wrap=True, highlight=False)
        for name, contents in plan.launch.files.items():
            console.print(
                f"\n[dim]{escape(name)}[/dim]\n{escape(contents)}", soft_wrap=True, highlight=False
            )
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


def _run_cells(run: TrainingRun | UnsetType) -> tuple[str, ...]:
    """Return the hours of a run and its price in USD; empty without a run."""
    if run is UNSET:
        return ()
    usd = "" if run.usd is None else f"{run.usd.expected:,.0f}"
    return f"{run.seconds.expected / 3600:,.3g}", usd


def _trained_on(answer: RecommendAnswer, console: Console) -> None:
    """Print the options, or a page of all: one line for every GPU and method, with the fewest of
    it that suffice."""
    console.print(Text(answer.summary), soft_wrap=True)
    console.print()
    items = answer.training or answer.training_options
    wide = console.width >= _WIDE
    table = bare_table(
        "GPUs",
        "method",
        "framework",
        *(("needs of GPU",) if wide else ()),
        right=("GiB", "tokens/s at peak", "USD/h"),
    )
    for item in items:
        speed = f"{item.tokens_per_second_at_peak:,.0f}" if item.tokens_per_second_at_peak else "?"
        rent = f"{item.cost.usd_per_hour_low:,.2f}" if item.cost else "?"
        need = need_bar(item.required_bytes, item.usable_bytes, item.verdict)
        table.add_row(
            f"{item.gpu.count} x {item.gpu.name}",
            item.method,
            item.framework,
            *(need if wide else need[1:]),
            speed,
            rent,
        )
    console.print(table)
    if answer.total > len(items):
        console.print(f"{len(items)} of {answer.total}")
    for item in answer.training_options or items[:1]:
        if item.reason:
            console.print(f"\n[bold]{escape(item.reason)}[/bold]", highlight=False)
        console.print(escape(item.launch.command), soft_wrap=True, highlight=False)
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)
