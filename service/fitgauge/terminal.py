"""Answers as a person reads them in a terminal: the picture before the table."""

from collections.abc import Callable
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fitgauge.catalog.instances import Offers
from fitgauge.console import as_typed, open_console
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import GIB, Bytes
from fitgauge.services.common.schemas import FitAnswer, Limits, TermAnswer
from fitgauge.services.compare.schemas import CompareAnswer
from fitgauge.services.explain_log.schemas import LogAnswer
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer
from fitgauge.services.recommend.option_schemas import Recommendation
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.training_fit.schemas import TrainingAnswer
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer
from fitgauge.services.utilization.schemas import UtilizationAnswer

_COLOURS = {"fits": "green", "tight": "yellow", "does_not_fit": "red", "unsupported": "red"}
_BAR = 32
_SIZE = 18
"""Columns of a size in GiB and of the gaps around it."""
_LEAST_SHOWN = GIB // 200
"""Bytes of the smallest term that two decimals of a GiB show."""
_LEDGER_BAR = 20
_NEED_BAR = 16
_RENT_BAR = 8
_WIDE = 120
"""Columns of a terminal below which the bars of a wide table are left out."""


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
            _COLOURS[answer.verdict],
            console,
        )
    if answer.limits is not None:
        _limits(answer.limits, console)
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
            _COLOURS[answer.verdict],
            console,
        )
        sizes = [(phase.name.replace("_", " "), phase.bytes) for phase in answer.phases]
        sizes += [
            ("allocated", per_gpu.allocated_bytes.expected),
            ("reserved", per_gpu.reserved_bytes.expected),
        ]
        console.print(
            "   ".join(f"{name} [bold]{_gib(size)}[/bold]" for name, size in sizes),
            highlight=False,
        )
    if answer.limits is not None:
        _limits(answer.limits, console)
    for name, other in answer.others.items():
        console.print(
            f"  {name}: [bold]{other.verdict.replace('_', ' ')}[/bold]"
            f" ({_gib(other.required_bytes)})",
            highlight=False,
        )
    _advice(answer, console)


def _headline(answer: FitAnswer | TrainingAnswer, console: Console) -> None:
    verdict = answer.verdict
    style = f"bold {_COLOURS[verdict]}" if verdict else "bold"
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
            _bar(size / widest * _BAR, "blue"),
            Text(_gib(size), style="bold"),
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
    words = max(len(term.name) for term in terms) + max(len(_known(term)) for term in terms)
    scale = max(available, required) / max(1, min(_BAR, console.width - words - _SIZE))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="left", no_wrap=True)
    table.add_column(justify="left", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="left", style="dim", no_wrap=True)
    for term in terms:
        if term.bytes < _LEAST_SHOWN and term.high < _LEAST_SHOWN:
            continue
        table.add_row(term.name, _bar(term.bytes / scale, colour), _gib(term.bytes), _known(term))
    table.add_row(Text("required", style="bold"), _bar(required / scale, colour), _gib(required))
    table.add_row(Text("budget", style="bold"), _bar(available / scale, "blue"), _gib(available))
    console.print(table)
    console.print()


def _known(term: TermAnswer) -> str:
    """Return how a term is known, and how well."""
    return (
        f"{term.basis} ± {(term.high - term.low) / 2 / GIB:.2f}"
        if term.high > term.low
        else term.basis
    )


def _advice(answer: FitAnswer | TrainingAnswer, console: Console) -> None:
    """Print suggestions, warnings and the launch command."""
    for suggestion in answer.suggestions:
        change = escape(as_typed(suggestion.change))
        console.print(
            f"  [bold]{suggestion.verdict.replace('_', ' ')}[/bold]: {change}"
            f" ({_gib(suggestion.required_bytes)})"
        )
    messages = [assumption.message for assumption in answer.assumed]
    for message in (*messages, *(warning.message for warning in answer.warnings)):
        console.print(f"[dim]- {escape(as_typed(message))}[/dim]")
    if answer.launch is not None:
        console.print(f"\n{escape(answer.launch.command)}", soft_wrap=True, highlight=False)


