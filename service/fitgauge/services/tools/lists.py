"""Short answers that are lists: GPUs to take, models that fit, tables, plans and logs."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

from fitgauge.services.compare.schemas import CompareRow
from fitgauge.services.compare.summary import in_words
from fitgauge.services.explain_log.schemas import LogAnswer, LogFix
from fitgauge.services.models_for_gpu.schemas import FittingModel, ModelsForGpuAnswer
from fitgauge.services.recommend.costs import rented
from fitgauge.services.recommend.option_schemas import Recommendation, Role, TrainingRecommendation
from fitgauge.services.recommend.schemas import RecommendAnswer
from fitgauge.services.tools.arguments import Arguments
from fitgauge.services.tools.faces import TOOLS
from fitgauge.services.tools.schemas import Fix, Option, ToolAnswer, Value
from fitgauge.services.tools.wording import (
    bounded,
    counted,
    fixes,
    gib,
    gpus,
    number,
    one_decimal,
    short_name,
    shown_warnings,
    to_arguments,
)
from fitgauge.services.training_plan.schemas import PlanAnswer, TrainingPlanAnswer

_ROWS = 8
_LOG_PARTS = 5
_LOG_FIXES = 4
_ROLES: dict[Role, str] = {
    "fewest_gpus": "fewest GPUs", "cheapest": "cheapest", "fastest": "fastest",
    "headroom": "with headroom", "as_published": "unquantized", "smallest": "least memory",
    "cheapest_per_token": "cheapest per token", "alternative": "alternative",
}  # fmt: skip
_HOISTED = ("model", "gpu", "engine", "quantization", "context_length", "concurrency")


def gpus_answer(call: Arguments, answer: RecommendAnswer) -> ToolAnswer:
    """Return the GPUs to take, each with what it is best at."""
    waits = "max_seconds_to_first_token" in call.fields
    rows = [_option(row, waits=waits) for row in answer.options]
    rows += [_training_option(row) for row in answer.training_options]
    answered: list[Recommendation | TrainingRecommendation]
    answered = [*answer.options, *answer.training_options]
    sentence = "; ".join(_priced(*pair) for pair in zip(rows, answered, strict=True))
    short = ToolAnswer(
        answer=f"{short_name(answer.model.id)}: {sentence}.",
        model=answer.model.id,
        options=rows,
        more=max(0, answer.total - len(rows)) or UNSET,
        assumed=[*call.notes, *_load(answer)] or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    return bounded(short)


def _load(answer: RecommendAnswer) -> list[str]:
    """Return the load that the options hold, and the date of the prices."""
    understood, texts = answer.understood_as, list[str]()
    if answer.training_options:
        length = understood.get("sequence_length")
        texts = ["training"]
        texts += [f"{length:,} tokens a sequence"] if isinstance(length, int) else []
        if (batch := understood.get("global_batch_size")) is not None:
            texts.append(f"{batch} sequences a step")
    else:
        context, requests = understood.get("context_length"), understood.get("concurrency", 1)
        texts = [f"{context:,} tokens"] if isinstance(context, int) else []
        texts.append(f"{requests} request{'s' if requests != 1 else ''} at once")
    costs = [row.cost for row in answer.options or answer.training_options]
    dates = [cost.as_of for cost in costs if cost and cost.as_of]
    return [*texts, f"prices of {max(dates)}"] if dates else texts


def _option(row: Recommendation, *, waits: bool) -> Option:
    """Return an option of serving. waits: whether the time to a first token is asked for."""
    first = row.prefill.seconds_to_first_token.expected if row.prefill and waits else None
    return Option(
        role=_role(row),
        gpu=counted(row.gpu.name, row.gpu.count),
        engine=row.engine,
        quantization=row.quantization,
        verdict=row.verdict,
        needs_gib=gib(row.required_bytes.expected),
        usable_gib=gib(row.budget_bytes),
        tokens_per_second=round(row.decode.tokens_per_second.expected) if row.decode else UNSET,
        seconds_to_first_token=UNSET if first is None else float(f"{first:.2g}"),
        usd_per_hour=round(row.cost.usd_per_hour_low, 2) if row.cost else UNSET,
        rented_as=_rented(row),
    )


def _training_option(row: TrainingRecommendation) -> Option:
    return Option(
        role=_role(row),
        gpu=counted(row.gpu.name, row.gpu.count),
        method=row.method,
        layout=row.framework,
        verdict=row.verdict,
        needs_gib=gib(row.required_bytes.expected),
        usable_gib=gib(row.usable_bytes),
        usd_per_hour=round(row.cost.usd_per_hour_low, 2) if row.cost else UNSET,
        rented_as=_rented(row),
    )


def _rented(row: Recommendation | TrainingRecommendation) -> str | UnsetType:
    rentals = row.cost.rentals if row.cost else []
    return rented(rentals[0], row.gpu.count) if rentals else UNSET


def _role(row: Recommendation | TrainingRecommendation) -> str:
    """Return "fewest GPUs, cheapest"."""
    return ", ".join(_ROLES[role] for role in row.roles)


def _of_more(row: Recommendation | TrainingRecommendation) -> str:
    """Return how many GPUs a price is of, where the machines have more than the option."""
    rental = row.cost.rentals[0] if row.cost and row.cost.rentals else None
    return f" for all {rental.gpus}" if rental and rental.gpus > row.gpu.count else ""


def _priced(row: Option, answered: Recommendation | TrainingRecommendation) -> str:
    """Return "cheapest 2x V100 (awq, $0.28/h)"."""
    facts = [str(fact) for fact in (row.method, row.quantization) if fact is not UNSET]
    if row.tokens_per_second is not UNSET:
        facts.append(f"~{row.tokens_per_second:.0f} tokens/s")
    if row.usd_per_hour is not UNSET:
        facts.append(f"${row.usd_per_hour:,.2f}/h{_of_more(answered)}")
    return f"{row.role} {row.gpu} ({', '.join(facts)})"


def models_answer(call: Arguments, answer: ModelsForGpuAnswer) -> ToolAnswer:
    """Return the models that fit a GPU, in the service's order."""
    rows = [_model_option(row) for row in answer.items[:_ROWS]]
    names = ", ".join(
        short_name(row.model) + (" (tight)" if row.verdict == "tight" else "")
        for row in answer.items[:3]
    )
    is_training = call.fields.get("task") == "training"
    load = ["training"] if is_training else _unset(call, {"concurrency": "1 request at once"})
    if rows:
        first = f"{answer.total} models fit on {gpus(answer.gpu)}, first {names}"
    else:
        first = f"No model that matches fits on {gpus(answer.gpu)}"
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
    short = ToolAnswer(
        answer=in_words(rows, total),
        options=options,
        more=max(0, total - len(options)) or UNSET,
        assumed=[*call.notes, *_unset(call, {"concurrencies": "1 request at once"})] or UNSET,
    )
    return bounded(_hoisted(short, options))


