"""A fleet: its summary, one line a model, then what the plans take of each kind of GPU."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fitgauge.console import as_typed, open_console
from fitgauge.engine.quantity import GIB
from fitgauge.services.fleet.pools import kind
from fitgauge.services.fleet.schemas import (
    DriftAnswer,
    DriftRow,
    Fault,
    FleetAnswer,
    Placement,
    Plan,
)

_FITS_ON = 3
"""Kinds of GPU that a line names of those that a model fits on."""

_TERMS = 3
"""Terms that a line names of those that a release changes."""

_VERDICTS = {"fits": "green", "tight": "yellow", "does not fit": "red"}


def show_fleet(answer: FleetAnswer) -> None:
    """Print the summary, one line for every model, what each plan takes, and the entries that are
    not answered."""
    console = open_console()
    console.print(f"[bold]{escape(answer.summary)}[/bold]", soft_wrap=True, highlight=False)
    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("fits on", overflow="fold")
    for one in answer.plans:
        table.add_column(one.objective, overflow="fold")
    prices = {pool.name: pool.usd_per_hour for pool in answer.pools}
    for name in answer.counts:
        verdict = (
            "fits" if answer.counts[name] else "tight" if name in answer.tight else "does not fit"
        )
        table.add_row(
            escape(name),
            f"[{_VERDICTS[verdict]}]{verdict}[/]",
            escape(_fits_on(answer.counts[name], prices) or answer.why.get(name, "")),
            *(escape(_placed(name, one)) for one in answer.plans),
        )
    console.print(table)
    for one in answer.plans:
        _plan(one, console)
    if answer.skipped:
        console.print(f"\n{answer.skipped:,} of {answer.rows:,} rows were in the results file.")
    _faults(answer.faults, console)


def show_drift(answer: DriftAnswer) -> None:
    """Print the summary, one line for every change with the terms behind it, and the entries that
    are not answered."""
    console = open_console()
    console.print(f"[bold]{escape(answer.summary)}[/bold]", soft_wrap=True, highlight=False)
    if answer.rows:
        console.print()
        table = Table(box=None, pad_edge=False)
        for name in ("model", "GPUs", "load", answer.before, answer.after, "what changes"):
            table.add_column(name, overflow="fold")
        for row in answer.rows:
            table.add_row(
                escape(row.name),
                escape(row.gpu),
                escape(row.load),
                _count(row.gpu_count_before),
                _count(row.gpu_count_after),
                escape(_changes(row)),
            )
        console.print(table)
    if answer.not_asked:
        names = ", ".join(answer.not_asked)
        console.print(f"\n[dim]- Not {answer.engine}: {escape(names)}.[/dim]", soft_wrap=True)
    _faults(answer.faults, console)


def _fits_on(counts: dict[str, int], prices: dict[str, float | None]) -> str:
    """Return the cheapest GPUs that hold a copy, or the fewest where no price is known."""

    def order(item: tuple[str, int]) -> tuple[float, int]:
        price = prices[item[0]]
        return (price * item[1] if price is not None else float("inf"), item[1])

    named = [f"{count} x {kind(gpu)}" for gpu, count in sorted(counts.items(), key=order)]
    more = len(named) - _FITS_ON
    return ", ".join(named[:_FITS_ON]) + (f" and {more} more" if more > 0 else "")


def _placed(name: str, plan: Plan) -> str:
    """Return where the copies of a model run."""
    of_model: Sequence[Placement] = [one for one in plan.placements if one.name == name]
    parts = [
        f"{one.gpu_count} x {kind(one.gpu)}"
        + (f", {one.replicas} times" if one.replicas > 1 else "")
        for one in of_model
    ]
    if left := plan.unplaced.get(name):
        parts.append(f"{left} without GPUs")
    return "; ".join(parts)


def _plan(plan: Plan, console: Console) -> None:
    """Print what a plan takes of each kind of GPU."""
    console.print(f"\n[bold]{plan.objective}[/bold]", highlight=False)
    for use in plan.pools:
        price = f", {use.usd_per_hour:,.2f} USD/h" if use.usd_per_hour is not None else ""
        machines = f"{use.machines} machine{'' if use.machines == 1 else 's'}"
        console.print(
            f"  {use.gpus} x {escape(kind(use.gpu))} in {machines}{price}", highlight=False
        )
    if plan.gap:
        console.print(
            f"  [dim]Another plan may be up to {plan.gap:.1%} better.[/dim]", highlight=False
        )


def _count(count: int | None) -> str:
    return "none" if count is None else str(count)


def _changes(row: DriftRow) -> str:
    """Return the terms that change on one GPU, or why there are none."""
    if row.note is not None:
        return as_typed(row.note.message)
    if row.required_bytes is None or row.budget_bytes is None:
        return ""
    sizes = [
        f"{verdict.replace('_', ' ')} with {required / GIB:.1f} of {budget / GIB:.1f} GiB"
        for verdict, required, budget in zip(
            (row.verdict_before, row.verdict_after),
            row.required_bytes,
            row.budget_bytes,
            strict=True,
        )
    ]
    terms = [
        f"{one.term} {(one.after_bytes - one.before_bytes) / GIB:+.2f}"
        for one in row.terms[:_TERMS]
    ]
    return f"on {row.at_gpu_count}: {', then '.join(sizes)}; {', '.join(terms)}"


def _faults(faults: Sequence[Fault], console: Console) -> None:
    """Print the entries that are not answered, with their lines."""
    if faults:
        console.print()
    for fault in faults:
        near = f" Did you mean: {', '.join(fault.matches)}?" if fault.matches else ""
        text = f"line {fault.line}: {fault.message}{near}"
        console.print(f"[red]- {escape(text)}[/red]", soft_wrap=True, highlight=False)
