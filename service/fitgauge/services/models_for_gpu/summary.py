"""A list of models in one sentence."""

from collections.abc import Sequence

from fitgauge.engine.quantity import GIB
from fitgauge.services.models_for_gpu.schemas import FittingModel

_NAMED = 3
"""Models that are named; of the others the number is said."""


def in_words(gpus: str, rows: Sequence[FittingModel], total: int) -> str:
    """Return the list as a sentence. gpus: as an answer names them; rows: of the page; total: of
    all pages."""
    if not total:
        return f"No model that matches fits on {gpus}."
    first = f"{total} of the bundled models and formats fit on {gpus}"
    if not rows:
        return f"{first}; no rows here."
    named = rows[:_NAMED]
    more = f" and {total - len(named)} more" if total > len(named) else ""
    return f"{first}: {', '.join(map(_in_words, named))}{more}."


def _in_words(row: FittingModel) -> str:
    """Return a row as "Qwen/Qwen3-8B in awq with vllm (7.1 of 21.7 GiB)"."""
    how = row.method if row.engine is None else f"{row.quantization} with {row.engine}"
    need, budget = row.required_bytes.expected / GIB, row.budget_bytes / GIB
    tight = ", tight" if row.verdict == "tight" else ""
    return f"{row.model} in {how} ({need:.1f} of {budget:.1f} GiB{tight})"