def show_ledger(answer: LogAnswer, console: Console | None = None) -> None:
    """Print the summary, two bars for every term (green: the measurement lies in the estimate's
    interval), and what made the difference."""
    console = console or open_console()
    console.print(Text(answer.summary), soft_wrap=True)
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
                    name, _bar(row.estimated / scale, "blue"), "estimated", words(row.estimated)
                )
                name, difference = "", words(row.difference or 0)
            colour = {True: "green", False: "yellow", None: "default"}[row.within]
            kind = "at least" if row.measured_is == "at_least" else "measured"
            change = Text(
                difference if difference.startswith("-") or not difference else "+" + difference,
                style=colour,
            )
            table.add_row(
                name, _bar(max(row.measured, 0) / scale, colour), kind, words(row.measured), change
            )
    console.print(table)
    for part in answer.memory:
        console.print(f"{part.name:<24}{_gib(part.bytes):>12}  {part.basis}", highlight=False)
    for cause in answer.causes:
        console.print(f"  {escape(cause)}", soft_wrap=True, highlight=False)
    for fix in answer.fixes:
        verdict = f"{fix.verdict.replace('_', ' ')}: " if fix.verdict else ""
        size = f" ({_gib(fix.required_bytes)})" if fix.required_bytes else ""
        console.print(f"- {verdict}{escape(fix.change)}{size}", soft_wrap=True, highlight=False)
        if fix.command:
            console.print(f"    {escape(fix.command)}", soft_wrap=True, highlight=False)
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


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
        need = _need(item.required_bytes, item.budget_bytes, item.verdict)
        table.add_row(
            item.model,
            f"{item.parameters / 1e9:.1f}",
            item.method or item.engine,
            item.quantization,
            Text(item.verdict, style=_COLOURS[item.verdict]),
            *(need if wide else need[1:]),
        )
    console.print(table)
    if answer.total > len(answer.items):
        console.print(f"{len(answer.items)} of {answer.total}")
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


def show_comparison(answer: CompareAnswer, console: Console | None = None) -> None:
    """Print one line for every cell; what is the same in all of them is left out, and the bars in
    a narrow terminal."""
    console = console or open_console()
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False)
    settings = ("engine", "quantization", "context_length", "concurrency")
    differing = [name for name in settings if len({getattr(row, name) for row in answer.items}) > 1]
    for name in ("model", "GPUs", *(name.replace("_", " ") for name in differing)):
        table.add_column(name, overflow="fold")
    for name in ("verdict", *(("needs of budget",) if wide else ()), "GiB"):
        table.add_column(name, no_wrap=True)
    for row in answer.items:
        verdict = Text(row.verdict.replace("_", " "), style=_COLOURS[row.verdict])
        need = (
            _need(row.required_bytes, row.budget_bytes or 0, row.verdict)
            if row.required_bytes
            else (Text(), "")
        )
        table.add_row(
            row.model,
            f"{row.gpu_count} x {row.gpu}",
            *(str(getattr(row, name)) for name in differing),
            verdict,
            *(need if wide else need[1:]),
        )
    console.print(table)
    for note in dict.fromkeys(
        f"{row.model} on {row.gpu}: {row.note.message}" for row in answer.items if row.note
    ):
        console.print(f"[dim]- {escape(note)}[/dim]", soft_wrap=True)


def _need(required: Bytes, budget: int, verdict: str) -> tuple[Text, str]:
    """Return a bar of what is needed against a budget, and both in GiB."""
    bar = _bar(_NEED_BAR * min(1.0, required.expected / max(1, budget)), _COLOURS[verdict])
    return bar, f"{required.expected / GIB:.1f} of {budget / GIB:.1f}"


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
            f"\n{shown} of {answer.total} options that nothing beats (--detail full for all)",
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
    if option.checkpoint:
        replaced = escape(option.checkpoint)
        console.print(f"  [dim]Put a checkpoint for {replaced}.[/dim]", soft_wrap=True)


def _items(answer: RecommendAnswer, console: Console) -> None:
    """Print one line for every item; a narrow terminal shows numbers without bars."""
    wide = console.width >= _WIDE
    left = ("GPUs", "engine", "weights", *(("needs of budget",) if wide else ()))
    table = _table(
        *left,
        right=("GiB", "tokens/s", "1st token s", "USD/h", *(("",) if wide else ()), "USD/M tokens"),
    )
    table.columns[-2].justify = "left" if wide else "right"
    dearest = (
        max((item.cost.usd_per_hour_low for item in answer.items if item.cost), default=0.0) or 1.0
    )
    for item in answer.items:
        speed = f"{item.decode.tokens_per_second.expected:,.0f}" if item.decode else "?"
        wait = f"{item.prefill.seconds_to_first_token.expected:,.1f}" if item.prefill else "?"
        need, gib = _need(item.required_bytes, item.budget_bytes, item.verdict)
        rent, bar, tokens = "?", Text(), "?"
        if item.cost:
            rent, bar = (
                f"{item.cost.usd_per_hour_low:,.2f}",
                _bar(_RENT_BAR * item.cost.usd_per_hour_low / dearest, "magenta"),
            )
            if item.cost.usd_per_million_output_tokens:
                tokens = f"{item.cost.usd_per_million_output_tokens.expected:,.2f}"
        needed, rented = ((need,), (bar,)) if wide else ((), ())
        name = f"{item.gpu.count} x {item.gpu.name}"
        table.add_row(
            name, item.engine, item.quantization, *needed, gib, speed, wait, rent, *rented, tokens
        )
    console.print(table)


