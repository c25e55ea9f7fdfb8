"""What a fit answer assumes where the request leaves a field out."""

from fitgauge.services.common.assumptions import default_of, size_assumed
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.fit.query import FitEstimate


def assumptions(checked: FitEstimate) -> list[Assumption]:
    """Return the shape of a size, and the engine and the load of a request that sets none."""
    request, workload = checked.asked.request, checked.workload
    assumed = list(size_assumed(checked.asked.model))
    if request.engine is None:
        assumed.append(default_of("engine", workload.engine))
    if request.context_length is None:
        maximum = checked.asked.spec.max_context_length
        limit = f" tokens; the model's maximum is {maximum:,}" if maximum else " tokens"
        assumed.append(default_of("context_length", workload.context_length, limit))
    if request.concurrency is None:
        assumed.append(default_of("concurrency", workload.concurrency))
    return assumed
