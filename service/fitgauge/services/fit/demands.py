"""What a model demands of GPUs that an engine treats alike: worked out once for all of them and,
but for the cache, for any number of requests."""

from collections.abc import Hashable
from typing import NamedTuple
from weakref import proxy

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.spec import ModelSpec
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

_DEMANDS = 4096
"""Cached demands of one question: at most some 5 MiB."""

_OTHERS = 3 / 8
"""Share of what is held of a model on an engine that is memory in addition to the weights; the rest
is that together with the weights. Of 512 entries, some 1 MiB, a recommendation asks for 140 and
330."""


Loaded = tuple[tuple[Term, ...], ...]
"""The terms of what is loaded, by stage."""

Loads = dict[tuple[str | None, float], Loaded]


class Parts(NamedTuple):
    """A demand of GPUs of a kind that differ by their memory."""

    loaded: Loaded
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


class OtherMemory:
    """All memory of every stage but what is loaded: the same for every format of the weights, and
    but for its cache for any number of requests."""

    __slots__ = ("_cache_bytes", "_last", "_layouts", "layout_of", "sizes", "stages")

    def __init__(self, stages: tuple[StageMemory, ...], cache_bytes: CacheBytes) -> None:
        self.stages = stages
        self.sizes = tuple([sum([term.bytes for term in stage.fixed]) for stage in stages])
        """Expected bytes of what is fixed."""
        unlike = {id(stage.layout): stage.layout for stage in stages}
        numbers = {name: number for number, name in enumerate(unlike)}
        self._layouts = tuple(unlike.values())
        self.layout_of = tuple([numbers[id(stage.layout)] for stage in stages])
        """The number of every stage's layout in `caches`."""
        self._cache_bytes = cache_bytes
        self._last: tuple[tuple[int, int], list[int]] = (0, 0), []

    def caches(self, workload: Workload) -> list[int]:
        """Return the cache of a stage of every layout under the requests of a workload [bytes]."""
        requests = workload.concurrency, workload.context_length
        last, caches = self._last
        if last != requests:
            caches = [self._cache_bytes(layout, workload) for layout in self._layouts]
            self._last = requests, caches  # at once, as threads share it
        return caches


class IdleStages:
    """The stages of launches that differ by their cache alone, without requests."""

    __slots__ = ("_loaded", "_sums", "_unlike", "others")

    def __init__(self, loaded: Loaded, others: OtherMemory) -> None:
        self._loaded = loaded
        self.others = others
        unlike: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        for number, stage in enumerate(others.stages):
            size = sum([term.bytes for term in loaded[number]]) + others.sizes[number]
            layout = others.layout_of[number]
            unlike.setdefault((size, stage.layers, layout), (size, layout, number))
        self._unlike = tuple(unlike.values())
        self._sums: list[Sum | None] = [None] * len(self._unlike)

    def fullest(self, workload: Workload) -> tuple[Bytes, int, int]:
        """Return (`required`, layers, `fixed_bytes`) of the stage that needs most for the requests
        of a workload: the first of those that need as much."""
        caches, most, place = self.others.caches(workload), -1, 0
        for index, (size, layout, _) in enumerate(self._unlike):
            if size + caches[layout] > most:
                most, place = size + caches[layout], index
        _, layout, number = self._unlike[place]
        fixed = self._sums[place]
        if fixed is None:
            terms = (*self._loaded[number], *self.others.stages[number].fixed)
            fixed = self._sums[place] = added(terms)
        return fixed.interval(caches[layout]), self.others.stages[number].layers, fixed.expected


class LaunchShape(NamedTuple):
    """A launch on GPUs of a kind, whatever the format of its weights."""

    workload: Workload
    """The workload."""
    accelerator: Accelerator
    """Any GPU of the kind."""
    split: SplitEstimate | None
    """The two parts of the engine's estimate; None where it is one for this workload."""
    others: OtherMemory | None
    """All but what is loaded; None where more than the cache depends on the requests."""
    loads: Loads
    """What is loaded, by format and scaling of positions: launches that are divided alike share
    it."""


