"""One answer about serving or training: the verdict, a bar for every term, what to change."""

from msgspec import UNSET
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fitgauge.console import as_typed, open_console
from fitgauge.engine.quantity import GIB
from fitgauge.services.common.fit_schemas import FitAnswer, Limits
from fitgauge.services.common.schemas import RankAnswer, TermAnswer
from fitgauge.services.common.smallest import first_step
from fitgauge.services.common.speed_schemas import SpeedAnswer, TextSpeedAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer
from fitgauge.terminal.drawing import COLOURS, draw_bar, gib

_BAR = 32
_SIZE = 18
"""Columns of a size in GiB and of the gaps around it."""
_LEAST_SHOWN = GIB // 200
"""Bytes of the smallest term that two decimals of a GiB show."""


def show_fit(answer: FitAnswer, console: Console | None = None) -> None:
    """Print the verdict, a bar for every term against the budget, the limits and what to change."""
    console = console or open_console()
    _headline(answer, console)
    _needs(answer, console)
    if answer.per_gpu is not None and answer.terms is not None and answer.verdict is not None:
        _picture(
            answer.terms,
            answer.per_gpu.required_bytes.expected,
            answer.per_gpu.budget_bytes,
            COLOURS[answer.verdict],
            console,
        )
    if answer.ranks:
        _by_gpu(answer.ranks, console)
    if answer.limits is not None:
        _limits(answer.limits, console)
    if answer.speed is not None:
        _speed(answer.speed, console)
    if answer.texts is not None:
        _texts(answer.texts, console)
    for one in answer.chosen if answer.verdict != "does_not_fit" else ():
        console.print(
            f"* {one.setting} {one.value} instead of {one.default}: {one.why}. Costs: {one.costs}.",
            highlight=False,
            markup=False,
        )
    if answer.defaults is not None:
        console.print(
            f"* By default: {answer.defaults.verdict.replace('_', ' ')}. {answer.defaults.reason}",
            highlight=False,
            markup=False,
        )
    _advice(answer, console)


def show_training(answer: TrainingAnswer, console: Console | None = None) -> None:
    """Print the same for a training step, with its phases and what torch.cuda would count."""
    console = console or open_console()
    _headline(answer, console)
    per_gpu = answer.per_gpu
    _needs(answer, console)
    if per_gpu is not None and answer.terms is not None and answer.verdict is not None:
        _picture(
            answer.terms,
            per_gpu.required_bytes.expected,
            per_gpu.usable_bytes,
            COLOURS[answer.verdict],
            console,
        )
        sizes = [(phase.name.replace("_", " "), phase.bytes) for phase in answer.phases]
        sizes += [
            ("allocated", per_gpu.allocated_bytes.expected),
            ("reserved", per_gpu.reserved_bytes.expected),
        ]
        console.print(
            "   ".join(f"{name} [bold]{gib(size)}[/bold]" for name, size in sizes), highlight=False
        )
    if answer.limits is not None:
        _limits(answer.limits, console)
    if answer.run is not UNSET:
        run = answer.run
        console.print(
            f"steps [bold]{run.steps:,}[/bold]   tokens/s"
            f" [bold]{run.tokens_per_second.expected:,.0f}[/bold]   MFU"
            f" [bold]{run.mfu.expected:.0%}[/bold]   GPU hours"
            f" [bold]{run.gpu_hours.expected:,.1f}[/bold]   {run.basis}",
            highlight=False,
        )
    for name, other in answer.others.items():
        console.print(
            f"  {name}: [bold]{other.verdict.replace('_', ' ')}[/bold]"
            f" ({gib(other.required_bytes)})",
            highlight=False,
        )
    _advice(answer, console)


def _headline(answer: FitAnswer | TrainingAnswer, console: Console) -> None:
    verdict = answer.verdict
    style = f"bold {COLOURS[verdict]}" if verdict else "bold"
    console.print(
        Text(verdict.replace("_", " ").upper() if verdict else "NEEDS", style=style),
        Text(as_typed(answer.summary)),
        sep="  ",
    )
    console.print()


def _needs(answer: FitAnswer | TrainingAnswer, console: Console) -> None:
    """Print what is needed by format or method, and the smallest GPUs with their commands."""
    widest = max((need.required_bytes.expected for need in answer.needs), default=1)
    for need in answer.needs:
        size = need.required_bytes.expected
        console.print(
            Text(f"{need.name:<8}"),
            draw_bar(size / widest * _BAR, "blue"),
            Text(gib(size), style="bold"),
        )
    for one in answer.smallest:
        reasons, gpus = ", ".join(one.reasons), f"{one.gpu_count} x {one.gpu}"
        console.print(f"\n{one.name}, {reasons}: [bold]{escape(gpus)}[/bold]", highlight=False)
        console.print(f"  {escape(one.command)}", soft_wrap=True, highlight=False)
    if answer.needs:
        console.print()


