"""Every way to serve a model on the GPUs at hand, and of those that fit the ones that nothing
beats."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import Attention, LatentAttention, Model, ModelSpec, Part
from fitgauge.engine.performance.decode import DecodeSpeed, step_bytes
from fitgauge.engine.performance.flops import token_flops
from fitgauge.engine.serving.kv_cache import CACHED_PARTS, request_bytes
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.weights import rank_bytes as weights
from fitgauge.services.common import parsing as words
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.common.weight_cache import CachedWeights
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_settings import Step, chosen, largest_share, later_steps
from fitgauge.services.fit.demands import Demand
from fitgauge.services.fit.workload import context_length_of, degrees
from fitgauge.services.recommend.gpu_options import (
    GpuOption,
    GpuPool,
    Plan,
    Rate,
    gpu_option,
    kinds,
)
from fitgauge.services.recommend.pareto import Criteria, ParetoFronts, criteria

MOST_GPUS = 16

_FLOAT32 = BITS["F32"]
"""Bits of weights whose cache is as wide; of all others a workload is the same."""


class KindSteps:
    """What a plan demands of so many GPUs of a kind, step by step: with the engine's defaults,
    and with the settings that `settings: "auto"` may choose, worked out where they are needed."""

    def __init__(
        self,
        fitting: BatchEstimator,
        request: FitRequest,
        accelerator: Accelerator,
        default: Demand,
    ) -> None:
        """request: with engine, format and count; accelerator: any of the kind."""
        self._fitting = fitting
        self._request = request
        self._accelerator = accelerator
        self._steps = [Step({}, default)]
        self._is_complete = request.settings == "defaults"
        self.least_usable = self._least_usable()
        """Usable bytes below which no step fits, as far as they are worked out."""

    def fitted(self, accelerator: Accelerator) -> BatchEstimate | None:
        """Return the first step that fits a GPU of the kind; None where none does."""
        judged = self._fitting.against(self._steps[0].demand, accelerator)
        if judged.verdict == "fits":
            return judged
        if self._request.settings == "defaults":
            return None
        if not self._is_complete:
            default = self._steps[0].demand
            self._steps += later_steps(self._fitting, self._request, default, self._accelerator)
            self._is_complete = True
            self.least_usable = self._least_usable()
        if accelerator.usable.expected < self.least_usable:
            return None
        best = chosen(self._fitting, self._request, self._steps, accelerator)
        return best if best.verdict == "fits" else None

    def _least_usable(self) -> float:
        if not self._is_complete:
            return 0.0
        return min(
            self._fitting.least_usable(step.demand, largest_share(self._request, step.demand))
            for step in self._steps
        )


class SearchFilter(NamedTuple):
    """What an option must be besides fitting."""

    slowest: float = 0.0
    """Tokens a second below which none is wanted."""
    passes: Callable[[Accelerator, int, Plan], bool] | None = None
    """Whether a deployment is allowed; called before it is estimated. None allows all."""


class Option(NamedTuple):
    """One deployment that fits."""

    accelerator: Accelerator
    """The GPU."""
    gpus: int
    """How many of it."""
    plan: Plan
    """Engine and format."""
    speed: DecodeSpeed | None
    """Decoding speed of all requests together; None if unknown."""
    fitted: BatchEstimate
    """Its estimate."""
    criteria: Criteria
    """What it is compared by."""


def pareto(options: Sequence[Option]) -> list[Option]:
    """Return the options that no other dominates, in the order of their criteria: whatever
    dominates an option stands before it."""
    front, fronts = [], ParetoFronts(option.plan.bits for option in options)
    for option in sorted(options, key=lambda option: (option.criteria, identity(option))):
        if not fronts.front(option.plan.bits).dominates(option.criteria):
            front.append(option)
            fronts.add(option.criteria)
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
        self._options = gpu_option(request, fitting, pool, plans)
        self._kinds = kinds(request, fitting, pool, plans)
        self._left: dict[tuple[Plan, int], list[GpuOption]] = {}
        self._degrees: dict[tuple[EngineName, int], int | None] = {}
        self._workloads: dict[tuple[EngineName, int, Hashable, bool], Workload] = {}
        self._flops = token_flops(model.spec, context_length_of(request, model.spec)).forward
        self._rates: dict[tuple[Plan, int], Rate] = {}
        self._caches: dict[int, int] = {}
        self._floors: dict[tuple[Plan, int], int] = {}

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
        return pareto(options)

    def _on(self, count: int, plan: Plan, fronts: ParetoFronts) -> list[Option]:
        """Return the options of one plan on `count` GPUs that nothing in `fronts` dominates, and
        add them there.

        Over as many tensor ranks a GPU is as fast on more GPUs, which hold more memory in all.
        So a GPU that was dominated, whatever more of it cost, is not looked at again. What a
        kind of GPU demands is asked once one of its GPUs might be an option."""
        tensor = self._tensor_ranks(plan.engine, count)
        if tensor is None:
            return []
        needed = self._least_usable(plan, count, tensor)
        options = self._left.get((plan, tensor), self._options[plan])
        if not options or options[-1].usable < needed:
            return []
        rate, front, of_kind = (
            self._rate(plan, tensor),
            fronts.front(plan.bits),
            self._kinds[plan.engine],
        )
        first = bisect_left(options, (needed,))
        left, fitting = options[:first], []
        demands: dict[Hashable, KindSteps | None] = {}
        for option in options[first:]:
            usable, place, _, _, (accelerator, most) = option
            if most < count:
                continue
            kind = of_kind[place]
            steps = demands.get(kind)
            if (steps is None and kind in demands) or (steps and usable < steps.least_usable):
                left.append(option)
                continue
            cost, least_cost = self._prices[place][count - 1]
            if least_cost == inf and front.fastest(usable * count) > rate.ceiling(option):
                continue
            mark = criteria(count, usable * count, rate.expected(option), plan.bits, cost)
            if front.dominates(mark):
                if cost > least_cost and not front.dominates((*mark[:4], least_cost)):
                    left.append(option)
                continue
            left.append(option)
            if not self._is_wanted(accelerator, count, plan, mark):
                continue
            if kind not in demands:
                steps = demands[kind] = self._steps(plan, count, kind, accelerator)
            if steps is None or usable < steps.least_usable:
                continue
            fitted = steps.fitted(accelerator)
            if fitted is not None:
                fronts.add(mark)
                fitting.append(Option(accelerator, count, plan, rate.speed(option), fitted, mark))
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

    def _steps(
        self, plan: Plan, count: int, kind: Hashable, accelerator: Accelerator
    ) -> KindSteps | None:
        """Return what a plan demands of `count` GPUs of a kind; None where it is impossible."""
        key = (plan.engine, count, kind, plan.bits == _FLOAT32)
        request = structs.replace(
            self._request, gpu_count=count, engine=plan.engine, quantization=plan.quantization
        )
        try:
            if key not in self._workloads:
                self._workloads[key] = self._fitting.workload(
                    request, plan.engine, accelerator, count
                )
            demand = self._fitting.demand_of(plan.quantization, self._workloads[key], accelerator)
        except IMPOSSIBLE:
            return None
        return KindSteps(self._fitting, request, accelerator, demand)

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
            self._rates[key] = Rate(
                self._spec, read, self._request.concurrency or 1, self._flops, tensor_parallel
            )
        return self._rates[key]

    def _step_bytes(self, plan: Plan, tensor_parallel: int) -> int:
        """Return what one rank reads for a token of every request."""
        request = self._request
        return step_bytes(
            self._spec,
            self._fitting.formats.prepared(plan.quantization, plan.engine).sharded,
            concurrency=request.concurrency or 1,
            context_length=context_length_of(request, self._spec),
            kv_cache_dtype=words.kv_cache_dtype(request.kv_cache_dtype, plan.engine),
            tensor_parallel=tensor_parallel,
        )

    def _least_usable(self, plan: Plan, count: int, tensor_parallel: int) -> int:
        """Usable memory below which a GPU need not be tried: of the stages of a pipeline the
        fullest holds no less than the average."""
        key, stages = (plan, tensor_parallel), -(-count // tensor_parallel)
        if key not in self._floors:
            if tensor_parallel not in self._caches:
                self._caches[tensor_parallel] = cache_floor(
                    self._spec, self._request, tensor_parallel
                )
            prepared = self._fitting.formats.prepared(plan.quantization, plan.engine)
            self._floors[key] = (
                weights_floor(prepared, plan.engine, tensor_parallel)
                + self._caches[tensor_parallel]
            )
        row, share = ENGINES[plan.engine], 1.0
        if row.budget_is_device_share:
            share = self._fitting.formats.profile(plan.engine).gpu_memory_utilization
            if row.ladders.share is not None and self._request.settings != "defaults":
                share = max(share, row.ladders.share.highest)
        return int(self._floors[key] / stages / share)


def cache_floor(spec: ModelSpec, request: FitRequest, tensor_parallel: int = 1) -> int:
    """Return the bytes of cache that no engine does without on a tensor-parallel rank of all
    layers: attention's and what is cached of latents, in the narrowest format it may take.

    Engines round up to blocks and hold more than a window, never less.
    """
    cache_dtype = (request.kv_cache_dtype or "auto").strip().lower()
    narrow = (
        "F4"
        if cache_dtype not in ("auto", "fp8", "bf16", "fp16")
        else "F16"
        if cache_dtype != "fp8" and spec.quantization is None
        else "F8_E4M3"
    )
    one = sum(
        len(block.layers)
        * request_bytes(mixer, context_length_of(request, spec), narrow, tensor_parallel, narrow)
        for block in spec.blocks
        if block.part in CACHED_PARTS
        for mixer in block.mixers
        if isinstance(mixer, Attention)
        or (isinstance(mixer, LatentAttention) and (mixer.indexer is None or narrow != "F16"))
    )
    return one * (request.concurrency or 1)


def weights_floor(prepared: CachedWeights, engine: EngineName, tensor_parallel: int) -> int:
    """Return the bytes of weights that an engine keeps on a tensor-parallel rank of all layers,
    never less than this: those of the language model, and of an engine
    that keeps them on the GPU, embedding and head too."""
    sharded = prepared.sharded
    parts = sharded.memo.get_or_compute(
        ("weights of parts", tensor_parallel),
        lambda: weights.rank_weights(sharded, tensor_parallel=tensor_parallel).by_part,
    )
    resident = (
        (Part.LANGUAGE, Part.EMBEDDING, Part.HEAD)
        if ENGINES[engine].embeddings_on_gpu
        else (Part.LANGUAGE,)
    )
    return int(sum(parts.get(part, 0) for part in resident) * min(1.0, sharded.scale))
