"""`settings: "auto"` in lists and tables: steps A to C in the default layout, each at its end, so
that a cell takes three estimates at most. See services/fit/auto_settings.py for one question."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import NOTHING
from fitgauge.engine.serving.fit import starting_probability, verdict
from fitgauge.engine.serving.ladders import Share
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator, Demand
from fitgauge.services.fit.query import Settings

_SHARE = "gpu_memory_utilization"


class Step(NamedTuple):
    """One way to start the engine."""

    changed: Settings
    """What is changed from the engine's defaults."""
    demand: Demand
    """What that demands."""


def best_estimate(
    fitting: BatchEstimator,
    request: FitRequest,
    engine: EngineName,
    accelerator: Accelerator,
    count: int,
) -> BatchEstimate:
    """Return the first of the steps that fits; where none does the likeliest, and where none is
    likely the least. Raises as `BatchEstimator.fitted`."""
    default = fitting.demand(request, engine, accelerator, count)
    judged = fitting.against(default, accelerator)
    if judged.verdict == "fits" or request.settings == "defaults":
        return judged
    later = later_steps(fitting, request, default, accelerator, count)
    return chosen(fitting, request, [Step({}, default), *later], accelerator)


def later_steps(
    fitting: BatchEstimator,
    request: FitRequest,
    default: Demand,
    accelerator: Accelerator,
    count: int,
) -> Iterator[Step]:
    """Yield step B at its end, and step C where the share of the GPU changes what is needed.

    default: what step A demands."""
    engine = default.workload.engine
    row = ENGINES[engine]
    lowest: dict[str, int | float | bool] = {}
    for ladder in row.ladders.batch:
        if getattr(request, ladder.setting) is not None:
            continue
        workload = fitting.workload(structs.replace(request, **lowest), engine, accelerator, count)
        settled = row.with_defaults(workload, fitting.spec, accelerator)
        values = ladder.values(settled, fitting.spec, accelerator)
        if values:
            lowest[ladder.setting] = values[-1]
    ends = [lowest] if lowest else []
    share = _open_share(request, default)
    if share is not None and not row.budget_is_device_share:
        settled = row.with_defaults(default.workload, fitting.spec, accelerator)
        if higher := share.higher(settled.gpu_memory_utilization):
            ends.append({**lowest, _SHARE: higher[-1]})
    for changed in ends:
        try:
            demand = fitting.demand(structs.replace(request, **changed), engine, accelerator, count)
        except IMPOSSIBLE:
            continue
        yield Step(changed, demand)


def chosen(
    fitting: BatchEstimator, request: FitRequest, steps: list[Step], accelerator: Accelerator
) -> BatchEstimate:
    """Return the first of the steps that fits, the last also with other shares of the GPU; else
    the likeliest, else the least."""
    tried: list[BatchEstimate] = []
    for changed, demand in steps:
        judged = fitting.against(demand, accelerator)._replace(changed=changed)
        if judged.verdict == "fits":
            return judged
        tried.append(judged)
    shared = _with_share(fitting, request, steps[-1], tried[-1], accelerator)
    if shared is not None:
        tried.append(shared)
    best = max(tried, key=lambda one: one.probability)
    if best.verdict != "does_not_fit":
        return best
    return min(reversed(tried), key=lambda one: one.required.expected)


def _open_share(request: FitRequest, demand: Demand) -> Share | None:
    """Return the share of the GPU that may be changed; None where it is pinned or there is
    none."""
    pinned = request.gpu_memory_utilization is not None
    is_fixed = demand.workload.kv_cache_memory_bytes is not None
    return None if pinned or is_fixed else ENGINES[demand.workload.engine].ladders.share


def largest_share(request: FitRequest, demand: Demand) -> float:
    """Return the largest share of the GPU that a step may give the engine."""
    default = demand.workload.gpu_memory_utilization
    if request.settings == "defaults":
        return default
    share = _open_share(request, demand)
    return default if share is None else max(default, share.highest)


def _with_share(
    fitting: BatchEstimator,
    request: FitRequest,
    step: Step,
    judged: BatchEstimate,
    accelerator: Accelerator,
) -> BatchEstimate | None:
    """Return a step with the share nearest to the default that fits, at worst the last that
    leaves room for what lies outside; None where the share does not move, or the need with it."""
    workload = judged.workload
    row, share = ENGINES[workload.engine], _open_share(request, step.demand)
    if share is None or not row.budget_is_device_share:
        return None

    def rest_fits(value: float) -> bool:
        budget = row.budget(accelerator, structs.replace(workload, gpu_memory_utilization=value))
        chance = starting_probability(NOTHING, budget, judged.outside, accelerator.usable)
        return verdict(chance) == "fits"

    default = workload.gpu_memory_utilization
    if rest_fits(default):
        values = share.higher(default)
        while values and not rest_fits(values[-1]):
            values = values[:-1]
    else:
        lower = share.lower(default)
        values = lower[: next((at for at, one in enumerate(lower, 1) if rest_fits(one)), None)]
    if not values:
        return None

    def at_share(value: float) -> BatchEstimate:
        demand = step.demand._replace(
            workload=structs.replace(step.demand.workload, gpu_memory_utilization=value)
        )
        return fitting.against(demand, accelerator, judged.outside)._replace(
            changed={**step.changed, _SHARE: value}
        )

    end = at_share(values[-1])
    if end.verdict != "fits":
        return end
    nearest = bisect_left(values, True, key=lambda value: at_share(value).verdict == "fits")
    return at_share(values[nearest])
