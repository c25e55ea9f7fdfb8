"""What a model demands of GPUs that an engine treats alike: worked out once for all of them and,
but for the cache, for any number of requests."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple
from weakref import proxy

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.quantity import Bytes, Sum, Term, added
from fitgauge.engine.serving.engine_facts import CacheBytes, ForAccelerator, SplitEstimate
from fitgauge.engine.serving.estimate import StageMemory, fullest_required
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.model_formats import ModelFormats
from fitgauge.services.fit.query import Settings
from fitgauge.services.fit.workload import with_settings

_DEMANDS, _STAGE_MEMORIES = 4096, 512
"""Cached demands, and memory in addition to the weights, of one question: at most some 5 MiB."""


class Parts(NamedTuple):
    """A demand of GPUs of a kind that differ by their memory."""

    loaded: tuple[tuple[Term, ...], ...]
    """The loaded terms of every stage."""
    others: tuple[StageMemory, ...]
    """The other memory of every stage: the least of the kind."""
    for_accelerator: ForAccelerator
    """Turns that into the other memory of one of them."""


class Demand(NamedTuple):
    """What a workload requires of the fullest of its GPUs: the same on all GPUs of one kind."""

    workload: Workload
    """The workload."""
    required: Bytes
    """What the fullest GPU needs [bytes]; with `parts`, the least that any of a kind needs."""
    layers: int
    """Layers on that GPU."""
    fixed_bytes: int
    """What of it is no cache."""
    launch: "LaunchDemand"
    """What the launch demands under other numbers of requests."""
    parts: Parts | None = None
    """Where GPUs of a kind differ by their memory."""

    def on(self, workload: Workload, accelerator: Accelerator) -> "Demand":
        """Return the demand of one GPU, where they differ. workload: settled for it."""
        if self.parts is None:
            return self
        loaded, others, for_accelerator = self.parts
        own = for_accelerator(loaded, others, workload, accelerator)
        return Demand(workload, *fullest_required(loaded, own), self.launch)


class StageLoads(NamedTuple):
    """What the weights of a launch take on every stage."""

    terms: tuple[tuple[Term, ...], ...]
    """The loaded terms."""
    sizes: tuple[int, ...]
    """Their expected bytes."""


class OtherMemory:
    """All memory of every stage but what is loaded: the same for every format of the weights."""

    __slots__ = ("_caches", "_layouts", "layout_of", "sizes", "stages")

    def __init__(self, stages: tuple[StageMemory, ...]) -> None:
        self.stages = stages
        self.sizes = tuple([sum([term.bytes for term in stage.fixed]) for stage in stages])
        """Expected bytes of what is fixed."""
        unlike = {id(stage.layout): stage.layout for stage in stages}
        numbers = {name: number for number, name in enumerate(unlike)}
        self._layouts = tuple(unlike.values())
        self.layout_of = tuple([numbers[id(stage.layout)] for stage in stages])
        """The number of every stage's layout in `caches`."""
        self._caches: dict[tuple[int, int], list[int]] = {}

    def caches(self, cache_bytes: CacheBytes, workload: Workload) -> list[int]:
        """Return the cache of a stage of every layout under the requests of a workload [bytes]."""
        key = workload.concurrency, workload.context_length
        caches = self._caches.get(key)
        if caches is None:
            caches = [cache_bytes(layout, workload) for layout in self._layouts]
            self._caches[key] = caches
        return caches


class IdleStages:
    """The stages of launches that differ by their cache alone, without requests."""

    __slots__ = ("_cache_bytes", "_loads", "_sums", "_unlike", "others")

    def __init__(self, cache_bytes: CacheBytes, loads: StageLoads, others: OtherMemory) -> None:
        self._cache_bytes = cache_bytes
        self._loads = loads
        self.others = others
        unlike: dict[Hashable, tuple[int, int, int]] = {}
        for number, stage in enumerate(others.stages):
            size, layout = loads.sizes[number] + others.sizes[number], others.layout_of[number]
            unlike.setdefault((size, stage.layers, layout), (size, layout, number))
        self._unlike = tuple(unlike.values())
        self._sums: dict[int, Sum] = {}

    def fullest(self, workload: Workload) -> tuple[Bytes, int, int]:
        """Return (`required`, layers, `fixed_bytes`) of the stage that needs most for the requests
        of a workload: the first of those that need as much."""
        caches, most, cache, number = self.others.caches(self._cache_bytes, workload), -1, 0, 0
        for size, layout, stage in self._unlike:
            if size + caches[layout] > most:
                most, cache, number = size + caches[layout], caches[layout], stage
        fixed = self._sums.get(number) or self._sum(number)
        return fixed.interval(cache), self.others.stages[number].layers, fixed.expected

    def _sum(self, number: int) -> Sum:
        """Return all of a stage but its cache, added up."""
        terms = (*self._loads.terms[number], *self.others.stages[number].fixed)
        fixed = self._sums[number] = added(terms)
        return fixed