class LaunchDemand:
    """What a launch demands of the fullest of its GPUs, under any number of requests."""

    __slots__ = ("_demands", "_stages", "quantization", "shape")

    def __init__(
        self, demands: "ModelDemands", quantization: str | None, shape: LaunchShape
    ) -> None:
        self.quantization = quantization
        self.shape = shape
        # weak, for it holds demands, and they this: a cycle would stay until it is collected
        self._demands: ModelDemands = proxy(demands)
        self._stages = demands.stages(quantization, shape)

    def under(self, concurrency: int) -> Demand:
        """Return the demand of so many requests. Raises InvalidRequestError where the engine
        cannot divide the model so."""
        workload = self.shape.workload
        if workload.concurrency != concurrency:
            workload = structs.replace(workload, concurrency=concurrency)
        if self._stages is None:
            return self._demands.whole(self, workload)
        return Demand(workload, *self._stages.fullest(workload), self)

    @property
    def idle(self) -> Hashable:
        """What decides, but for the GPU, how much of it a launch has."""
        return self.shape.workload if self._stages is None else self._stages.others

    def changed(self, settings: Settings, request: FitRequest) -> "LaunchDemand":
        """Return the launch with other limits of the scheduler or another share of the GPU, none
        of which the request sets. Raises as `under`."""
        return self.of(with_settings(self.shape.workload, settings, request))

    def of(self, workload: Workload) -> "LaunchDemand":
        """Return the launch of another workload on as many GPUs, divided alike. Raises as
        `under`."""
        demands = self._demands
        return demands.launch(self.quantization, demands.shape_of(workload, self.shape))


class Held:
    """What the questions about a model share on an engine."""

    __slots__ = ("others", "stages")

    def __init__(self, limit: int) -> None:
        """limit: entries at most."""
        self.others: Memo[Hashable, OtherMemory] = Memo(int(_OTHERS * limit))
        """By what decides it of a workload and of a GPU."""
        self.stages: Memo[tuple[int, int], IdleStages] = Memo(limit)
        """By the identity of what is loaded and of the other memory, both of which they hold."""


