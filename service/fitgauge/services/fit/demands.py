"""What a model demands of GPUs that an engine treats alike: worked out once for all of them and,
but for the cache, for any number of requests."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple
from weakref import proxy

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.quantity import Bytes, Term
from fitgauge.engine.serving.engine_facts import CacheBytes, ForAccelerator, SplitEstimate
from fitgauge.engine.serving.estimate import (
    StageMemory,
    StageSum,
    fullest_required,
    stage_sums,
)
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


class LaunchDemand:
    """What a launch demands of the fullest of its GPUs, under any number of requests."""

    __slots__ = ("_demands", "_stages", "_workload", "accelerator", "kind", "quantization")

    def __init__(
        self,
        demands: "ModelDemands",
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
    ) -> None:
        """workload: with any number of requests; accelerator: any of the kind."""
        self.quantization = quantization
        self.accelerator = accelerator
        self.kind = kind
        # weak, for it holds the launches: as a cycle they would stay until they are collected
        self._demands: ModelDemands = proxy(demands)
        self._workload = workload
        self._stages = demands.idle_stages(quantization, workload, accelerator, kind)

    def under(self, concurrency: int) -> Demand:
        """Return the demand of so many requests. Raises InvalidRequestError where the engine
        cannot divide the model so."""
        workload = structs.replace(self._workload, concurrency=concurrency)
        if self._stages is None:
            return self._demands.whole(self, workload)
        cache_bytes, stages = self._stages
        caches = [cache_bytes(stage.layout, workload) for stage in stages]
        sizes = [stage.size.expected + cache for stage, cache in zip(stages, caches, strict=True)]
        number = sizes.index(max(sizes))
        size, layers, _ = stages[number]
        return Demand(workload, size.interval(caches[number]), layers, size.expected, self)

    def changed(self, settings: Settings, request: FitRequest) -> "LaunchDemand":
        """Return the launch with other limits of the scheduler or another share of the GPU, none
        of which the request sets. Raises as `under`."""
        workload = with_settings(self._workload, settings, request)
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
        self._launches: Memo[Hashable, LaunchDemand] = Memo(_DEMANDS)
        self._demands: Memo[Hashable, Demand] = Memo(_DEMANDS)
        self._stage_memories: Memo[Hashable, tuple[StageMemory, ...]] = Memo(_STAGE_MEMORIES)
        self._derived: defaultdict[EngineName, MixedMemo] = defaultdict(Memo)

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
        return self._launches.get_or_compute(
            (quantization, one, kind),
            lambda: LaunchDemand(self, quantization, one, accelerator, kind),
        )

    def idle_stages(
        self,
        quantization: str | None,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
    ) -> tuple[CacheBytes, tuple[StageSum, ...]] | None:
        """Return every stage without requests, added up, and what counts its cache; None where
        more than the cache depends on requests."""
        split = _split(workload)
        if split is None or split.cache_bytes is None:
            return None
        self._checkpoint()
        sharded = self._formats.sharded(quantization, workload.engine)
        loaded = split.loaded(self._spec, sharded, workload, accelerator)
        others = self._stage_memory(split, workload, accelerator, kind)
        stages = stage_sums(loaded, others)
        return split.cache_bytes, stages if len(stages) == 1 else tuple(dict.fromkeys(stages))

    def loaded_bytes(
        self, quantization: str | None, workload: Workload, accelerator: Accelerator
    ) -> Sequence[int]:
        """Return what every stage of a launch has loaded, before anything else is counted [bytes];
        nothing where the engine does not tell. Raises as `LaunchDemand.under`."""
        split = _split(workload)
        if split is None:
            return ()
        sharded = self._formats.sharded(quantization, workload.engine)
        loaded = split.loaded(self._spec, sharded, workload, accelerator)
        return [sum([term.bytes for term in terms]) for terms in loaded]

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
        others = self._stage_memory(split, workload, accelerator, launch.kind)
        own = split.for_accelerator
        parts = None if own is None else Parts(loaded, others, own)
        return Demand(workload, *fullest_required(loaded, others), launch, parts)

    def _stage_memory(
        self, split: SplitEstimate, workload: Workload, accelerator: Accelerator, kind: Hashable
    ) -> tuple[StageMemory, ...]:
        """Return what is held in addition to the weights, computed once for all their formats."""

        def compute() -> tuple[StageMemory, ...]:
            engine = workload.engine
            settled = ENGINES[engine].with_defaults(workload, self._spec, accelerator)
            return split.stage_memory(
                self._spec,
                settled,
                accelerator,
                self._formats.profile(engine),
                self._derived[engine],
            )

        return self._stage_memories.get_or_compute((workload, kind), compute)


def _split(workload: Workload) -> SplitEstimate | None:
    """Return the two parts of the engine's estimate; None where it is one for this workload."""
    split = ENGINES[workload.engine].split
    if split is None or (workload.cpu_offload_bytes and not split.supports_offload):
        return None
    return split
