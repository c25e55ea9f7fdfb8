"""Short answers without a GPU: what a model needs, and the smallest GPUs that hold it."""

from msgspec import UNSET

from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.tools.arguments import Arguments
from fitgauge.services.tools.schemas import Option, ToolAnswer
from fitgauge.services.tools.wording import (
    assumed,
    bounded,
    counted,
    gib,
    number,
    readings,
    short_name,
    shown_warnings,
)
from fitgauge.services.training_fit.schemas import TrainingAnswer

_ASSUMED = 8
"""What was assumed, the decisive first."""


def needs_answer(call: Arguments, answer: FitAnswer | TrainingAnswer) -> ToolAnswer:
    """Return what a model needs by format or by method. `needs_gib` is of the first: the one that
    is sent, else the widest format, or the method that is answered."""
    understood, smallest = answer.understood_as, answer.smallest
    by_name = {need.name.lower(): gib(need.required_bytes.expected) for need in answer.needs}
    field = "quantization" if isinstance(answer, FitAnswer) else "method"
    requested = str(understood.get(field, "")).lower() if field in call.fields else ""
    by_name = dict(sorted(by_name.items(), key=lambda row: row[0] != requested))
    name = next(iter(by_name), "")
    rows = [
        Option(
            role=", ".join(row.reasons),
            gpu=counted(row.gpu, row.gpu_count),
            quantization=row.name.lower() if isinstance(answer, FitAnswer) else UNSET,
            method=UNSET if isinstance(answer, FitAnswer) else row.name,
            needs_gib=gib(row.required_bytes),
            usd_per_hour=UNSET if row.usd_per_hour is None else round(row.usd_per_hour, 2),
        )
        for row in smallest
    ]
    context, length = understood.get("context_length"), understood.get("sequence_length")
    tokens = context if isinstance(answer, FitAnswer) else length
    load = f" at {tokens:,} tokens" if isinstance(tokens, int) else ""
    figures = ", ".join(f"{size:,} in {name}" for name, size in by_name.items())
    text = f"{short_name(answer.model.id)}{load} needs GiB: {figures}"
    if rows:
        text += f". {str(rows[0].role).capitalize()}: {rows[0].gpu}"
    short = ToolAnswer(
        verdict=answer.verdict or UNSET,
        answer=f"{text}.",
        model=answer.model.id,
        quantization=name if isinstance(answer, FitAnswer) and name else UNSET,
        context_length=number(understood, "context_length"),
        concurrency=number(understood, "concurrency"),
        sequence_length=number(understood, "sequence_length"),
        micro_batch_size=number(understood, "micro_batch_size"),
        needs_gib=by_name.get(name, UNSET),
        needs_by_format=by_name or UNSET,
        smallest=rows or UNSET,
        command=smallest[0].command if smallest else UNSET,
        assumed=[*call.notes, *readings(answer.read_as), *_assumed(answer)] or UNSET,
        warnings=shown_warnings(answer.warnings) or UNSET,
    )
    return bounded(short)


def _assumed(answer: FitAnswer | TrainingAnswer) -> list[str]:
    read = {row.field for row in answer.read_as}
    return assumed(answer.assumed, without=read)[:_ASSUMED]
