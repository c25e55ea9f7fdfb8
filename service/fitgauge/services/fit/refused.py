"""What runs instead of a question that an engine refuses."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import structs

from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.platforms import engines_for
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common.responses import MOST_SUGGESTIONS
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.fit.candidates import Fields, Sent, alternatives, smaller_elsewhere
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.limits import fewest_gpus, limits_of
from fitgauge.services.fit.quantized_repos import QuantizedRepo
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.suggest import running, suggestion_of, suggestions, to_send


def instead_of_refused(
    checked: FitEstimate, estimator: Estimator, siblings: Sequence[QuantizedRepo]
) -> list[Suggestion]:
    """Return what runs on this GPU where what was requested does not: a context that the model
    reads, or another format or engine."""
    query = checked.query
    if checked.too_long:
        return _shorter(checked, checked.too_long, estimator, siblings)
    changes: Iterable[tuple[str, Mapping[str, Sent]]] = alternatives(query.request, query.spec)
    if checked.over_slices:
        changes = [("run a copy on each slice", {"gpu_count": 1})]
    results = list(running(changes, query, estimator))
    if not results:
        results = list(running(smaller_elsewhere(engines_for(query.accelerator)), query, estimator))
    return results[:MOST_SUGGESTIONS]


_TO_READ = {
    "engine": "use {}, which stretches the model's positions by YaRN",
    "rope_scaling_factor": "stretch the model's positions by YaRN, factor {}",
    "context_length": "lower context_length to {:,} tokens",
}
"""What to do about a context that is too long, by the field of the request."""


def _shorter(
    checked: FitEstimate,
    too_long: UnsupportedError,
    estimator: Estimator,
    siblings: Sequence[QuantizedRepo],
) -> list[Suggestion]:
    """Return models alike that read the context, how this one does, and the longest that it reads;
    with one more change where they need it."""
    query = checked.query
    engines = engines_for(query.accelerator)
    tried: list[tuple[str, Fields, Model | None]] = [
        (
            f"use {one.text}, which reads {one.model.spec.max_context_length:,} tokens",
            {"model": one.text},
            one.model,
        )
        for one in siblings
    ]
    for name, values in chain.from_iterable(one.items() for one in too_long.alternatives):
        value = next((one for one in values if name != "engine" or one in engines), None)
        if value is not None:
            tried.append((_TO_READ[name].format(value), {name: value}, None))
    results: list[Suggestion] = []
    for change, fields, model in tried:
        again = estimator.possible(estimator.change(query, fields, model=model))
        if again is None or again.refused is not None:
            continue
        sent = to_send(fields, query, again)
        if again.verdict != "does_not_fit":
            results.append(suggestion_of(change, sent, again, estimator))
            continue
        fewest = fewest_gpus(again, estimator)
        more = suggestions(again, limits_of(again, estimator), fewest, estimator, ())
        results += [
            structs.replace(one, change=f"{change}, and {one.change}", request=sent | one.request)
            for one in more[:2]
            if not one.request.keys() & sent.keys()
        ]
    return results[:MOST_SUGGESTIONS]
