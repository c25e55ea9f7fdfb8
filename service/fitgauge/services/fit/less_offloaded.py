"""What to do where a question offloads more than the machine has."""

from collections.abc import Sequence

from msgspec import structs

from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.fit.auto_limits import auto_limits
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.limits import fewest_gpus
from fitgauge.services.fit.quantized_repos import QuantizedRepo
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.suggest import suggestion_of, suggestions

_NOTHING = {"kv_offload_gib": 0, "cpu_offload_gib": 0, "n_cpu_moe": 0}
_ALL_LAYERS = 1000
"""Layers on the GPUs, more than a model has."""


def nothing_offloaded(request: FitRequest) -> dict[str, str | int | float | bool]:
    """Return the fields that keep on the GPUs what a request offloads."""
    sent = {name: value for name, value in _NOTHING.items() if getattr(request, name)}
    layers = {} if request.n_gpu_layers is None else {"n_gpu_layers": _ALL_LAYERS}
    return {**sent, **layers}


def less_offloaded(
    checked: FitEstimate, estimator: Estimator, siblings: Sequence[QuantizedRepo]
) -> list[Suggestion]:
    """Return what fits where nothing of what the question offloads is, with no more in host memory
    than the machine holds: the question itself, or the changes that make it fit."""
    sent = nothing_offloaded(checked.query.request)
    whole = estimator.check(estimator.change(checked.query, sent))
    if whole.refused is not None:
        return []
    if whole.verdict == "fits":
        return [suggestion_of("offload nothing", sent, whole, estimator)]
    limits, fewest = auto_limits(whole, estimator), fewest_gpus(whole, estimator)
    changes = suggestions(whole, limits, fewest, estimator, siblings)
    return [structs.replace(one, request=sent | one.request) for one in changes]
