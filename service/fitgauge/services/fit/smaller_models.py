"""A smaller model of the same family, as a change where no other helps on the GPUs that were
named."""

from collections.abc import Iterator

from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.common.smaller_models import SmallerModels, smaller_in_words
from fitgauge.services.fit.candidates import gguf_files
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.query import FitQuery
from fitgauge.services.fit.suggest import suggestion_of


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
            words = smaller_in_words(model, _in_words(change))
            return suggestion_of(words, {**fields}, again, estimator)
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
            yield from (fields for _, fields in gguf_files(model.spec))


def _in_words(change: dict[str, str]) -> str:
    """Return ' in awq', ' in q4_k_m with llama.cpp' or nothing."""
    form, engine = change.get("quantization"), change.get("engine")
    return (f" in {form}" if form else "") + (f" with {engine}" if engine else "")
