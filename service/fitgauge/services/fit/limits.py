"""Limits of a deployment: tokens, context, requests, and the fewest GPUs it fits on.

Each limit fits when the question is asked again with it: verdict `fits`, not just expected to.
"""

from collections.abc import Callable

from fitgauge.engine.accelerator import Accelerator, most_gpus
from fitgauge.engine.quantity import Bytes, Sum, largest_where, more
from fitgauge.engine.serving.doubt import doubt, doubted
from fitgauge.engine.serving.fit import (
    SURE,
    Pool,
    ServingLimits,
    cache_tokens,
    fit_probability,
    longest_context,
    most_requests,
    sure_room,
    unlike,
)
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.rope_scaling import scaled_context
from fitgauge.services.common.responses import COUNTS
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.query import FitEstimate

STEPS, EXACT_BITS = 16, 7
"""Estimates that close in on a limit, at most, and the share of it that may be missing. One or two
do where memory other than the cache barely grows with it."""

GUESSES = 4
"""Of these, those at what the estimate before says of the limit, which swings about it where other
memory grows as fast as the cache does; the others halve what is left."""

_SMALL = 16
"""GPUs up to which every number is tried."""

_STEP_BYTES = 2**18
"""How exactly the memory for the cache is known."""


def limits_of(checked: FitEstimate, estimator: Estimator) -> ServingLimits:
    """Return the limits on these GPUs: the tokens that the engine would log, and the longest
    context and the most requests that surely fit."""
    sure = sure_limits(checked)
    longest = context_limit(checked, sure, estimator)
    requests = request_limit(checked, sure, estimator)
    return limits_with(checked, longest, requests)


def limits_with(checked: FitEstimate, longest: int, requests: int | None) -> ServingLimits:
    """Return these limits with the tokens that the engine would log."""
    workload = checked.workload
    tokens = 0 if requests is None else cache_tokens_of(checked)
    if requests is not None and ENGINES[workload.engine].activations_grow_with_context:
        tokens = min(
            tokens, max(longest * workload.concurrency, requests * workload.context_length)
        )
    return ServingLimits(
        kv_cache_tokens=tokens, max_context_length=longest, max_concurrency=requests
    )


def context_limit(checked: FitEstimate, sure: ServingLimits, estimator: Estimator) -> int:
    """Return the longest context that surely fits. sure: what the cache alone allows."""
    return _confirmed(
        checked,
        estimator,
        "context_length",
        checked.workload.context_length,
        sure.max_context_length,
        _sure_context,
    )


def request_limit(checked: FitEstimate, sure: ServingLimits, estimator: Estimator) -> int | None:
    """Return the most requests that surely fit, None where memory sets no limit."""
    requests, split = checked.workload.concurrency, ENGINES[checked.workload.engine].split
    if sure.max_concurrency is None:
        return None
    if split is not None and split.cache_bytes is not None and checked.verdict == "fits":
        return max(requests, sure.max_concurrency)
    return _confirmed(
        checked, estimator, "concurrency", requests, sure.max_concurrency, _sure_requests
    )


def cache_tokens_of(checked: FitEstimate) -> int:
    """Return the tokens of cache that the engine would log, 0 where it does not start.

    A KV cache of a fixed size that does not fit holds no request, but has its tokens: the engine
    plans and logs them before it takes the memory. Source: vLLM 0.33, v1/engine/core.py,
    _initialize_kv_caches."""
    estimate = checked.estimate
    within = checked.required <= estimate.budget.expected
    starts = not within or checked.verdict != "does_not_fit"
    return cache_tokens(estimate) if starts or estimate.given_pool_bytes is not None else 0


def sure_limits(checked: FitEstimate) -> ServingLimits:
    """Return the limits of the cache that surely fits, as if all other memory stayed as it is."""
    pools = _sure_pools(checked)
    return ServingLimits(
        kv_cache_tokens=0,
        max_context_length=_sure_context(checked, pools),
        max_concurrency=_sure_requests(checked, pools) if pools else None,
    )


def sure_requests(checked: FitEstimate) -> int | None:
    """Return the `max_concurrency` of `sure_limits` alone."""
    pools = _sure_pools(checked)
    return _sure_requests(checked, pools) if pools else None


def is_queued(checked: FitEstimate) -> bool:
    """Return whether the engine answers one request of the model at a time."""
    return checked.query.spec.model_type in ENGINES[checked.workload.engine].queued


def requests_at_once(checked: FitEstimate) -> int | None:
    """Return the requests that a launch which fits surely runs at once as it is; None where memory
    sets no limit."""
    if is_queued(checked):
        return 1
    most = sure_requests(checked)
    return most and max(most, checked.workload.concurrency)


def _sure_context(checked: FitEstimate, pools: list[Pool]) -> int:
    """Return the longest context that these pools hold at the requested concurrency."""
    workload = checked.workload
    requests = workload.requests_per_replica
    ceiling = scaled_context(checked.query.spec, workload.rope_scaling_factor)
    ceiling = ceiling or workload.context_length
    return min(
        (longest_context(layout, pool, requests, ceiling) for layout, pool in pools),
        default=ceiling,
    )


