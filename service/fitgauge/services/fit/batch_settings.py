"""`settings: "auto"` in lists and tables: steps A to C in the default layout, each at its end, so
that a cell takes three estimates at most. See services/fit/auto_settings.py for one question."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.fit import Allowance
from fitgauge.engine.serving.ladders import Share
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.demands import Demand, LaunchDemand
from fitgauge.services.fit.query import Settings
from fitgauge.services.fit.workload import with_settings

_SHARE = "gpu_memory_utilization"


class Step(NamedTuple):
    """One way to start the engine."""

    changed: Settings
    """What is changed from the engine's defaults."""
    demand: Demand
    """What that demands."""


class BestLaunch:
    """The launch of a question on so many of a GPU, under any number of requests: the first of
    the steps that fits; where none does the likeliest, and where none is likely the least."""

    def __init__(
        self,
        fitting: BatchEstimator,
        request: FitRequest,
        accelerator: Accelerator,
        launch: LaunchDemand,
    ) -> None:
        """launch: with the engine's defaults."""
        self._fitting = fitting
        self._request = request
        self._accelerator = accelerator
        self._launch = launch

    def under(self, concurrency: int) -> BatchEstimate:
        """Return the estimate of so many requests. Raises as `BatchEstimator.fitted`."""
        fitting, request, accelerator = self._fitting, self._request, self._accelerator
        default = self._launch.under(concurrency)
        judged = fitting.against(default, accelerator)
        if judged.verdict == "fits" or request.settings == "defaults":
            return judged
        later = later_steps(fitting, request, default, accelerator)
        return chosen(fitting, request, [Step({}, default), *later], accelerator, judged)


def best_estimate(
    fitting: BatchEstimator,
    request: FitRequest,
    engine: EngineName,
    accelerator: Accelerator,
    count: int,
) -> BatchEstimate:
    """Return the `BestLaunch` under the requests asked for. Raises as `BatchEstimator.fitted`."""
    workload = fitting.workload(request, engine, accelerator, count)
    launch = fitting.launch(request.quantization, workload, accelerator)
    return BestLaunch(fitting, request, accelerator, launch).under(workload.concurrency)


def ends(
    spec: ModelSpec, request: FitRequest, workload: Workload, accelerator: Accelerator
) -> tuple[Settings, ...]:
    """Return what is changed from the defaults by step B at its end, and by step C where the share
    of the GPU changes what is needed; the same for every format of the weights."""
    row = ENGINES[workload.engine]
    lowest: dict[str, int | float | bool] = {}
    for ladder in row.ladders.batch:
        if getattr(request, ladder.setting) is not None:
            continue
        limited = with_settings(workload, lowest, request)
        values = ladder.values(row.with_defaults(limited, spec, accelerator), spec, accelerator)
        if values:
            lowest[ladder.setting] = values[-1]
    changes: list[Settings] = [lowest] if lowest else []
    share = _open_share(request, workload)
    if share is not None and not row.budget_is_device_share:
        settled = row.with_defaults(workload, spec, accelerator)
        if higher := share.higher(settled.gpu_memory_utilization):
            changes.append({**lowest, _SHARE: higher[-1]})
    return tuple(changes)


def later_steps(
    fitting: BatchEstimator, request: FitRequest, default: Demand, accelerator: Accelerator
) -> Iterator[Step]:
    """Yield the steps after the first. default: what that demands."""
    workload = default.workload
    for changed in ends(fitting.spec, request, workload, accelerator):
        try:
            launch = default.launch.changed(changed, request)
            yield Step(changed, launch.under(workload.concurrency))
        except IMPOSSIBLE:
            continue


def chosen(
    fitting: BatchEstimator,
    request: FitRequest,
    steps: list[Step],
    accelerator: Accelerator,
    first: BatchEstimate | None = None,
) -> BatchEstimate:
    """Return the first of the steps that fits, the last also with other shares of the GPU; else
    the likeliest, else the least. first: the estimate of the first step, which does not fit."""
    tried = [] if first is None else [first]
    for changed, demand in steps[len(tried) :]:
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


def _open_share(request: FitRequest, workload: Workload) -> Share | None:
    """Return the share of the GPU that may be changed; None where it is pinned or there is
    none."""
    pinned = request.gpu_memory_utilization is not None
    is_fixed = workload.kv_cache_memory_bytes is not None
    return None if pinned or is_fixed else ENGINES[workload.engine].ladders.share


def largest_share(request: FitRequest, workload: Workload) -> float:
    """Return the largest share of the GPU that a step may give the engine. workload: with any of
    the steps."""
    default = workload.gpu_memory_utilization
    if request.settings == "defaults":
        return default
    share = _open_share(request, workload)
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
    default = judged.workload.gpu_memory_utilization
    share = _open_share(request, step.demand.workload)
    if share is None or not ENGINES[judged.workload.engine].budget_is_device_share:
        return None

    def allowance_at(value: float) -> Allowance:
        return fitting.allowance_at(value, judged, accelerator)

    if judged.allowance.is_left:
        values = share.higher(default)
        while values and not allowance_at(values[-1]).is_left:
            values = values[:-1]
    else:
        lower = share.lower(default)
        left = (at for at, value in enumerate(lower, 1) if allowance_at(value).is_left)
        values = lower[: next(left, None)]
    if not values:
        return None

    def at_share(value: float) -> BatchEstimate:
        allowance = allowance_at(value)
        workload = structs.replace(judged.workload, gpu_memory_utilization=value)
        chance = allowance.probability(judged.required)
        changed = {**step.changed, _SHARE: value}
        return BatchEstimate(workload, judged.required, allowance, chance, changed)

    end = at_share(values[-1])
    if end.verdict != "fits":
        return end
    nearest = bisect_left(values, True, key=lambda value: at_share(value).verdict == "fits")
    return at_share(values[nearest])
