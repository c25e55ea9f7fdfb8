"""How far estimates are off, against measured runs: the headline of docs/ACCURACY.md."""

from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

_FILE = Path(__file__).parent / "data" / "accuracy.json"


class AccuracyFigure(Struct, frozen=True, kw_only=True):
    """One figure over one set of runs."""

    figure: Annotated[str, Meta(description="What is compared with its measurement.")]
    part: Annotated[
        str, Meta(description="The set of runs; nothing was fitted to the one called check.")
    ]
    runs: Annotated[int, Meta(description="How many runs.")]
    median: Annotated[float | None, Meta(description="Absolute error [%].")] = None
    p90: Annotated[float | None, Meta(description="Absolute error, 90th percentile [%].")] = None
    coverage: Annotated[float | None, Meta(description="Runs within the interval [%].")] = None
    right: Annotated[float | None, Meta(description="Outcomes judged rightly [%].")] = None
    source: Annotated[str, Meta(description="Where it stands with its runs.")]


@cache
def accuracy() -> tuple[AccuracyFigure, ...]:
    """Return the figures, as `make accuracy` computed them last."""
    return msgspec.json.decode(_FILE.read_bytes(), type=tuple[AccuracyFigure, ...])
