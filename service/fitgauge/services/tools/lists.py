"""Short answers that are lists: GPUs to take, models that fit, tables, plans and logs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import UNSET

from fitgauge.services.compare.schemas import CompareRow
from fitgauge.services.explain_log.schemas import LogAnswer, LogFix
from fitgauge.services.models_for_gpu.schemas import FittingModel, ModelsForGpuAnswer
from fitgauge.services.recommend.costs import CostAnswer
from fitgauge.services.recommend.option_schemas import Recommendation, TrainingRecommendation
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.tools.arguments import Arguments
from fitgauge.services.tools.faces import TOOLS
from fitgauge.services.tools.schemas import Fix, Option, ToolAnswer, Value
from fitgauge.services.tools.wording import (
    bounded,
    counted,
    gib,
    gpus,
    number,
    one_decimal,
    short_name,
    shown_warnings,
    to_arguments,
)
from fitgauge.services.training_plan.schemas import PlanAnswer, TrainingPlanAnswer

Row = TypeVar("Row")

_ROWS = 8
_LOG_PARTS = 5
_LOG_FIXES = 4
_HOISTED = ("model", "gpu", "engine", "quantization", "context_length", "concurrency")


def gpus_answer(call: Arguments, answer: RecommendAnswer) -> ToolAnswer:
    """Return the GPUs to take: the fewest, the cheapest, the fastest, and unquantized."""
    rows: list[tuple[str, Option]]
    if answer.training:
        rows = [(role, _training_option(row)) for role, row in _training_roles(answer.training)]
    else:
        rows = [(role, _option(row)) for role, row in _roles(answer.items)]
    name = short_name(answer.model.id)
    for role, row in rows:
        row.role = role
    sentence = "; ".join(_priced(role, row) for role, row in rows)
    short = ToolAnswer(
        answer=f"{name}: {sentence}." if rows else one_decimal(answer.summary),
        model=answer.model.id,
        options=[row for _, row in rows],
        more=max(0, answer.total - len(rows)) or UNSET,
        assumed=[*call.notes, *_load(answer)] or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    return bounded(short)


def _load(answer: RecommendAnswer) -> list[str]:
    """Return the load that the options hold, and the date of the prices."""
    understood, texts = answer.understood_as, list[str]()
    if answer.training:
        length = understood.get("sequence_length")
        texts = ["training"]
        texts += [f"{length:,} tokens a sequence"] if isinstance(length, int) else []
        if (batch := understood.get("global_batch_size")) is not None:
            texts.append(f"{batch} sequences a step")
    else:
        context, requests = understood.get("context_length"), understood.get("concurrency", 1)
        texts = [f"{context:,} tokens"] if isinstance(context, int) else []
        texts.append(f"{requests} request{'s' if requests != 1 else ''} at once")
    costs = [*(row.cost for row in answer.items), *(row.cost for row in answer.training)]
    dates = [cost.as_of for cost in costs if cost and cost.as_of]
    return [*texts, f"prices of {max(dates)}"] if dates else texts


def _roles(rows: Sequence[Recommendation]) -> list[tuple[str, Recommendation]]:
    """Return the rows worth naming, each once, with what they are best at."""
    whole = [row for row in rows if row.quantization in ("as published", "bf16")]
    picks = [
        ("fewest GPUs", _best(rows, lambda row: (row.gpu.count, row.total_usable_bytes))),
        ("cheapest", _best([row for row in rows if row.cost], lambda row: (_usd(row.cost),))),
        (
            "fastest",
            _best(
                [row for row in rows if row.decode],
                lambda row: (-(row.decode.tokens_per_second.expected if row.decode else 0),),
            ),
        ),
        ("unquantized", _best(whole, lambda row: (row.gpu.count, _usd(row.cost)))),
    ]
    return _each_once(picks)


def _training_roles(
    rows: Sequence[TrainingRecommendation],
) -> list[tuple[str, TrainingRecommendation]]:
    picks = [
        ("fewest GPUs", _best(rows, lambda row: (row.gpu.count, row.total_usable_bytes))),
        ("cheapest", _best([row for row in rows if row.cost], lambda row: (_usd(row.cost),))),
        (
            "fastest",
            _best(
                [row for row in rows if row.tokens_per_second_at_peak],
                lambda row: (-(row.tokens_per_second_at_peak or 0),),
            ),
        ),
    ]
    return _each_once(picks)


def _best(rows: Sequence[Row], key: Callable[[Row], tuple[float, ...]]) -> Row | None:
    return min(rows, key=key, default=None)


def _each_once(picks: Iterable[tuple[str, Row | None]]) -> list[tuple[str, Row]]:
    roles: list[tuple[str, Row]] = []
    for role, row in picks:
        if row is not None and all(row is not other for _, other in roles):
            roles.append((role, row))
    return roles


def _usd(cost: CostAnswer | None) -> float:
    return cost.usd_per_hour_low if cost else float("inf")


def _option(row: Recommendation) -> Option:
    return Option(
        gpu=counted(row.gpu.name, row.gpu.count),
        engine=row.engine,
        quantization=row.quantization,
        verdict=row.verdict,
        needs_gib=gib(row.required_bytes.expected),
        usable_gib=gib(row.budget_bytes),
        tokens_per_second=round(row.decode.tokens_per_second.expected) if row.decode else UNSET,
        usd_per_hour=round(_usd(row.cost), 2) if row.cost else UNSET,
    )


def _training_option(row: TrainingRecommendation) -> Option:
    return Option(
        gpu=counted(row.gpu.name, row.gpu.count),
        method=row.method,
        layout=row.framework,
        verdict=row.verdict,
        needs_gib=gib(row.required_bytes.expected),
        usable_gib=gib(row.usable_bytes),
        usd_per_hour=round(_usd(row.cost), 2) if row.cost else UNSET,
    )


def _priced(role: str, row: Option) -> str:
    """Return "cheapest 2x V100 ($0.28/h)"."""
    facts = [str(row.quantization)] if row.quantization is not UNSET else []
    if row.tokens_per_second is not UNSET:
        facts.append(f"~{row.tokens_per_second:.0f} tokens/s")
    if row.usd_per_hour is not UNSET:
        facts.append(f"${row.usd_per_hour:,.2f}/h")
    return f"{role} {row.gpu}" + (f" ({', '.join(facts)})" if facts else "")


def models_answer(call: Arguments, answer: ModelsForGpuAnswer) -> ToolAnswer:
    """Return the models that fit a GPU, in the service's order."""
    rows = [_model_option(row) for row in answer.items[:_ROWS]]
    names = ", ".join(short_name(row.model) for row in answer.items[:3])
    is_training = call.fields.get("task") == "training"
    load = ["training"] if is_training else _unset(call, {"concurrency": "1 request at once"})
    first = (
        f"{answer.total} models fit on {gpus(answer.gpu)}, first {names}"
        if rows
        else f"No model that matches fits on {gpus(answer.gpu)}"
    )
    short = ToolAnswer(
        answer=f"{first}.",
        gpu=answer.gpu.name,
        gpu_count=answer.gpu.count,
        options=rows,
        more=max(0, answer.total - len(rows)) or UNSET,
        assumed=[*call.notes, *load] or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    return bounded(_hoisted(short, rows))


def _model_option(row: FittingModel) -> Option:
    return Option(
        model=row.model,
        engine=row.engine or UNSET,
        quantization=row.quantization,
        context_length=row.context_length,
        verdict=row.verdict,
        needs_gib=gib(row.required_bytes.expected),
        usable_gib=gib(row.budget_bytes),
    )


def _unset(call: Arguments, defaults: dict[str, str]) -> list[str]:
    """Return the defaults of the fields that a call leaves out."""
    return [text for name, text in defaults.items() if name not in call.fields]


def table_answer(call: Arguments, rows: Sequence[CompareRow], total: int) -> ToolAnswer:
    """Return a table with one verdict a cell; what all cells share stands once."""
    options = [_cell(row) for row in rows]
    fitting = [row for row in rows if row.verdict == "fits"]
    first = [f"{short_name(row.model)} on {counted(row.gpu, row.gpu_count)}" for row in fitting[:4]]
    more = f" and {len(fitting) - len(first)} more" if len(fitting) > len(first) else ""
    sentence = f"{len(fitting)} of {total} fit"
    sentence += f": {', '.join(first)}{more}." if first else "."
    short = ToolAnswer(
        answer=sentence,
        options=options,
        more=max(0, total - len(options)) or UNSET,
        assumed=[
            *call.notes,
            *_unset(call, {"concurrencies": "1 request at once"}),
        ]
        or UNSET,
    )
    return bounded(_hoisted(short, options))


def _cell(row: CompareRow) -> Option:
    budget = row.budget_bytes
    note = row.note.message if row.note and row.required_bytes is None else None
    return Option(
        model=row.model,
        gpu=counted(row.gpu, row.gpu_count),
        engine=row.engine or UNSET,
        quantization=row.quantization,
        context_length=row.context_length,
        concurrency=row.concurrency,
        verdict=row.verdict,
        needs_gib=gib(row.required_bytes.expected) if row.required_bytes else UNSET,
        usable_gib=gib(budget) if budget is not None else UNSET,
        note=note[:120] if note else UNSET,
    )


def _hoisted(short: ToolAnswer, rows: Sequence[Option]) -> ToolAnswer:
    """Move what all rows share to the answer itself."""
    for name in _HOISTED:
        values = {getattr(row, name) for row in rows}
        if len(values) == 1 and (len(rows) > 1 or name in ("engine", "concurrency")):
            (value,) = values
            if getattr(short, name) is UNSET:
                setattr(short, name, value)
            for row in rows:
                setattr(row, name, UNSET)
    return short


def plan_answer(call: Arguments, answer: TrainingPlanAnswer) -> ToolAnswer:
    """Return the layouts that train a model; the command is the first one's."""
    first = answer.plans[0] if answer.plans else None
    short = ToolAnswer(
        verdict=first.verdict if first else "does_not_fit",
        answer=one_decimal(answer.summary),
        model=answer.model.id,
        gpu=answer.gpu.name,
        gpu_count=first.gpu_count if first else UNSET,
        method=str(answer.understood_as.get("method", "full")),
        options=[_plan_option(plan, answer.gpu.name) for plan in answer.plans[:4]],
        more=max(0, answer.total - 4) or UNSET,
        command=first.launch.command if first else UNSET,
        assumed=[
            *call.notes,
            *_unset(
                call,
                {
                    "sequence_length": f"{answer.understood_as.get('sequence_length')} tokens",
                    "global_batch_size": f"{answer.global_batch_size} sequences a step",
                },
            ),
        ]
        or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    if first and first.launch.files and isinstance(short.assumed, list):
        short.assumed.append(f"files of the command: {', '.join(first.launch.files)}")
    return bounded(short)


def _plan_option(plan: PlanAnswer, gpu: str) -> Option:
    return Option(
        gpu=counted(gpu, plan.gpu_count),
        layout=plan.layout,
        verdict=plan.verdict,
        needs_gib=gib(plan.required_bytes.expected),
        usable_gib=gib(plan.usable_bytes),
        efficiency=round(plan.efficiency, 2),
    )


def log_answer(call: Arguments, answer: LogAnswer) -> ToolAnswer:
    """Return what a log says: the measured parts, and what made the difference."""
    parts = {part.name: part.bytes for part in answer.memory}
    parts = parts or {row.name: row.measured for row in answer.rows if row.unit == "bytes"}
    largest = sorted(parts.items(), key=lambda item: -item[1])[:_LOG_PARTS]
    causes = [cause for cause in answer.causes if cause not in answer.summary][:2]
    missing = [f"send {name} to estimate it" for name in answer.missing]
    short = ToolAnswer(
        answer=one_decimal(" ".join([answer.summary, *causes])),
        model=answer.model.id if answer.model else UNSET,
        gpu=answer.gpu.name if answer.gpu else UNSET,
        gpu_count=answer.gpu.count if answer.gpu else UNSET,
        engine=answer.engine or UNSET,
        context_length=number(answer.understood_as, "context_length"),
        parts_gib={name: gib(size) for name, size in largest} or UNSET,
        fixes=[_log_fix(fix) for fix in answer.fixes][:_LOG_FIXES] or UNSET,
        assumed=[*call.notes, *missing] or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    return bounded(short)


def _log_fix(fix: LogFix) -> Fix:
    """Return a change that helps, with the command or the flag to add."""
    return Fix(
        change=one_decimal(fix.change),
        command=fix.command or UNSET,
        arguments=_log_arguments(fix.request) if fix.request else UNSET,
        needs_gib=UNSET if fix.required_bytes is None else gib(fix.required_bytes),
        verdict=fix.verdict or UNSET,
    )


def _log_arguments(fields: Mapping[str, Value]) -> dict[str, Value]:
    """Return the fields of a fix as arguments of the tool that checks it."""
    serving = TOOLS["check_fit"]
    is_serving = set(fields) <= set(serving.request.__struct_fields__)
    return to_arguments(serving if is_serving else TOOLS["check_training_fit"], fields)
