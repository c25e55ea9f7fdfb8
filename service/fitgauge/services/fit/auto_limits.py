"""Limits under `settings: "auto"`: what any layout reaches with its settings at the ends of their
ladders. Asked again, they fit."""

from collections.abc import Sequence
from dataclasses import replace

from fitgauge.engine.model.spec import Attention, LatentAttention
from fitgauge.engine.serving.fit import ServingLimits, cache_tokens
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.limits import limits_of
from fitgauge.services.fit.query import FitEstimate


def auto_limits(checked: FitEstimate, estimator: Estimator) -> ServingLimits:
    """Return the limits of a question: the cache of the launch that was chosen, and the longest
    context and most requests for which there is a launch that fits. Under `settings: "defaults"`
    all are of the same launch."""
    if checked.asked.request.settings == "defaults" or checked.refused:
        return limits_of(checked, estimator)
    by_default = checked.choice is None
    largest = estimator.at_largest_share(checked) if by_default else checked
    own = limits_of(largest.pinned, estimator)
    reached = [own]
    longest = max(one.max_context_length for one in reached)
    maximum = checked.asked.spec.max_context_length
    confirm = not by_default or _copies_cache(checked)
    if confirm or longest != maximum:
        ends = estimator.ends(checked)
        limits = [limits_of(end.pinned, estimator) for end in ends]
        longest = max([longest, *(one.max_context_length for one in limits)])
        reached += [
            one
            for end, one in zip(ends, limits, strict=True)
            if confirm or _runs(end, one.max_concurrency)
        ]
    most = _most_requests(reached)
    if confirm and most is not None and most > (own.max_concurrency or 0):
        most = max(own.max_concurrency or 0, _confirmed(most, checked, estimator))
    return ServingLimits(
        kv_cache_tokens=own.kv_cache_tokens
        if largest is checked
        else cache_tokens(checked.estimate),
        max_context_length=longest,
        max_concurrency=most,
    )


def _confirmed(most: int, checked: FitEstimate, estimator: Estimator) -> int:
    """Return the most requests for which a launch fits. `most` fit next to what the scheduler
    takes for the requests of the question; for more it takes more."""
    asked = estimator.change(checked.asked, {"concurrency": most})
    ends = estimator.ends(replace(checked, asked=asked))
    if any(end.verdict == "fits" for end in ends):
        return most
    least = _most_requests([limits_of(end.pinned, estimator) for end in ends]) or 0
    return min(most, least)


def _most_requests(reached: Sequence[ServingLimits]) -> int | None:
    """Return the most requests of all; None where memory sets no limit."""
    counts = [one.max_concurrency for one in reached if one.max_concurrency is not None]
    return max(counts) if len(counts) == len(reached) else None


def _runs(end: FitEstimate, requests: int | None) -> bool:
    """Return whether the scheduler's limits of a launch suffice for so many requests."""
    replicas = end.workload.data_parallel
    return requests is None or requests <= replicas * end.workload.max_num_seqs


def _copies_cache(checked: FitEstimate) -> bool:
    """Return whether ranks hold copies of the cache, so that another layout holds more."""
    ranks = checked.workload.tensor_parallel
    return ranks > 1 and any(
        isinstance(mixer, LatentAttention)
        or (isinstance(mixer, Attention) and mixer.kv_heads < ranks)
        for block in checked.asked.spec.blocks
        for mixer in block.mixers
    )