class ModelDemands:
    """The demands of one model, cached for one question; what does not depend on its requests
    for longer."""

    def __init__(self, formats: ModelFormats, checkpoint: Checkpoint) -> None:
        """checkpoint: called before every estimate."""
        self._spec = formats.model.spec
        self._formats = formats
        self._checkpoint = checkpoint
        self._demands: Memo[Hashable, Demand] = Memo(_DEMANDS)
        self._stage_memories: Memo[Hashable, tuple[StageMemory, ...]] = Memo(_DEMANDS)
        self._held: dict[EngineName, Held] = {}

    def shape(self, workload: Workload, accelerator: Accelerator) -> LaunchShape:
        """Return a workload on a GPU, whatever the format of its weights. Raises as
        `LaunchDemand.under`."""
        return self._shape(workload, accelerator, {})

    def shape_of(self, workload: Workload, other: LaunchShape) -> LaunchShape:
        """Return a workload on the GPUs of another launch that is divided alike. Raises as
        `shape`."""
        return self._shape(workload, other.accelerator, other.loads)

    def _shape(self, workload: Workload, accelerator: Accelerator, loads: Loads) -> LaunchShape:
        split = _split(workload)
        others = None
        if split is not None and split.cache_bytes is not None:
            others = self._other_memory(split, split.cache_bytes, workload, accelerator)
        return LaunchShape(workload, accelerator, split, others, loads)

    def launch(self, quantization: str | None, shape: LaunchShape) -> LaunchDemand:
        """Return what a launch demands with the weights in a format. Raises as
        `LaunchDemand.under`."""
        return LaunchDemand(self, quantization, shape)

    def stages(self, quantization: str | None, shape: LaunchShape) -> IdleStages | None:
        """Return the stages of a launch without requests; None where more than the cache depends
        on them."""
        others = shape.others
        if shape.split is None or others is None:
            return None
        loaded = self._loaded(shape.split, quantization, shape)
        return self._held_of(shape.workload.engine).stages.get_or_compute(
            (id(loaded), id(others)), lambda: self._idle_stages(loaded, others)
        )

    def _loaded(self, split: SplitEstimate, quantization: str | None, shape: LaunchShape) -> Loaded:
        key = quantization, shape.workload.rope_scaling_factor
        loaded = shape.loads.get(key)
        if loaded is None:
            sharded = self._formats.sharded(quantization, shape.workload.engine)
            loaded = split.loaded(self._spec, sharded, shape.workload, shape.accelerator)
            shape.loads[key] = loaded
        return loaded

    def _idle_stages(self, loaded: Loaded, others: OtherMemory) -> IdleStages:
        self._checkpoint()
        return IdleStages(loaded, others)

    def whole(self, launch: LaunchDemand, workload: Workload) -> Demand:
        """Return the demand of a launch whose requests decide more than its cache."""
        key = launch.quantization, workload, _kind(self._spec, workload, launch.shape.accelerator)
        return self._demands.get_or_compute(key, lambda: self._whole(launch, workload))

    def _whole(self, launch: LaunchDemand, workload: Workload) -> Demand:
        """Return the engine's estimate of the fullest GPU; what is held in addition to the
        weights is estimated once for all their formats."""
        self._checkpoint()
        shape = launch.shape
        accelerator, split = shape.accelerator, shape.split
        if split is None:
            row, profile = ENGINES[workload.engine], self._formats.profile(workload.engine)
            sharded = self._formats.sharded(launch.quantization, workload.engine)
            fullest = row.estimate(self._spec, sharded, workload, accelerator, profile).fullest
            return Demand(workload, fullest.required, fullest.layers, fullest.fixed_bytes, launch)
        loaded = self._loaded(split, launch.quantization, shape)
        others = self._stage_memories.get_or_compute(
            (workload, _kind(self._spec, workload, accelerator)),
            lambda: self._stage_memory(split, workload, accelerator),
        )
        own = split.for_accelerator
        parts = None if own is None else Parts(loaded, others, own)
        return Demand(workload, *fullest_required(loaded, others), launch, parts)

    def _other_memory(
        self,
        split: SplitEstimate,
        cache_bytes: CacheBytes,
        workload: Workload,
        accelerator: Accelerator,
    ) -> OtherMemory:
        """Return what is held in addition to the weights, computed once for all their formats, all
        numbers of requests and all contexts that are read alike."""
        one = structs.replace(workload, context_length=1, concurrency=1)
        read = split.context_read(self._spec, workload, accelerator)
        return self._held_of(workload.engine).others.get_or_compute(
            (one, read, _kind(self._spec, workload, accelerator)),
            lambda: OtherMemory(self._stage_memory(split, workload, accelerator), cache_bytes),
        )

    def _stage_memory(
        self, split: SplitEstimate, workload: Workload, accelerator: Accelerator
    ) -> tuple[StageMemory, ...]:
        engine = workload.engine
        return split.stage_memory(
            self._spec,
            ENGINES[engine].with_defaults(workload, self._spec, accelerator),
            accelerator,
            self._formats.profile(engine),
            self._formats.other_memory(engine),
        )

    def _held_of(self, engine: EngineName) -> Held:
        """Return what outlives the question."""
        held = self._held.get(engine)
        if held is None:
            memo = self._formats.other_memory(engine)
            held = memo.get_or_compute("of any requests", lambda: Held(memo.limit))
            self._held[engine] = held
        return held


def _kind(spec: ModelSpec, workload: Workload, accelerator: Accelerator) -> Hashable:
    """Return the kind of a GPU: all of it hold the same of a workload but for its weights."""
    row = ENGINES[workload.engine]
    if row.workload_kind is None:
        return row.accelerator_kind(accelerator)
    return row.workload_kind(spec, accelerator, workload)


def _split(workload: Workload) -> SplitEstimate | None:
    """Return the two parts of the engine's estimate; None where it is one for this workload."""
    split = ENGINES[workload.engine].split
    if split is None or (workload.offloads and not split.supports_offload):
        return None
    return split