def _cell(row: CompareRow) -> Option:
    budget = row.budget_bytes
    note = row.note.message if row.note and row.required_bytes is None else None
    if row.error is not None:
        note = row.error.detail
    return Option(
        model=row.model,
        gpu=counted(row.gpu, row.gpu_count or 1),
        engine=row.engine or UNSET,
        quantization=row.quantization or UNSET,
        context_length=row.context_length or UNSET,
        concurrency=row.concurrency,
        verdict=row.verdict or UNSET,
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
        gpu_count=first.gpu_count if first else answer.gpu.count,
        method=str(answer.understood_as.get("method", "full")),
        options=[_plan_option(plan, answer.gpu.name) for plan in answer.plans[:4]],
        more=max(0, answer.total - 4) or UNSET,
        fixes=fixes(TOOLS["plan_training"], call, answer.suggestions) or UNSET,
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
        quantization=_text(answer.understood_as, "quantization"),
        context_length=number(answer.understood_as, "context_length"),
        parts_gib={name: gib(size) for name, size in largest} or UNSET,
        fixes=[_log_fix(fix) for fix in answer.fixes][:_LOG_FIXES] or UNSET,
        assumed=[*call.notes, *missing] or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    return bounded(short)


def _text(understood: Mapping[str, object], name: str) -> str | UnsetType:
    value = understood.get(name)
    return value if isinstance(value, str) else UNSET


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
