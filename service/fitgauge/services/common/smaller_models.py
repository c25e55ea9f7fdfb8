"""Smaller models of the same family, which are suggested where no other change helps on the GPUs
that were named."""

from collections.abc import Iterator

from fitgauge.catalog.name_parts import DESCRIPTIVE, KINDS, SILENT, Name, scaled
from fitgauge.catalog.releases import release_month
from fitgauge.engine.model.model import Model
from fitgauge.services.common import responses
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.smallest import SMALLER

_LEAST_BITS = 4
"""Of a weight, in the smallest format that is tried."""
_OLDER_MONTHS = 9
"""How much older than the model that was asked about a suggested one is, at most."""

_KINDS = KINDS | {"vision"}


class SmallerModels:
    """Finds bundled models of the same publisher and family with fewer parameters. No I/O."""

    def __init__(self, models: ModelResolver) -> None:
        """Look them up in the snapshot of `models`."""
        self._models = models

    def find(self, model: Model, most_bytes: float) -> Iterator[Model]:
        """Yield them, the one whose name says most alike first, of equal ones the largest, of these
        the newest. Left out are older ones, those of other tasks, and those that surely take more
        than `most_bytes`."""
        own, parameters = Name.of(model.id), responses.parameters(model)
        most = min(parameters, most_bytes * 8 / _LEAST_BITS)
        oldest = release_month(model.id) - _OLDER_MONTHS
        alike = [
            (-_likeness(own, name), -_nominal(name), -month, name.id)
            for name in self._models.snapshot.names
            if _is_related(own, name)
            and _nominal(name) < most
            and (month := release_month(name.id)) >= oldest
        ]
        for *_, model_id in sorted(alike):
            other = self._models.snapshot.model(model_id)
            if (
                other is not None
                and other.spec.task == model.spec.task
                and responses.parameters(other) < parameters
            ):
                yield other


def _is_related(own: Name, other: Name) -> bool:
    """Return whether two models are of one publisher and family, and the other is of no kind that
    was not asked for."""
    return (
        own.owner == other.owner
        and bool(_telling(own) & _telling(other))
        and not _KINDS & other.words - own.words
        and _likeness(own, other) > 0
    )


def _likeness(own: Name, other: Name) -> int:
    """Return twice the words and versions that both names have, less the words that only the other
    has; one more where both are tuned to instructions or neither is."""
    shared = _telling(own) & _telling(other) | own.numbers & other.numbers
    added = _telling(other) - own.words - DESCRIPTIVE
    return 2 * len(shared) - len(added) + (own.tuned == other.tuned)


def _telling(name: Name) -> frozenset[str]:
    return name.words - SILENT


def _nominal(name: Name) -> float:
    """Return the parameters that a name says; 0 where it says none."""
    return max(map(scaled, name.sizes), default=0.0)


def smaller_in_words(model: Model, how: str = "") -> str:
    """Return 'use MODEL in awq, a smaller model of 32.8 billion parameters'. how: ' in awq' or
    nothing."""
    size = f"{responses.parameters(model) / 1e9:.3g} billion parameters"
    return f"use {model.id}{how}{SMALLER}{size}"