class LaunchDemand:
    """What a launch demands of the fullest of its GPUs, under any number of requests."""

    __slots__ = ("_demands", "_stages", "accelerator", "kind", "quantization", "workload")

    def __init__(
        self,
        demands: "ModelDemands",
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
    ) -> None:
        """workload: of one request; accelerator: any of the kind."""
        self.quantization = quantization
        self.accelerator = accelerator
        self.kind = kind
        # weak, for it holds demands, and they this: a cycle would stay until it is collected
        self._demands: ModelDemands = proxy(demands)
        self.workload = workload
        self._stages = demands.idle_stages(quantization, workload, accelerator, kind)

    def under(self, concurrency: int) -> Demand:
        """Return the demand of so many requests. Raises InvalidRequestError where the engine
        cannot divide the model so."""
        workload = structs.replace(self.workload, concurrency=concurrency)
        if self._stages is None:
            return self._demands.whole(self, workload)
        return Demand(workload, *self._stages.fullest(workload), self)

    @property
    def idle(self) -> Hashable:
        """What decides, but for the GPU, how much of it a launch has."""
        return self.workload if self._stages is None else self._stages.others

    def changed(self, settings: Settings, request: FitRequest) -> "LaunchDemand":
        """Return the launch with other limits of the scheduler or another share of the GPU, none
        of which the request sets. Raises as `under`."""
        return self.of(with_settings(self.workload, settings, request))

    def of(self, workload: Workload) -> "LaunchDemand":
        """Return the launch of another workload on as many GPUs, divided alike. Raises as
        `under`."""
        return self._demands.launch(self.quantization, workload, self.accelerator, self.kind)


