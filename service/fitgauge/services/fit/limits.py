"""Limits of a deployment: tokens, context, requests, and the fewest GPUs it fits on."""

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator, most_cards
from fitgauge.engine.quantity import largest_where
from fitgauge.engine.serving.fit import ServingLimits, serving_limits
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.responses import COUNTS
from fitgauge.services.fit.estimate import Estimator, FitEstimate

_ANY_DEGREES = dict.fromkeys(
    ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel")
)


def limits_of(checked: FitEstimate, estimator: Estimator) -> ServingLimits:
    """Return the limits on these GPUs, re-estimated for engines whose activations grow with the
    context."""
    limits = held_limits(checked)
    return (
        _reached(limits, checked, estimator)
        if ENGINES[checked.workload.engine].activations_grow_with_context
        else limits
    )


def held_limits(checked: FitEstimate) -> ServingLimits:
    """Return the limits of the memory left by the weights.

    They are 0 where memory outside the engine's share prevents its start. A KV cache of a fixed
    size that does not fit next to the weights holds no request; its tokens are reported as long
    as the GPU could hold it alone.
    """
    workload, estimate = checked.workload, checked.estimate
    limits = serving_limits(
        estimate,
        concurrency=workload.requests_per_replica,
        context_length=workload.context_length,
        data_parallel=workload.data_parallel,
        max_context_length=checked.asked.spec.max_context_length or workload.context_length,
    )
    given, within = estimate.given_pool_bytes, checked.required <= estimate.budget.expected
    starts_not = given is None and within and checked.verdict == "does_not_fit"
    if limits.max_concurrency is None or not (starts_not or (given is not None and not within)):
        return limits
    tokens = (
        limits.kv_cache_tokens
        if given is not None and given <= estimate.accelerator.usable.high
        else 0
    )
    return ServingLimits(kv_cache_tokens=tokens, max_context_length=0, max_concurrency=0)


def _reached(limits: ServingLimits, checked: FitEstimate, estimator: Estimator) -> ServingLimits:
    """At most what `limits` say, as far as the whole question then fits."""

    def fits(name: str, value: int) -> bool:
        tried = estimator.possible(estimator.change(checked.asked, {name: value}))
        return tried is not None and tried.required <= tried.estimate.budget.expected

    longest = largest_where(
        limits.max_context_length, lambda length: fits("context_length", length)
    )
    if limits.max_concurrency is None:
        return structs.replace(limits, max_context_length=longest)
    requests = largest_where(limits.max_concurrency, lambda number: fits("concurrency", number))
    tokens = limits.kv_cache_tokens * requests // max(1, limits.max_concurrency)
    return structs.replace(
        limits, max_context_length=longest, max_concurrency=requests, kv_cache_tokens=tokens
    )


def fewest_cards(checked: FitEstimate, estimator: Estimator) -> int | None:
    """Return the least of 1, 2, 4, ... 64 GPUs, or the requested count, that it fits on, for any
    degrees."""
    for count in sorted({*deployable(checked.asked.accelerator, *COUNTS), checked.count}):
        if count == checked.count and checked.verdict == "fits":
            return count
        if checked.prepared.total_bytes > count * checked.estimate.budget.expected:
            continue
        tried = estimator.possible(estimator.change(checked.asked, _ANY_DEGREES, count=count))
        if tried is not None and tried.verdict == "fits":
            return count
    return None


def deployable(accelerator: Accelerator, *counts: int) -> tuple[int, ...]:
    """Return those of these GPU counts that one deployment can use."""
    return tuple(count for count in counts if count <= most_cards(accelerator, count))
