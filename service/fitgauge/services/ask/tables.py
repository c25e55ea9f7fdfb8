"""What a question in plain words wants of a table besides its rows."""

import itertools
import math
from collections.abc import Sequence

from msgspec import Struct

from fitgauge.engine.quantity import GIB
from fitgauge.services.ask.schemas import Understood
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.parsing import AS_PUBLISHED
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow

_FEW_GPUS = 4
"""GPUs, or rows, of each of which something is said."""


def lacks_format(request: CompareRequest, table: CompareAnswer) -> bool:
    """Return whether nothing fits of a table whose question names no format."""
    return request.quantizations is None and not any(row.verdict == "fits" for row in table.items)


def format_to_take(understood: Understood, table: CompareAnswer) -> FitRequest | None:
    """Return the question about the widest format that fits, of a table of one model on one GPU in
    several formats; None for another table, or where none fits."""
    rows = table.items
    if len({row.quantization for row in rows}) < 2 or understood.models or understood.gpus:
        return None
    best = next((row for row in rows if row.verdict == "fits"), None)
    if best is None or understood.model is None:
        return None
    return as_question(best, understood)


def as_question(row: CompareRow, understood: Understood) -> FitRequest:
    """Return the question that a row of a table answers."""
    return FitRequest(
        model=understood.model or row.model,
        gpu=row.gpu,
        gpu_count=row.gpu_count,
        engine=row.engine,
        quantization=None if row.quantization == AS_PUBLISHED else row.quantization,
        context_length=row.context_length,
        concurrency=row.concurrency,
        kv_cache_dtype=understood.kv_cache_dtype,
    )


def fitting_rows(table: CompareAnswer) -> list[CompareRow]:
    """Return the rows of a table that fit, where they are few enough to say something of each;
    empty for others."""
    rows = [row for row in table.items if row.verdict == "fits"]
    return rows if len(rows) <= _FEW_GPUS else []


def nearest_rows(understood: Understood, table: CompareAnswer) -> list[CompareRow]:
    """Return the row that needs least of each GPU, of a table of one model on a few GPUs where
    nothing fits; none of another table."""
    nearest: dict[str, CompareRow] = {}
    for row in table.items:
        if row.verdict in ("fits", "tight") or understood.model is None:
            return []
        if (
            row.required_bytes
            and row.gpu
            and row.required_bytes.expected < _need(nearest.get(row.gpu))
        ):
            nearest[row.gpu] = row
    return list(nearest.values()) if len(nearest) <= _FEW_GPUS else []


def _need(row: CompareRow | None) -> float:
    return row.required_bytes.expected if row and row.required_bytes else math.inf


def enough_of_each(answers: Sequence[FitAnswer]) -> str:
    """Return how many GPUs hold the model of several answers, as a sentence with a space behind
    it; empty where no number does."""
    least = [(one.limits.min_gpu_count, one.gpu) for one in answers if one.limits and one.gpu]
    each = " or ".join(f"{count} x {gpu.name}" for count, gpu in least if count)
    return f"It takes {each}. " if each else ""


def row_names(rows: Sequence[CompareRow], table: CompareAnswer) -> list[str]:
    """Return each of some rows of a table by what tells the table's rows apart."""
    names = [_columns(row) for row in rows]
    telling = [len(set(column)) > 1 for column in zip(*map(_columns, table.items), strict=True)]
    return [" ".join(itertools.compress(name, telling)) for name in names]


def _columns(row: CompareRow) -> tuple[str, ...]:
    gpus = f"{row.gpu_count} x {row.gpu}"
    return row.model, gpus, str(row.quantization), str(row.engine), str(row.context_length)


def side_by_side(understood: Understood, table: CompareAnswer) -> list[CompareRow]:
    """Return the row of each GPU of a table of one model on a few GPUs: in the widest format
    of those that most of them hold. None for another table, or where only one GPU holds it."""
    rows = [row for row in table.items if row.verdict == "fits"]
    gpus = {(row.gpu, row.gpu_count) for row in table.items}
    loads = {(row.model, row.context_length, row.concurrency) for row in table.items}
    if understood.model is None or len(loads) > 1 or not 1 < len(gpus) <= _FEW_GPUS:
        return []
    by_format: dict[str | None, list[CompareRow]] = {}
    for row in rows:
        by_format.setdefault(row.quantization, []).append(row)
    held = max(by_format.values(), key=len, default=[])
    if not 1 < len(held) <= len(gpus):
        return []
    return held


def together(table: CompareAnswer) -> str:
    """Return whether the models of a table fit on its one GPU at once, in a sentence; empty where
    it is about other things."""
    rows = [row for row in table.items if row.required_bytes is not None and row.budget_bytes]
    models = {row.model for row in rows}
    if len(rows) < 2 or len(models) < len(rows) or len({(r.gpu, r.gpu_count) for r in rows}) > 1:
        return ""
    needs = [row.required_bytes.expected / GIB for row in rows if row.required_bytes]
    budget = max(row.budget_bytes or 0 for row in rows) / GIB
    parts = " + ".join(f"{need:.1f}" for need in needs)
    verb = "fit" if _most(rows) <= budget else "do not fit"
    return (
        f"At once they {verb} on {rows[0].gpu_count} x {rows[0].gpu}: {parts} = {sum(needs):.1f} of"
        f" {budget:.1f} GiB. Each alone: "
    )


def needs_together(answers: Sequence[Struct]) -> str:
    """Return what several models need at once, of answers without a GPU, in a sentence with a
    space behind it; empty for other answers."""
    needs = [
        one.needs[0].required_bytes.expected / GIB
        for one in answers
        if isinstance(one, FitAnswer) and one.needs
    ]
    if len(needs) < 2 or len(needs) < len(answers):
        return ""
    parts = " + ".join(f"{need:.1f}" for need in needs)
    return f"At once they need {parts} = {sum(needs):.1f} GiB. "


def _most(rows: Sequence[CompareRow]) -> float:
    """Return what the models may need together [GiB]."""
    return sum(row.required_bytes.high for row in rows if row.required_bytes) / GIB
