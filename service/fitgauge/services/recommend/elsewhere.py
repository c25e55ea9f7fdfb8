"""Other GPUs as suggestions, where no change helps on those that were named."""

from collections.abc import Iterator, Sequence

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.model.model import Model
from fitgauge.services.common import parsing
from fitgauge.services.common.need_schemas import Fields, SmallestGpus
from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.suggest import suggestion_of

_DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
"""Fields that divide the model over the GPUs that were named. One alone would imply others."""


def worth_naming(smallest: Sequence[SmallestGpus]) -> Iterator[SmallestGpus]:
    """Yield the fewest GPUs of the first format, or method, and the cheapest of all, unless that
    takes a cluster where one machine does."""
    for first in smallest[:1]:
        yield first
        most = max(first.gpu_count, USUAL_NODE)
        cheapest = [one for one in smallest[1:] if "cheapest" in one.reasons]
        yield from [one for one in cheapest if one.gpu_count <= most][-1:]


def change_in_words(one: SmallestGpus, others: str = "") -> str:
    """Return 'take 3 x B300 in awq instead, from 20.82 USD an hour'. others: ' in awq'."""
    gpus = f"one {one.gpu}" if one.gpu_count == 1 else f"{one.gpu_count} x {one.gpu}"
    price = "" if one.usd_per_hour is None else f", from {one.usd_per_hour:.2f} USD an hour"
    return f"take {gpus}{others} instead{price}"


def as_suggestion(
    one: SmallestGpus, match: GpuMatch, request: FitRequest, model: Model, estimator: Estimator
) -> Suggestion | None:
    """Return GPUs as a change of a question; None where it does not fit on them with all else that
    it says. match: one GPU of the kind."""
    fields: Fields = {"gpu": one.gpu, "gpu_count": one.gpu_count}
    others = ""
    engine, quantization = one.request["engine"], one.request.get("quantization")
    if engine != parsing.engine(request.engine):
        fields["engine"], others = engine, f" with {engine}"
    if quantization is not None and quantization != request.quantization:
        fields["quantization"] = quantization
        others = ("" if quantization == parsing.AS_PUBLISHED else f" in {quantization}") + others
    is_divided = any(getattr(request, name) is not None for name in _DEGREES)
    changed = structs.replace(request, **(dict.fromkeys(_DEGREES) | fields))
    query = estimator.ask(changed, model, match, count=one.gpu_count)
    checked = estimator.attempt(query)
    if checked is None or checked.refused is not None or checked.verdict != "fits":
        return None
    if estimator.exceeds_host(checked):
        return None
    freed = {name: getattr(checked.workload, name) for name in _DEGREES if is_divided}
    return suggestion_of(change_in_words(one, others), freed | fields, checked, estimator)
