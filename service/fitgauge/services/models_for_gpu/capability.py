"""Which of two models is more capable, where no benchmark holds for all: the order of lists."""

import re
from math import log2

from fitgauge.catalog.releases import release_month
from fitgauge.engine.model.model import Model
from fitgauge.engine.performance.flops import token_flops

_EMBEDS = re.compile(
    r"embed|rerank|sentence-transformers|(?<![a-z])(?:bge|gte|e5|stella)(?![a-z])", re.IGNORECASE
)
_BELOW = 1000.0
"""Keeps an encoder's rank below that of any model that generates."""

MONTHS_TO_DOUBLE = 7.0
"""Months in which models of half the size reach the capability of the older ones. Published: 3.5
(C. Xiao et al., Densing law of LLMs, arXiv:2412.04315, on base models of 2023 and 2024); taken
twice as slow, so that size counts among models of one year."""


def capability(model: Model, parameters: int) -> float:
    """Return log2 of the size, in parameters, of a dense model of January 2019 that a list ranks
    alike: log2(sqrt(all x active parameters)) + months since then / MONTHS_TO_DOUBLE.

    Of a mixture of experts the geometric mean of all and active parameters counts (a rule of
    thumb). Models that generate nothing come after all others, the largest first, those that are
    named for embedding or ranking texts before encoders that are to be trained."""
    if not parameters:
        return 0.0
    if model.spec.task == "encode":
        return log2(parameters) / _BELOW + (_EMBEDS.search(model.id) is not None)
    active = min(float(parameters), max(1.0, token_flops(model.spec, 1).forward / 2))
    months = release_month(model.id)
    return log2(parameters * active) / 2 + months / MONTHS_TO_DOUBLE