class ModelDemands:
    """The demands of one model, cached for one question."""

    def __init__(
        self,
        formats: ModelFormats,
        checkpoint: Checkpoint,
    ) -> None:
        """checkpoint: called before every estimate."""
        self._spec = formats.model.spec
        self._formats = formats
        self._checkpoint = checkpoint
        self._demands: Memo[Hashable, Demand] = Memo(_DEMANDS)
        self._others: Memo[Hashable, OtherMemory] = Memo(_STAGE_MEMORIES)
        self._loads: dict[int, StageLoads] = {}
        self._idle: Memo[Hashable, IdleStages] = Memo(_DEMANDS)
        self._contextual: dict[EngineName, bool] = {}

    def launch(
        self,
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
    ) -> LaunchDemand:
        """Return what a workload demands under any number of requests, with the weights in a
        format. kind: of the accelerator. Raises as `LaunchDemand.under`."""
        one = workload if workload.concurrency == 1 else structs.replace(workload, concurrency=1)
        return LaunchDemand(self, quantization, one, accelerator, kind)

    def idle_stages(
        self,
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
    ) -> IdleStages | None:
        """Return the stages without requests; None where more than the cache depends on them."""
        split = _split(workload)
        if split is None or split.cache_bytes is None:
            return None
        self._checkpoint()
        decides = self._without_cache(split, workload)
        key = quantization, decides, kind
        idle = self._idle.get(key)
        if idle is None:
            idle = self._idle_stages(
                split, split.cache_bytes, quantization, workload, accelerator, kind, decides
            )
            self._idle.put(key, idle)
        return idle

    def _idle_stages(
        self,
        split: SplitEstimate,
        cache_bytes: CacheBytes,
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
        decides: Workload,
    ) -> IdleStages:
        """Return `idle_stages`. decides: the workload without what changes none of them."""
        loads = self._loaded(split, quantization, workload, accelerator)
        others = self._other_memory(split, workload, accelerator, kind, decides)
        return IdleStages(cache_bytes, loads, others)

    def _without_cache(self, split: SplitEstimate, workload: Workload) -> Workload:
        """Return a workload of one request without what decides the cache alone: the same for all
        contexts of most models."""
        reads = self._contextual.get(workload.engine)
        if reads is None:
            reads = self._contextual[workload.engine] = split.rest_reads_context(self._spec)
        return workload if reads else structs.replace(workload, context_length=1)

    def loaded_bytes(
        self, quantization: str | None, workload: Workload, accelerator: Accelerator
    ) -> Sequence[int]:
        """Return what every stage of a launch has loaded, before anything else is counted [bytes];
        nothing where the engine does not tell. Raises as `LaunchDemand.under`."""
        split = _split(workload)
        if split is None:
            return ()
        return self._loaded(split, quantization, workload, accelerator).sizes

    def other_bytes(
        self, workload: Workload, accelerator: Accelerator, kind: Hashable
    ) -> list[tuple[int, int]]:
        """Return what every stage of a workload holds in addition to what is loaded: (what is
        fixed, with the cache) [bytes]; nothing where the engine does not tell. kind: of the
        accelerator. Raises as `LaunchDemand.under`."""
        split = _split(workload)
        if split is None:
            return []
        cache_bytes = split.cache_bytes
        if cache_bytes is None:
            others = self._other_memory(split, workload, accelerator, kind, workload)
            caches = [sum([term.bytes for term in stage.cache]) for stage in others.stages]
        else:
            idle = structs.replace(workload, concurrency=1)
            decides = self._without_cache(split, idle)
            others = self._other_memory(split, idle, accelerator, kind, decides)
            of_layouts = others.caches(cache_bytes, workload)
            caches = [of_layouts[number] for number in others.layout_of]
        return [(size, size + cache) for size, cache in zip(others.sizes, caches, strict=True)]

    def _loaded(
        self,
        split: SplitEstimate,
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
    ) -> StageLoads:
        """Return what the weights take, added up once for all workloads that load alike."""
        sharded = self._formats.sharded(quantization, workload.engine)
        terms = split.loaded(self._spec, sharded, workload, accelerator)
        loads = self._loads.get(id(terms))
        if loads is None:
            sizes = tuple([sum([term.bytes for term in stage]) for stage in terms])
            loads = self._loads[id(terms)] = StageLoads(terms, sizes)
        return loads

    def whole(self, launch: LaunchDemand, workload: Workload) -> Demand:
        """Return the demand of a launch whose requests decide more than its cache."""
        key = launch.quantization, workload, launch.kind
        return self._demands.get_or_compute(key, lambda: self._whole(launch, workload))

    def _whole(self, launch: LaunchDemand, workload: Workload) -> Demand:
        """Return the engine's estimate of the fullest GPU; what is held in addition to the
        weights is estimated once for all their formats."""
        self._checkpoint()
        spec, accelerator, split = self._spec, launch.accelerator, _split(workload)
        sharded = self._formats.sharded(launch.quantization, workload.engine)
        if split is None:
            row, profile = ENGINES[workload.engine], self._formats.profile(workload.engine)
            fullest = row.estimate(spec, sharded, workload, accelerator, profile).fullest
            return Demand(workload, fullest.required, fullest.layers, fullest.fixed_bytes, launch)
        loaded = split.loaded(spec, sharded, workload, accelerator)
        others = self._other_memory(split, workload, accelerator, launch.kind, workload).stages
        own = split.for_accelerator
        parts = None if own is None else Parts(loaded, others, own)
        return Demand(workload, *fullest_required(loaded, others), launch, parts)

    def _other_memory(
        self,
        split: SplitEstimate,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
        decides: Workload,
    ) -> OtherMemory:
        """Return what is held in addition to the weights, computed once for all their formats.
        decides: the workload without what changes none of it."""

        def compute() -> OtherMemory:
            engine = workload.engine
            settled = ENGINES[engine].with_defaults(workload, self._spec, accelerator)
            stages = split.stage_memory(
                self._spec,
                settled,
                accelerator,
                self._formats.profile(engine),
                self._formats.other_memory(engine),
            )
            return OtherMemory(stages)

        return self._others.get_or_compute((decides, kind), compute)


def _split(workload: Workload) -> SplitEstimate | None:
    """Return the two parts of the engine's estimate; None where it is one for this workload."""
    split = ENGINES[workload.engine].split
    if split is None or (workload.cpu_offload_bytes and not split.supports_offload):
        return None
    return split
