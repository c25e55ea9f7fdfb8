"""Of a table in several formats the widest that fits of each model on each GPU: what who names no
format would take."""

from collections.abc import Sequence
from math import inf

from msgspec import structs

from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
from fitgauge.services.compare.summary import cells_in_words


def fits_nowhere(table: CompareAnswer) -> list[CompareRow]:
    """Return the first row of each model on each GPU where no row of the table fits."""
    cells = _cells([row for row in table.items if row.error is None])
    return [rows[0] for rows in cells if not any(row.verdict == "fits" for row in rows)]


def lacking(request: CompareRequest, rows: Sequence[CompareRow]) -> CompareRequest:
    """Return a request of the models and GPUs of such rows alone."""
    gpus = dict.fromkeys(f"{row.gpu_count} x {row.gpu}" for row in rows if row.gpu_count)
    models = dict.fromkeys(row.model for row in rows)
    return structs.replace(request, models=list(models), gpus=list(gpus))


def widest(table: CompareAnswer) -> CompareAnswer:
    """Return a table of several models or GPUs with the widest format that fits of each alone, else
    the format that needs least; another table as it is. Its rows: from the widest format on."""
    cells = _cells(table.items)
    formats = {row.quantization for row in table.items if row.error is None}
    if len(cells) < 2 or len(formats) < 2:
        return table
    best = [_widest(rows) for rows in cells]
    fitting = [row for row in best if row.verdict == "fits"]
    if not fitting:
        return table
    named = cells_in_words(fitting, table.items)
    of = f"{len(fitting)} of {len(cells)}"
    return structs.replace(
        table,
        items=best,
        total=len(best),
        summary=f"{of} fit in some format, the widest of each: {named}.",
        next_offset=None,
    )


def also_in_words(table: CompareAnswer, missing: Sequence[CompareRow], tried: CompareAnswer) -> str:
    """Return the widest of the `tried` formats that fits of each model and GPU that a table lacks,
    as a sentence with a space before it; empty for none. missing: as `fits_nowhere`."""
    absent = {(row.model, row.gpu, row.gpu_count) for row in missing}
    closest = [_widest(rows) for rows in _cells(tried.items)]
    fitting = [
        row
        for row in closest
        if row.verdict == "fits" and (row.model, row.gpu, row.gpu_count) in absent
    ]
    if not fitting:
        return ""
    return f" In other formats: {cells_in_words(fitting, [*table.items, *tried.items])}."


def _widest(rows: Sequence[CompareRow]) -> CompareRow:
    fitting = (row for row in rows if row.verdict == "fits")
    return next(fitting, None) or min(rows, key=_need)


def _need(row: CompareRow) -> float:
    return row.required_bytes.expected if row.required_bytes else inf


def _cells(rows: Sequence[CompareRow]) -> list[list[CompareRow]]:
    """Return the rows of each model on so many of each GPU under each load."""
    cells: dict[object, list[CompareRow]] = {}
    for row in rows:
        key = row.model, row.gpu, row.gpu_count, row.context_length, row.concurrency
        cells.setdefault(key, []).append(row)
    return list(cells.values())
