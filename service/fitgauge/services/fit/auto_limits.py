"""Limits under `settings: "auto"`: what any layout reaches with its settings at the ends of their
ladders. Asked again, they fit."""

from math import inf

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.serving.fit import ServingLimits
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.limits import (
    EXACT_BITS,
    GUESSES,
    STEPS,
    context_limit,
    limits_of,
    limits_with,
    request_limit,
    sure_limits,
    sure_requests,
)
from fitgauge.services.fit.query import FitEstimate


def auto_limits(checked: FitEstimate, estimator: Estimator) -> ServingLimits:
    """Return the limits of a question that the engine runs: the cache of the launch that was
    chosen, and the longest context and most requests for which there is a launch that fits. Under
    `settings: "defaults"` all are of the same launch."""
    if checked.lacks_host:
        return limits_with(checked, 0, 0)
    if checked.query.request.settings == "defaults":
        return limits_of(checked, estimator)
    if checked.choice is not None or _copies_cache(checked):
        longest, most = _of_all_layouts(checked, estimator)
    else:
        longest, most = _of_default_layout(checked, estimator)
    return limits_with(checked.pinned, longest, most)


def _of_default_layout(checked: FitEstimate, estimator: Estimator) -> tuple[int, int | None]:
    """Return the limits where the engine's defaults fit: of the default layout, with settings at
    the ends of their ladders."""
    end = estimator.ends(checked, others=False)[0].pinned
    sure = sure_limits(end)
    longest, most = context_limit(end, sure, estimator), sure.max_concurrency
    if most is None:
        return longest, None
    own = checked.workload.concurrency
    return longest, _most_requests(checked, estimator, own, most, others=False)


def _of_all_layouts(checked: FitEstimate, estimator: Estimator) -> tuple[int, int | None]:
    """Return the limits of the layouts that hold most."""
    ends = _ends(checked, estimator)
    end, sure = max(ends, key=lambda one: one[1].max_context_length)
    longest = context_limit(end, sure, estimator)
    end, sure = max(ends, key=_requests)
    if sure.max_concurrency is None:
        return longest, None
    own = request_limit(checked.pinned, sure_limits(checked), estimator) or 0
    return longest, _most_requests(checked, estimator, own, sure.max_concurrency)


def _most_requests(
    checked: FitEstimate, estimator: Estimator, best: int, value: int, *, others: bool = True
) -> int:
    """Return the most requests that any layout, without `others` the default one, holds when they
    are estimated, from `best` on, which fit. value: what the cache alone allows, as if all other
    memory stayed as it is."""
    ceiling = value + 1
    for step in range(STEPS):
        if value <= best + (best >> EXACT_BITS):
            break
        more = estimator.change(checked.query, {"concurrency": value})
        ends = [end.pinned for end in estimator.ends_of(more, others=others)]
        fitting = [end for end in ends if end.verdict == "fits"]
        if fitting:
            best = value
        else:
            ceiling = value
        value = max((sure_requests(end) or 0 for end in fitting or ends), default=0)
        if step >= GUESSES or not best < value < ceiling:
            value = (best + ceiling) // 2
    return best


def _ends(checked: FitEstimate, estimator: Estimator) -> list[tuple[FitEstimate, ServingLimits]]:
    """Return what the question takes at the ends of all ladders, by layout, with the limits that
    the cache alone sets."""
    ends = [end.pinned for end in estimator.ends(checked)] or [checked.pinned]
    return [(end, sure_limits(end)) for end in ends]


def _requests(end: tuple[FitEstimate, ServingLimits]) -> float:
    most = end[1].max_concurrency
    return inf if most is None else most


def _copies_cache(checked: FitEstimate) -> bool:
    """Return whether ranks hold copies of the cache, so that another layout holds more."""
    ranks = checked.workload.tensor_parallel
    return ranks > 1 and any(
        isinstance(mixer, LatentAttention)
        or (isinstance(mixer, Attention) and mixer.kv_heads < ranks)
        for block in checked.query.spec.blocks
        for mixer in block.mixers
    )
