"""How far estimates are off, against measured runs: the headline of docs/ACCURACY.md."""

from functools import cache
from typing import Annotated

import msgspec
from msgspec import Struct

from fitgauge.catalog import tables
from fitgauge.field_docs import doc


class AccuracyFigure(Struct, frozen=True, kw_only=True):
    """One figure over one set of runs."""

    figure: Annotated[str, doc("What is compared with its measurement.")]
    part: Annotated[str, doc("The set of runs; nothing was fitted to the one called check.")]
    runs: Annotated[int, doc("How many runs.")]
    median: Annotated[float | None, doc("Absolute error [%].")] = None
    p90: Annotated[float | None, doc("Absolute error, 90th percentile [%].")] = None
    coverage: Annotated[float | None, doc("Runs within the interval [%].")] = None
    right: Annotated[float | None, doc("Outcomes judged rightly [%].")] = None
    source: Annotated[str, doc("Where it stands with its runs.")]


@cache
def accuracy() -> tuple[AccuracyFigure, ...]:
    """Return the figures, as `make accuracy` computed them last."""
    raw = (tables.DATA / "accuracy.json").read_bytes()
    return msgspec.json.decode(raw, type=tuple[AccuracyFigure, ...])