def _sure_requests(checked: FitEstimate, pools: list[Pool]) -> int:
    """Return the most requests that these pools, of one stage or more, hold at the requested
    context."""
    length = checked.workload.context_length
    most = min(most_requests(layout, pool, length) for layout, pool in pools)
    return most * checked.workload.data_parallel


def _sure_pools(checked: FitEstimate) -> list[Pool]:
    """Return the largest cache of the stages that surely fits with the rest of them, of stages
    alike once."""
    profile, estimate = checked.query.profile, checked.estimate
    keeping = [stage for stage in estimate.stages if stage.layout.keeps]
    if checked.starting_probability < SURE:
        return unlike((stage.layout, 0) for stage in keeping)
    sizes: dict[tuple[Sum, int], int] = {}
    pools = []
    for stage in keeping:
        gpu = estimate.gpu_of(stage)
        key = stage.idle, id(gpu)
        if key not in sizes:
            fixed = doubted(stage.idle.interval(), stage.fixed_bytes, doubt(profile, gpu))
            sizes[key] = _sure_pool(fixed, estimate.budget_of(stage), estimate.given_pool_bytes)
        pools.append((stage.layout, sizes[key]))
    return unlike(pools)


def _sure_pool(fixed: Bytes, budget: Bytes, pool_bytes: int | None) -> int:
    """Return the largest cache that surely fits a budget in addition to `fixed`; given: the size
    of a cache given outright. All in bytes."""
    if pool_bytes is not None:
        return pool_bytes if fit_probability(more(fixed, pool_bytes), budget) >= SURE else 0
    most = max(0, budget.expected - fixed.expected)
    return _STEP_BYTES * largest_where(
        most // _STEP_BYTES,
        lambda steps: fit_probability(more(fixed, steps * _STEP_BYTES), budget) >= SURE,
        sure_room(fixed, budget) / _STEP_BYTES,
    )


def _confirmed(
    checked: FitEstimate,
    estimator: Estimator,
    name: str,
    requested: int,
    value: int,
    bound: Callable[[FitEstimate, list[Pool]], int],
) -> int:
    """Return the largest value of a field that fits when it is estimated, from a first `value`
    on. bound: what an estimate says of the limit, its other memory staying as it is there."""
    fits = checked.verdict == "fits"
    if not fits and _lacks_room_for_weights(checked):
        return 0
    best, ceiling = (requested, None) if fits else (0, requested)
    fixed = checked.estimate.fullest.fixed_bytes
    for step in range(STEPS):
        if ceiling is not None and (step > GUESSES or not best < value < ceiling):
            value = (best + ceiling) // 2
        if value <= best + (best >> EXACT_BITS):
            return best
        tried = estimator.possible(estimator.change(checked.query, {name: value}))
        if tried is not None and tried.verdict == "fits":
            best = value
            if tried.estimate.fullest.fixed_bytes == fixed:
                return best
        else:
            ceiling = value
        value = 0 if tried is None else bound(tried, _sure_pools(tried))
    return best


def _lacks_room_for_weights(checked: FitEstimate) -> bool:
    """Return whether the weights alone are expected to exceed what the engine may use, so that no
    smaller workload fits."""
    estimate = checked.estimate
    return any(
        sum(term.bytes for term in stage.fixed if term.name == "weights")
        > estimate.budget_of(stage).expected
        for stage in estimate.stages
    )


def fewest_gpus(checked: FitEstimate, estimator: Estimator) -> int | None:
    """Return the least number of GPUs, up to 64, that it fits on with nothing else changed: of 1,
    2, 4, ... 64 and the requested count first, then of those between; None for GPUs of several
    kinds, and where the machine does not hold what is offloaded."""
    if checked.query.match.unlike or checked.lacks_host:
        return None
    accelerator = checked.query.accelerator
    failed = 0
    for count in sorted({*deployable(accelerator, *COUNTS), checked.count}):
        if _fits_on(count, checked, estimator):
            # of machines with unified memory, those of the question are linked; so are fewer
            linked = accelerator.unified_memory and count == checked.count
            counts = tuple(_between(failed, count))
            between = counts if linked else deployable(accelerator, *counts)
            return next((one for one in between if _fits_on(one, checked, estimator)), count)
        failed = count
    return None


def _between(low: int, high: int) -> range:
    """Return the counts to try between two: all up to 16, then whole halves of a node."""
    step = high // 8 if high > _SMALL else 1
    return range(low + step, high, step)


def _fits_on(count: int, checked: FitEstimate, estimator: Estimator) -> bool:
    """Return whether it fits on `count` GPUs."""
    if count == checked.count:
        return checked.verdict == "fits"
    on_host = checked.workload.tensor_parallel * sum(checked.host_tables)
    least = (checked.prepared.total_bytes - on_host) // count - checked.workload.cpu_offload_bytes
    states_layers = checked.workload.offloads and not checked.workload.cpu_offload_bytes
    if not states_layers and least > checked.estimate.accelerator.usable.expected:
        return False
    return estimator.fits(estimator.change(checked.query, {"gpu_count": count}, count=count))


def deployable(accelerator: Accelerator, *counts: int) -> tuple[int, ...]:
    """Return those of these GPU counts that one deployment can use."""
    return tuple(count for count in counts if count <= most_gpus(accelerator, count))
