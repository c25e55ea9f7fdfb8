"""A smaller model of the same family, as a change where no other helps on the GPUs that were
named."""

from collections.abc import Iterator

from fitgauge.catalog.name_parts import DESCRIPTIVE, KINDS, SILENT, Name, scaled
from fitgauge.catalog.releases import release_month
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common import responses as answers
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.fit.candidates import gguf_files
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.query import FitQuery
from fitgauge.services.fit.suggest import suggestion_of

_LEAST_BITS = 4
"""Of a weight, in the smallest format that is tried."""
_OLDER_MONTHS = 9
"""How much older than the model that was asked about a suggested one is, at most."""


class SmallerModels:
    """Finds bundled models of the same publisher and family with fewer parameters. No I/O."""

    def __init__(self, models: ModelResolver) -> None:
        """Look them up in the snapshot of `models`."""
        self._models = models

    def find(self, model: Model, most_bytes: float) -> Iterator[Model]:
        """Yield them, the one whose name says most alike first, of equal ones the largest, of these
        the newest. Left out are older ones, those of other tasks, and those that surely take more
        than `most_bytes`."""
        own, parameters = Name.of(model.id), answers.parameters(model)
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
                and answers.parameters(other) < parameters
            ):
                yield other


def _is_related(own: Name, other: Name) -> bool:
    """Return whether two models are of one publisher and family, and the other is of no kind that
    was not asked for."""
    return (
        own.owner == other.owner
        and bool(_telling(own) & _telling(other))
        and not KINDS & other.words - own.words
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


def smaller_model(
    query: FitQuery,
    models: SmallerModels,
    estimator: Estimator,
    checkpoint: Checkpoint = no_checkpoint,
) -> Suggestion | None:
    """Return the first smaller model that fits, in the widest format that does, as a change of the
    question; None where none does."""
    if query.original.draft_model:
        return None
    for model in models.find(query.model, query.count * query.accelerator.usable.high):
        for change in _formats(query, model):
            checkpoint()
            fields = {"model": model.id, **change}
            again = estimator.attempt(estimator.change(query, fields, model=model, siblings=()))
            if (
                again is None
                or again.refused is not None
                or again.verdict != "fits"
                or estimator.exceeds_host(again)
            ):
                continue
            words = f"use {model.id}{_in_words(change)}, a smaller model"
            size = f"{answers.parameters(model) / 1e9:.3g} billion parameters"
            return suggestion_of(f"{words} of {size}", {**fields}, again, estimator)
    return None


def _formats(query: FitQuery, model: Model) -> Iterator[dict[str, str]]:
    """Yield what to send for the formats of a model to try, wider ones first: as the question has
    it, in its engine's smaller formats, and as GGUF files, unless it names a format or an
    engine."""
    request, row = query.original, ENGINES[query.profile.engine]
    yield {}
    if request.quantization is None:
        if model.spec.quantization is None:
            yield from ({"quantization": scheme} for _, scheme in row.smaller_weights)
        if request.engine is None and request.engine_version is None:
            yield from (fields for _, fields in gguf_files())


def _in_words(change: dict[str, str]) -> str:
    """Return ' in awq', ' in q4_k_m with llama.cpp' or nothing."""
    form, engine = change.get("quantization"), change.get("engine")
    return (f" in {form}" if form else "") + (f" with {engine}" if engine else "")