def show_plans(answer: TrainingPlanAnswer, console: Console | None = None) -> None:
    """One line for every layout: what its fullest GPU needs as a bar against the card, and how
    well it uses the cards."""
    console = console or open_console()
    console.print(Text(answer.summary), soft_wrap=True)
    console.print()
    table = _table("GPUs", "layout", "batches", "needs of card", right=("GiB", "efficiency"))
    for plan in answer.plans:
        need = _need(plan.required_bytes, plan.usable_bytes, plan.verdict)
        batch = f"{plan.settings['micro_batch_size']} x {plan.settings['micro_batches']}"
        table.add_row(str(plan.gpu_count), plan.layout, batch, *need, f"{plan.efficiency:.0%}")
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


def show_utilization(answer: UtilizationAnswer, console: Console | None = None) -> None:
    """Print the summary, a bar for every share, and suggestions."""
    console = console or open_console()
    console.print(Text(answer.summary), soft_wrap=True)
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
            table.add_row(name, _bar(min(1.0, share) * _BAR, "blue"), f"{share:.1%}")
    console.print(table)
    for line in answer.advice:
        console.print(f"  {escape(line)}", soft_wrap=True, highlight=False)
    for warning in answer.warnings:
        console.print(f"[dim]- {escape(as_typed(warning.message))}[/dim]", soft_wrap=True)


def _trained_on(answer: RecommendAnswer, console: Console) -> None:
    """Print the options, or a page of all: one line for every GPU and method, with the fewest of
    it that suffice."""
    console.print(Text(answer.summary), soft_wrap=True)
    console.print()
    items = answer.training or answer.training_options
    wide = console.width >= _WIDE
    table = _table(
        "GPUs",
        "method",
        "framework",
        *(("needs of GPU",) if wide else ()),
        right=("GiB", "tokens/s at peak", "USD/h"),
    )
    for item in items:
        speed = f"{item.tokens_per_second_at_peak:,.0f}" if item.tokens_per_second_at_peak else "?"
        rent = f"{item.cost.usd_per_hour_low:,.2f}" if item.cost else "?"
        need = _need(item.required_bytes, item.usable_bytes, item.verdict)
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


def show_gpus(rows: list[Accelerator], offers: Offers, console: Console | None = None) -> None:
    """One line for every accelerator."""
    console = console or open_console()
    table = _table("id", "name", right=("usable", "GB/s", "USD/h"))
    prices = [offers.card_hour(row.id) for row in rows]
    for row, price in zip(rows, prices, strict=True):
        cost = _usd(price.usd_per_hour_low, price.usd_per_hour_high) if price else ""
        table.add_row(
            row.id, row.name, _gib(row.usable.expected), f"{row.bandwidth_gbps or '?'}", cost
        )
    console.print(table)
    if days := [price.as_of for price in prices if price]:
        console.print(
            "[dim]USD/h: one card on demand, over clouds and regions; the oldest price is from"
            f" {min(days)}.[/dim]",
            highlight=False,
        )


def show_gpu(row: Accelerator, offers: Offers, console: Console | None = None) -> None:
    """One accelerator, and every machine of a cloud that holds it."""
    console = console or open_console()
    show_gpus([row], offers, console)
    machines = offers.of(row.id)
    if not machines:
        console.print(f"\nNo cloud instance with {row.name} is known.", highlight=False)
        return
    table = _table("cloud", "machine", right=("cards", "vCPUs", "GiB", "USD/h", "as of"))
    for offer in machines:
        low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
        cost = "?" if low is None or high is None else _usd(low, high)
        size = (
            str(offer.count),
            *("?" if known is None else f"{known:g}" for known in (offer.vcpus, offer.memory_gib)),
        )
        table.add_row(offer.cloud, offer.instance, *size, cost, offer.as_of or "")
    console.print()
    console.print(table)


def _table(*left: str, right: tuple[str, ...]) -> Table:
    """Return a bare table of words on the left and numbers on the right; in a narrow terminal
    the words are folded."""
    table = Table(box=None, pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _usd(low: float, high: float) -> str:
    """Return a range of prices, one number where it is none."""
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def _limits(limits: Limits, console: Console) -> None:
    said = (
        ("KV cache tokens", limits.kv_cache_tokens),
        ("longest context", limits.max_context_length),
        ("most requests", limits.max_concurrency),
        ("largest micro-batch", limits.max_micro_batch_size),
        ("fewest GPUs", limits.min_gpu_count),
    )
    console.print(
        "   ".join(f"{name} [bold]{value:,}[/bold]" for name, value in said if value is not None),
        highlight=False,
    )


def _bar(length: float, colour: str) -> Text:
    """Return whole blocks and an eighth at the end."""
    whole, rest = divmod(round(length * 8), 8)
    return Text("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else ""), style=colour)


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"


_UNITS: dict[str, Callable[[int], str]] = {"bytes": _gib, "tokens": lambda count: f"{count:,}"}
