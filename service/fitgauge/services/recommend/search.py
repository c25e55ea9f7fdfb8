"""Every way to serve a model on the GPUs at hand, and of those that fit the ones that nothing
beats."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.decode import DecodeSpeed, step_cache, step_weights
from fitgauge.engine.performance.flops import token_flops
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common import parsing
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.common.weight_cache import CachedWeights
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_steps import LaunchKind, LaunchSteps
from fitgauge.services.fit.floors import Floors
from fitgauge.services.fit.workload import context_length_of, degrees
from fitgauge.services.recommend.gpu_options import (
    GpuOption,
    GpuPool,
    Plan,
    Rate,
    Waits,
    gpu_option,
)
from fitgauge.services.recommend.pareto import Criteria, ParetoFront, ParetoFronts, criteria

MOST_GPUS = 16

_FLOAT32 = BITS["F32"]
"""Bits of weights whose cache is as wide; of all others a workload is the same."""


class SearchFilter(NamedTuple):
    """What an option must be besides fitting."""

    slowest: float = 0.0
    """Tokens a second below which none is wanted."""
    passes: Callable[[Accelerator, int, Plan], bool] | None = None
    """Whether a deployment is allowed; called before it is estimated. None allows all."""
    names_gpus: bool = True
    """Whether the caller named the GPUs: of all others an engine takes those that its wheels are
    for."""


class Option(NamedTuple):
    """One deployment that fits."""

    gpu: GpuOption
    """The GPU."""
    gpus: int
    """How many of it."""
    plan: Plan
    """Engine and format."""
    rate: Rate
    """How fast the plan is on GPUs."""
    fitted: BatchEstimate
    """Its estimate."""
    criteria: Criteria
    """What it is compared by."""

    @property
    def accelerator(self) -> Accelerator:
        """The GPU as the catalog has it."""
        return self.gpu.limit.accelerator

    @property
    def speed(self) -> DecodeSpeed | None:
        """Decoding speed of all requests together, as an interval; None if unknown."""
        return self.rate.speed(self.gpu)

    @property
    def tokens_per_second(self) -> float | None:
        """What is expected of it; None if unknown."""
        return self.rate.expected(self.gpu)


def unbeaten(options: Iterable[Option]) -> list[Option]:
    """Return the options that no other dominates, in the order of their criteria. options: of which
    none is dominated by one of fewer GPUs or more bits."""
    front: list[Option] = []
    alike: defaultdict[tuple[int, float], ParetoFront] = defaultdict(ParetoFront)
    for option in sorted(options, key=lambda option: (option.criteria, identity(option))):
        before = alike[option.gpus, option.plan.bits]
        if not before.dominates(option.criteria):
            front.append(option)
            before.add(option.criteria)
    return front


def identity(option: Option) -> tuple[str, str, str]:
    """Return what tells options of the same criteria apart: GPU, engine, format."""
    return option.accelerator.id, option.plan.engine, option.plan.quantization or ""


def weight_bits(spec: ModelSpec, prepared: CachedWeights) -> float:
    """Bits of one weight in the format that most weights have, without its scales: a coarse
    measure of quality."""
    scheme = prepared.scheme
    if scheme.form is not None:
        return round(scheme.form.bits, 2)
    return float(
        BITS[
            scheme.dtype
            or (prepared.sharded.layout.wide_dtype if spec.dtype == "F32" else spec.dtype)
        ]
    )


class Search:
    """The options of one question about `model`. `plans`: in the order in which their engines
    are preferred for a GPU."""

    def __init__(
        self,
        model: Model,
        request: FitRequest,
        fitting: BatchEstimator,
        pool: GpuPool,
        plans: Sequence[Plan],
        wanted: SearchFilter = SearchFilter(),
    ) -> None:
        self._spec = model.spec
        self._request = request
        self._fitting = fitting
        self._plans = sorted(plans, key=lambda plan: -plan.bits)
        self._wanted = wanted
        self._most = max((limit.most for limit in pool.limits), default=0)
        self._prices = pool.prices
        self._limits = pool.limits
        self._options = gpu_option(request, fitting, pool, plans, by_wheels=not wanted.names_gpus)
        engines = {plan.engine for plan, options in self._options.items() if options}
        gpus = [limit.accelerator for limit in pool.limits]
        self._kinds = {engine: fitting.kinds(request, engine, gpus) for engine in engines}
        self._left: dict[tuple[Plan, int], list[GpuOption]] = {}
        self._degrees: dict[tuple[EngineName, int], int | None] = {}
        self._launch_kinds: dict[tuple[EngineName, int, Hashable, bool], LaunchKind | None] = {}
        self._flops = token_flops(model.spec, context_length_of(request, model.spec)).forward
        self._rates: dict[tuple[Plan, int], Rate] = {}
        self._step_caches: dict[tuple[EngineName, int], int] = {}
        self._waits: dict[tuple[int, float], Waits] = {}
        self._floors = Floors(fitting, request)

    def front(self) -> list[Option]:
        """Return the Pareto set of all that fits: looked at so that what is dominated or too small
        for the weights is not estimated.

        Whatever dominates an option has no more GPUs and no fewer bits, so it was looked at
        before or is of as many of both."""
        options: list[Option] = []
        fronts = ParetoFronts(plan.bits for plan in self._plans)
        for count in range(1, self._most + 1):
            for plan in self._plans:
                options += self._on(count, plan, fronts)
        return unbeaten(options)

    def _on(self, count: int, plan: Plan, fronts: ParetoFronts) -> list[Option]:
        """Return the options of one plan on `count` GPUs that nothing in `fronts` dominates, and
        add them there.

        Over as many tensor ranks a GPU is as fast on more GPUs, which hold more memory in all.
        So a GPU that was dominated, whatever more of it cost, is not looked at again. What a
        kind of GPU demands is asked once one of its GPUs might be an option."""
        tensor = self._tensor_ranks(plan.engine, count)
        if tensor is None:
            return []
        options = self._left.get((plan, tensor), self._options[plan])
        if not options:
            return []
        needed = self._floors.of_count(plan.quantization, plan.engine, count, tensor)
        if options[-1].usable < needed:
            return []
        rate, front, of_kind = (
            self._rate(plan, tensor),
            fronts.front(plan.bits),
            self._kinds[plan.engine],
        )
        first = bisect_left(options, (needed,))
        left, fitting = options[:first], []
        launches: dict[Hashable, LaunchSteps | None] = {}
        # Without a price a GPU below this bandwidth is dominated, until so much memory.
        slowest, until = 0.0, 0.0
        for option in options[first:]:
            usable, place, bandwidth, _, (accelerator, most) = option
            if most < count:
                continue
            cost, least_cost = self._prices[place][count - 1]
            if least_cost == inf:
                if usable * count >= until:
                    best, until = front.fastest(usable * count)
                    slowest = rate.bandwidth_of(best)
                if (bandwidth or 0.0) < slowest:
                    continue
            kind = of_kind[place]
            is_known, launch = kind in launches, launches.get(kind)
            if is_known and (launch is None or usable < launch.least_usable):
                left.append(option)
                continue
            mark = criteria(count, usable * count, rate.expected(option), plan.bits, cost)
            if front.dominates(mark):
                if cost > least_cost and not front.dominates((*mark[:4], least_cost)):
                    left.append(option)
                continue
            left.append(option)
            if not self._is_wanted(accelerator, count, plan, mark):
                continue
            if not is_known:
                launch = launches[kind] = self._launch(plan, count, kind, accelerator)
            fitted = launch.fitted(accelerator) if launch is not None else None
            if fitted is not None:
                fronts.add(mark)
                until = 0.0
                fitting.append(Option(option, count, plan, rate, fitted, mark))
        self._left[plan, tensor] = left
        return fitting

    def _tensor_ranks(self, engine: EngineName, count: int) -> int | None:
        """Return how many ranks divide a layer on `count` GPUs; None where they cannot be used,
        or some would idle, as fewer then do the same."""
        if (engine, count) not in self._degrees:
            request = structs.replace(self._request, gpu_count=count, engine=engine)
            try:
                tensor, pipeline, data = degrees(request, self._spec, count, engine)
                used = tensor * pipeline * data
                self._degrees[engine, count] = tensor if used >= count else None
            except IMPOSSIBLE:
                self._degrees[engine, count] = None
        return self._degrees[engine, count]

    def _launch(
        self, plan: Plan, count: int, kind: Hashable, accelerator: Accelerator
    ) -> LaunchSteps | None:
        """Return a plan on `count` GPUs of a kind; None where it is impossible."""
        key = (plan.engine, count, kind, plan.bits == _FLOAT32)
        request = structs.replace(
            self._request, gpu_count=count, engine=plan.engine, quantization=plan.quantization
        )
        if key not in self._launch_kinds:
            try:
                workload = self._fitting.workload(request, plan.engine, accelerator, count)
                self._launch_kinds[key] = LaunchKind(self._fitting, request, workload, accelerator)
            except IMPOSSIBLE:
                self._launch_kinds[key] = None
        of_kind = self._launch_kinds[key]
        return None if of_kind is None else LaunchSteps(self._fitting, request, of_kind)

    def _is_wanted(self, accelerator: Accelerator, count: int, plan: Plan, mark: Criteria) -> bool:
        """Return whether the deployment, if it fits, is one of those asked for."""
        wanted = self._wanted
        if wanted.slowest and -mark[2] < wanted.slowest:
            return False
        return wanted.passes is None or wanted.passes(accelerator, count, plan)

    def _rate(self, plan: Plan, tensor_parallel: int) -> Rate:
        """Return the speeds of a plan whose weights are divided so, worked out once for all
        counts of GPUs."""
        key = (plan, tensor_parallel)
        if key not in self._rates:
            read = 0 if self._spec.task == "encode" else self._step_bytes(plan, tensor_parallel)
            layer_seconds = ENGINES[plan.engine].layer_seconds
            waits = self._waits.get((tensor_parallel, layer_seconds))
            if waits is None:
                requests = self._request.concurrency or 1
                waits = Waits(self._spec, requests, tensor_parallel, self._limits, layer_seconds)
                self._waits[tensor_parallel, layer_seconds] = waits
            self._rates[key] = Rate(waits, read, self._flops)
        return self._rates[key]

    def _step_bytes(self, plan: Plan, tensor_parallel: int) -> int:
        """Return what one rank reads for a token of every request."""
        concurrency, key = self._request.concurrency or 1, (plan.engine, tensor_parallel)
        if key not in self._step_caches:
            self._step_caches[key] = step_cache(
                self._spec,
                concurrency=concurrency,
                context_length=context_length_of(self._request, self._spec),
                kv_cache_dtype=parsing.kv_cache_dtype(self._request.kv_cache_dtype, plan.engine),
                tensor_parallel=tensor_parallel,
            )
        weights = step_weights(
            self._spec,
            self._fitting.formats.prepared(plan.quantization, plan.engine).sharded,
            concurrency=concurrency,
            tensor_parallel=tensor_parallel,
        )
        return weights + self._step_caches[key]
