"""A table in one sentence: which cells fit, or which comes nearest."""

from collections.abc import Sequence

from fitgauge.engine.quantity import GIB
from fitgauge.services.compare.schemas import CompareRow

_NAMED = 4
"""Cells that are named; of the others the number is said."""


def in_words(rows: Sequence[CompareRow], total: int) -> str:
    """Return the rows at hand as a sentence, which says so where they are not the whole table.

    rows: in the order of the table; total: of the whole table."""
    if not rows:
        return f"No rows here, of {total}."
    of = f"{total}" if len(rows) == total else f"the {len(rows)} rows here"
    fields = _differing([row for row in rows if row.error is None])
    fitting = [row for row in rows if row.verdict == "fits"]
    if fitting:
        first = ", ".join(_in_words(row, fields) for row in fitting[:_NAMED])
        more = f" and {len(fitting) - _NAMED} more" if len(fitting) > _NAMED else ""
        return f"{len(fitting)} of {of} fit: {first}{more}."
    judged = [row for row in rows if row.fit_probability is not None]
    if not judged:
        why = next((row.note.message for row in rows if row.note is not None), "")
        return f"None of {of} fits. {why}".strip()
    nearest = max(judged, key=lambda row: (row.fit_probability or 0, row.headroom_bytes or 0))
    likely = f", {nearest.fit_probability:.0%} likely" if nearest.verdict == "tight" else ""
    return f"None of {of} fits; the nearest is {_in_words(nearest, fields)}{likely}."


def cells_in_words(rows: Sequence[CompareRow], among: Sequence[CompareRow]) -> str:
    """Return some rows as words, each by what tells it from the others of a table."""
    fields = _differing([row for row in among if row.error is None])
    return ", ".join(_in_words(row, fields) for row in rows)


def _differing(rows: Sequence[CompareRow]) -> tuple[str, ...]:
    """Return what tells cells apart; of a lone one its model and GPU."""
    names = ("model", "gpu", "quantization", "engine", "context_length", "concurrency")
    values = {name: {_value(row, name) for row in rows} for name in names}
    differing = tuple(name for name in names if len(values[name]) > 1)
    if len(values["quantization"]) > len(values["engine"]):
        differing = tuple(name for name in differing if name != "engine")  # follows the format
    return differing or names[:2]


def _value(row: CompareRow, name: str) -> str:
    if name == "gpu":
        return row.gpu if row.gpu_count == 1 else f"{row.gpu_count} x {row.gpu}"
    value = getattr(row, name)
    if name == "context_length":
        return f"{value:,} tokens"
    if name == "concurrency":
        return "1 request" if value == 1 else f"{value} requests"
    return str(value)


def _in_words(row: CompareRow, fields: Sequence[str]) -> str:
    """Return a cell as "Qwen/Qwen3-8B on H100 SXM (18.8 of 72.9 GiB)"."""
    joints = {"gpu": " on ", "quantization": " in ", "engine": " with "}
    name = "".join(
        f"{joints.get(field, ', ') if place else ''}{_value(row, field)}"
        for place, field in enumerate(fields)
    )
    if row.required_bytes is None or row.budget_bytes is None:
        return name
    need, budget = row.required_bytes.expected / GIB, row.budget_bytes / GIB
    return f"{name} ({need:.1f} of {budget:.1f} GiB)"