def _picture(
    terms: list[TermAnswer], required: int, available: int, colour: str, console: Console
) -> None:
    """Print a bar for every term, for their sum and for what is available."""
    words = max(len(term.name) for term in terms) + max(len(_basis(term)) for term in terms)
    scale = max(available, required) / max(1, min(_BAR, console.width - words - _SIZE))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="left", no_wrap=True)
    table.add_column(justify="left", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="left", style="dim", no_wrap=True)
    for term in terms:
        if term.bytes < _LEAST_SHOWN and term.high < _LEAST_SHOWN:
            continue
        table.add_row(
            term.name, draw_bar(term.bytes / scale, colour), gib(term.bytes), _basis(term)
        )
    table.add_row(Text("required", style="bold"), draw_bar(required / scale, colour), gib(required))
    table.add_row(Text("budget", style="bold"), draw_bar(available / scale, "blue"), gib(available))
    console.print(table)
    console.print()


def _basis(term: TermAnswer) -> str:
    """Return how a term is known, and how well."""
    if term.high > term.low:
        return f"{term.basis} ± {(term.high - term.low) / 2 / GIB:.2f}"
    return term.basis


def _advice(answer: FitAnswer | TrainingAnswer, console: Console) -> None:
    """Print suggestions, warnings and the launch command: where it does not fit, that of a change
    with which it does, below a comment that says which."""
    for suggestion in answer.suggestions:
        change = escape(as_typed(suggestion.change))
        console.print(
            f"  [bold]{suggestion.verdict.replace('_', ' ')}[/bold]: {change}"
            f" ({gib(suggestion.required_bytes)})"
        )
    messages = [assumption.message for assumption in answer.assumed]
    for message in (*messages, *(warning.message for warning in answer.warnings)):
        console.print(f"[dim]- {escape(as_typed(message))}[/dim]")
    if answer.launch is not None:
        console.print(f"\n{escape(answer.launch.command)}", soft_wrap=True, highlight=False)
        return
    offers_host = "host_memory_gib" in answer.understood_as
    step = first_step(answer.suggestions, offers_host=offers_host)
    if step is not None and step.launch is not None:
        change = escape(as_typed(step.change))
        console.print(f"\n[dim]# {change}[/dim]", soft_wrap=True, highlight=False)
        console.print(escape(step.launch.command), soft_wrap=True, highlight=False)


def _by_gpu(ranks: list[RankAnswer], console: Console) -> None:
    """Print what each GPU holds, where they are of several kinds."""
    for rank in ranks:
        if rank.gpu is not None:
            needed = rank.required_bytes.expected
            console.print(
                f"{rank.gpu}: {rank.layers} layers, {gib(needed)} of"
                f" {gib(needed + rank.headroom_bytes)}",
                highlight=False,
                markup=False,
            )


def _speed(speed: SpeedAnswer, console: Console) -> None:
    """Print the speeds at the load, and how they are known."""
    load = speed.load
    each = speed.tokens_per_second_per_request
    first = speed.seconds_to_first_token
    at_once = f" x {load.concurrency:,}" if load.concurrency > 1 else ""
    figures = {
        "prefill": "first token [bold]?[/bold]"
        if first is None
        else f"first token [bold]{first.expected:.2g} s[/bold] ({first.low:.2g} to"
        f" {first.high:.2g}, {speed.first_token_basis})",
        "decode": f"tokens/s a request [bold]{each.expected:,.3g}[/bold] ({each.low:,.3g} to"
        f" {each.high:,.3g}, {speed.basis})",
    }
    shown = [figures[load.half]] if load.half else [figures["decode"], figures["prefill"]]
    console.print(
        "   ".join(shown),
        f"   at {load.prompt_tokens:,} + {load.output_tokens:,} tokens{at_once}",
        sep="",
        highlight=False,
    )
    if speed.assumed is not None:
        console.print(f"[dim]{speed.assumed}[/dim]", highlight=False)


def _texts(texts: TextSpeedAnswer, console: Console) -> None:
    """Print how fast texts are read, and how that is known."""
    load, rate, seconds = texts.load, texts.texts_per_second, texts.seconds_per_batch
    console.print(
        f"texts/s [bold]{rate.expected:,.3g}[/bold] ({rate.low:,.3g} to {rate.high:,.3g},"
        f" {texts.basis})   a batch [bold]{seconds.expected:.2g} s[/bold]   at {load.texts:,} of"
        f" {load.tokens:,} tokens",
        highlight=False,
    )


def _limits(limits: Limits, console: Console) -> None:
    """Print the limits; one of 0 says no more than the verdict."""
    figures = (
        ("KV cache tokens", limits.kv_cache_tokens),
        ("longest context", limits.max_context_length),
        ("most requests", limits.max_concurrency),
        ("largest micro-batch", limits.max_micro_batch_size),
        ("longest sequences", limits.max_sequence_length),
        ("fewest GPUs", limits.min_gpu_count),
    )
    console.print(
        "   ".join(f"{name} [bold]{value:,}[/bold]" for name, value in figures if value),
        highlight=False,
    )
