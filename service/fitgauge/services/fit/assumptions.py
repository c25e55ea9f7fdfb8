"""What a fit answer assumes where the request leaves a field out."""

from collections.abc import Iterator

from fitgauge.engine.quantity import gib
from fitgauge.services.common.assumptions import default_of, size_assumed
from fitgauge.services.common.positions import scaling_assumed
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.fit.query import FitEstimate

_OF_IMAGES = {
    "encoder": "Images are held as the engine reserves for them at its start, the largest that"
    " the model reads",
    "encoder_cache": "Images are held in the engine's cache of embeddings",
    "projector": "Images are read one at a time by the projector, which --no-mmproj leaves out",
}
"""By term: what it is assumed to hold."""


def assumptions(checked: FitEstimate) -> list[Assumption]:
    """Return the shape of a size, and the engine and the load of a request that sets none."""
    request, workload = checked.query.request, checked.workload
    assumed = list(size_assumed(checked.query.model))
    if request.engine is None:
        assumed.append(default_of("engine", workload.engine))
    if request.context_length is None:
        maximum = checked.query.spec.max_context_length
        limit = f" tokens; the model's maximum is {maximum:,}" if maximum else " tokens"
        assumed.append(default_of("context_length", workload.context_length, limit))
    if request.concurrency is None:
        assumed.append(default_of("concurrency", workload.concurrency))
    assumed += scaling_assumed(request, checked.query.spec, workload)
    return [*assumed, *_images(checked)]


def _images(checked: FitEstimate) -> Iterator[Assumption]:
    """Yield the room for images, which the engine takes from the model and no request sets."""
    for stage in checked.estimate.stages:
        for term in stage.fixed:
            if term.name in _OF_IMAGES:
                what = _OF_IMAGES[term.name]
                yield Assumption("images", term.bytes, f"{what}: {gib(term.bytes)}.")
                return
