"""What quantization costs in quality, as published: data/quality.jsonl, one measurement a line,
with its source."""

from collections.abc import Iterable, Mapping
from functools import cache
from statistics import median
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from fitgauge.catalog import tables
from fitgauge.engine.quantization.requested import canonical_name
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName

Measure = Literal["benchmarks", "perplexity"]


class Measurement(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """One model in one format, compared with the same model as trained."""

    quantization: str
    """Canonical name, see `engine/quantization/requested.py`."""
    model: str
    """The model's name."""
    measure: Measure
    """A score, of which more is better, or a perplexity, of which less is."""
    measured: str
    """The benchmark or text."""
    recovered_percent: float
    """Quantized over unquantized for scores, unquantized over quantized for perplexities [%]."""
    source: str
    """Where it is published."""
    unquantized: float | None = None
    """As the source prints it; None where it prints the share alone."""
    quantized: float | None = None
    """As the source prints it; None where it prints the share alone."""


class Recovery(NamedTuple):
    """What was measured of a format, over models and benchmarks [% of the unquantized model]."""

    low: float
    """The worst."""
    expected: float
    """The median."""
    high: float
    """The best."""
    measurements: tuple[Measurement, ...]
    """The rows of the table."""


_SPOKEN_FOR = {"fp8_channel": "fp8", "fp8_block": "fp8", "int4": "gptq", "nf4_double": "nf4"}
"""Formats that a measurement of a like one stands for: other scales, the same bits."""


def recovery(quantization: str, engine: EngineName) -> Recovery | None:
    """Return the accuracy recovered in this format, None where the catalog has no published
    measurement. Of those there are: least, median, most."""
    if ENGINES[engine].own_quantizers:
        return None
    name = canonical_name(quantization)
    return load().get(_SPOKEN_FOR.get(name, name))


@cache
def load() -> Mapping[str, Recovery]:
    """Return the measurements by format, read once; unknown fields, missing ones and wrong types
    are refused."""
    rows = tables.records("quality", Measurement)
    return MappingProxyType(
        {
            name: _summed(row for row in rows if row.quantization == name)
            for name in {row.quantization for row in rows}
        }
    )


def _summed(rows: Iterable[Measurement]) -> Recovery:
    measurements = tuple(rows)
    shares = [row.recovered_percent for row in measurements]
    return Recovery(min(shares), round(median(shares), 2), max(shares), measurements)
