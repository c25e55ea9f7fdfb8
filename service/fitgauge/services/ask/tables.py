"""What a question in plain words wants of a table besides its rows."""

import re
from collections.abc import Sequence

from fitgauge.engine.quantity import GIB
from fitgauge.services.ask.schemas import Understood
from fitgauge.services.common.parsing import AS_PUBLISHED
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow

_ONE_GPU = re.compile(
    r"\bon the same\b|\btogether\b(?! ai)|\bside[- ]by[- ]side\b|\balongside\b|\bconcurrently\b"
    r"|\bsame (?:gpu|card|machine)\b"
    r"|\bat the same time\b|\bsimultaneously\b"
    r"|\bboth\b.{0,24}\bat once\b"
    r"|同一[张块台]|同时",
    re.IGNORECASE,
)


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
    return FitRequest(
        model=understood.model,
        gpu=understood.gpu,
        gpu_count=best.gpu_count,
        engine=best.engine,
        quantization=None if best.quantization == AS_PUBLISHED else best.quantization,
        context_length=best.context_length,
        concurrency=best.concurrency,
        kv_cache_dtype=understood.kv_cache_dtype,
    )


def wants_one_gpu(text: str) -> bool:
    """Return whether a text puts several models on one GPU."""
    return _ONE_GPU.search(text) is not None


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


def _most(rows: Sequence[CompareRow]) -> float:
    """Return what the models may need together [GiB]."""
    return sum(row.required_bytes.high for row in rows if row.required_bytes) / GIB
