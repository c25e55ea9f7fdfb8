"""One model over many GPUs: what it demands is worked out once for GPUs that an engine treats
alike, and set against each of them."""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo, MixedMemo
from fitgauge.engine.model.spec import Model, ModelSpec
from fitgauge.engine.quantity import Bytes, Term
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.doubt import doubt, doubted
from fitgauge.engine.serving.engine_facts import SplitEstimate
from fitgauge.engine.serving.estimate import (
    StageMemory,
    StageSum,
    fullest_required,
    stage_sums,
)
from fitgauge.engine.serving.fit import Verdict, verdict
from fitgauge.engine.serving.platforms import maker
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.support import refusal
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common import parsing as words
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.common.weight_cache import (
    CachedWeights,
    WeightCache,
    read_scheme,
    scheme_of,
)
from fitgauge.services.fit.checkpoints import CheckpointChoice, Checkpoints
from fitgauge.services.fit.launch import source_of
from fitgauge.services.fit.query import Settings
from fitgauge.services.fit.workload import base_workload, context_length_of

_WORKLOADS, _STAGE_MEMORIES = 4096, 512
"""Cached workloads and memory in addition to the weights, of one question: at most some 5 MiB."""


def gpu_class(accelerator: Accelerator) -> Hashable:
    """Return what decides whether an engine runs a format on a GPU."""
    return maker(accelerator), accelerator.compute_capability, accelerator.gfx


class Demand(NamedTuple):
    """What a workload requires of the fullest of its GPUs: the same on all GPUs of one kind."""

    workload: Workload
    """The workload, settled."""
    required: Bytes
    """What the fullest GPU needs [bytes]; with `parts`, the least that any of a kind needs."""
    layers: int
    """Layers on that GPU."""
    fixed_bytes: int
    """What of it is no cache."""
    parts: tuple[tuple[tuple[Term, ...], ...], tuple[StageMemory, ...]] | None = None
    """Where GPUs of a kind differ by their memory: the loaded terms and the other memory of every
    stage."""


class BatchEstimate(NamedTuple):
    """How one question turned out."""

    workload: Workload
    """The workload, settled."""
    required: Bytes
    """What the fullest GPU needs [bytes]."""
    budget: Bytes
    """What the engine may use of it [bytes]."""
    outside: Bytes
    """What the engine and others hold of it outside the engine's share [bytes]."""
    probability: float
    """How likely that suffices."""
    changed: Settings = MappingProxyType({})
    """Settings other than the engine's defaults."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of this chance."""
        return verdict(self.probability)


class BatchEstimator:
    """Demands of one model, cached for one question. The same numbers as `Serving`, without
    words."""

    def __init__(
        self,
        model: Model,
        engines: Engines,
        preparer: WeightCache,
        checkpoint: Checkpoint = no_checkpoint,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """checkpoint: called before every estimate; what it raises ends the question.
        checkpoints: the published repositories that may be loaded instead of the model."""
        self._checkpoint = checkpoint
        self._checkpoints = checkpoints or Checkpoints(None)
        self._choices: dict[tuple[str | None, EngineName], CheckpointChoice] = {}
        self._others: dict[str, BatchEstimator] = {}
        self._profiles: dict[EngineName, EngineProfile] = {}
        self._prepared: dict[tuple[str | None, EngineName], CachedWeights] = {}
        self._model = model
        self._engines = engines
        self._preparer = preparer
        self._schemes: dict[tuple[str | None, EngineName], Scheme] = {}
        self._refused: dict[Hashable, UnsupportedError | None] = {}
        self._single: dict[Hashable, Workload] = {}
        self._workloads: Memo[Hashable, Workload] = Memo(_WORKLOADS)
        self._demands: Memo[Hashable, Demand] = Memo(_WORKLOADS)
        self._stage_memories: Memo[Hashable, tuple[StageMemory, ...]] = Memo(_STAGE_MEMORIES)
        self._sums: Memo[Hashable, tuple[StageSum, ...]] = Memo(_STAGE_MEMORIES)
        self._derived: defaultdict[EngineName, MixedMemo] = defaultdict(Memo)

    @property
    def spec(self) -> ModelSpec:
        """What the model is made of."""
        return self._model.spec

    def profile(self, engine: EngineName) -> EngineProfile:
        """Return the newest profile of an engine."""
        if engine not in self._profiles:
            self._profiles[engine] = self._engines.profile(engine, None)
        return self._profiles[engine]

    def prepared(self, quantization: str | None, engine: EngineName) -> CachedWeights:
        """Return the model's weights. Raises UnsupportedError for an unknown format."""
        key = quantization, engine
        if key not in self._prepared:
            choice = self.choice(quantization, engine)
            self._prepared[key] = self._preparer.prepare(choice.model, choice.derived, engine)
        return self._prepared[key]

    def has_checkpoint(self, quantization: str | None, engine: EngineName) -> bool:
        """Return whether the catalog has a published checkpoint in this format, or the engine
        quantizes to it while it loads the model."""
        loaded = self.choice(quantization, engine).model
        return source_of(loaded, quantization, engine).placeholder is None

    def choice(self, quantization: str | None, engine: EngineName) -> CheckpointChoice:
        """Return what the engine loads in a format. Raises UnsupportedError for an unknown
        one."""
        key = quantization, engine
        if key not in self._choices:
            self._choices[key] = self._checkpoints.choose(self._model, quantization, engine)
        return self._choices[key]

    def _scheme(self, quantization: str | None, engine: EngineName) -> Scheme:
        """Return the format of the weights. Raises UnsupportedError for an unknown one."""
        key = quantization, engine
        if key not in self._schemes:
            choice = self.choice(quantization, engine)
            self._schemes[key] = scheme_of(choice.model, choice.derived)
        return self._schemes[key]

    def _of_other_shape(self, choice: CheckpointChoice) -> "BatchEstimator | None":
        """Return the estimator of a repository whose layers differ from the model's (a width
        padded for its groups); None where they are the same."""
        if choice.repo is None or choice.model.spec.blocks == self._model.spec.blocks:
            return None
        if choice.repo.text not in self._others:
            self._others[choice.repo.text] = BatchEstimator(
                choice.model, self._engines, self._preparer, self._checkpoint
            )
        return self._others[choice.repo.text]

    def refused(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator
    ) -> UnsupportedError | None:
        """Return why the engine does not run it on one such GPU, None where it does. Raises
        UnsupportedError for an unknown format."""
        key = (
            request.quantization,
            request.kv_cache_dtype,
            request.engine_version,
            engine,
            accelerator.id,
        )
        if key not in self._refused:
            self._checkpoint()
            same_on_all = key[1:4]
            if same_on_all not in self._single:
                self._single[same_on_all] = self.workload(request, engine, accelerator, 1)
            scheme = read_scheme(self._model, self._scheme(request.quantization, engine))
            self._refused[key] = refusal(
                self._single[same_on_all], scheme, accelerator, self._model.spec
            )
        return self._refused[key]

    def running(
        self, request: FitRequest, engine: EngineName, classes: Mapping[Hashable, Accelerator]
    ) -> set[Hashable]:
        """Return those classes of GPUs on which the engine runs it, asked of a GPU of each.
        Raises UnsupportedError for an unknown format."""
        runs, running = self.prepared(request.quantization, engine).runs, set()
        for name, accelerator in classes.items():
            key = (request.kv_cache_dtype, request.engine_version, name)
            runs_here = runs.get(key)
            if runs_here is None:
                runs_here = self.refused(request, engine, accelerator) is None
                runs.put(key, runs_here)
            if runs_here:
                running.add(name)
        return running

    def possible(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int
    ) -> BatchEstimate | None:
        """Return the question on `count` GPUs; None where it is impossible."""
        try:
            return self.fitted(request, engine, accelerator, count)
        except IMPOSSIBLE:
            return None

    def fitted(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int
    ) -> BatchEstimate:
        """Return the question on `count` GPUs. Raises InvalidRequestError where the engine
        cannot divide the model over them."""
        return self.against(self.demand(request, engine, accelerator, count), accelerator)

    def against(
        self, demand: Demand, accelerator: Accelerator, outside: Bytes | None = None
    ) -> BatchEstimate:
        """Return a demand set against a GPU of its kind. outside: what is held of it outside the
        engine's share, where that is known from another share [bytes]."""
        workload, required, layers, fixed_bytes, parts = demand
        row = ENGINES[workload.engine]
        if parts is not None and row.split is not None and row.split.for_accelerator is not None:
            workload = row.with_defaults(workload, self._model.spec, accelerator)
            required, layers, fixed_bytes = fullest_required(
                parts[0], row.split.for_accelerator(*parts, workload, accelerator)
            )
        budget, profile = row.budget(accelerator, workload), self.profile(row.name)
        required = doubted(required, fixed_bytes, doubt(profile, accelerator))
        if outside is None:
            outside = row.bytes_outside_budget(
                self._model.spec, profile, workload, accelerator, layers=layers
            )
        chance = row.startup_probability(required, outside, profile, workload, accelerator)
        return BatchEstimate(workload, required, budget, outside, chance)

    def kind(self, request: FitRequest, engine: EngineName, accelerator: Accelerator) -> Hashable:
        """Return the GPUs of one kind have the same demand."""
        row = ENGINES[engine]
        return row.accelerator_kind(accelerator), self.default_batch(request, engine, accelerator)

    def default_batch(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator
    ) -> tuple[int, int]:
        """Return the engine's default (max_num_seqs, max_batched_tokens) on an accelerator."""
        version = words.version(request.engine_version or self.profile(engine).newest)
        return ENGINES[engine].default_batch(
            accelerator,
            context_length_of(request, self._model.spec),
            version,
            self._model.spec,
            request.tensor_parallel or 1,
        )

    def demand(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int
    ) -> Demand:
        """Return what the question demands of a GPU. Raises InvalidRequestError where the
        engine cannot divide the model over so many."""
        return self.demand_of(
            request.quantization, self.workload(request, engine, accelerator, count), accelerator
        )

    def demand_of(
        self, quantization: str | None, workload: Workload, accelerator: Accelerator
    ) -> Demand:
        """Return what a workload demands of a GPU, with the weights in a format. Raises
        InvalidRequestError as `demand`."""
        row = ENGINES[workload.engine]
        kind = row.accelerator_kind(accelerator)
        if row.workload_kind is not None:
            sharded = self.prepared(quantization, workload.engine).sharded
            kind = row.workload_kind(accelerator, workload, sharded)
        key = (quantization, workload, kind)
        return self._demands.get_or_compute(
            key, lambda: self._demand_loaded(quantization, workload, accelerator, kind)
        )

    def _demand_loaded(
        self, quantization: str | None, workload: Workload, accelerator: Accelerator, kind: Hashable
    ) -> Demand:
        """Return the demand of what is loaded in a format."""
        other = self._of_other_shape(self.choice(quantization, workload.engine))
        if other is not None:
            return other.demand_of(None, workload, accelerator)
        return self._demand(quantization, workload, accelerator, kind)

    def least_usable(self, demand: Demand, share: float | None = None) -> int:
        """Usable bytes below which a GPU is more likely too small than not. share: of the GPU,
        where the engine may take another than the demand's."""
        workload = demand.workload
        if not ENGINES[workload.engine].budget_is_device_share:
            return demand.required.expected - 1
        return int(demand.required.expected / (share or workload.gpu_memory_utilization)) - 1

    def _demand(
        self, quantization: str | None, workload: Workload, accelerator: Accelerator, kind: Hashable
    ) -> Demand:
        """Return the engine's estimate of the fullest GPU; what is held in addition to the
        weights is estimated once for all their formats."""
        self._checkpoint()
        spec, profile, row = (
            self._model.spec,
            self.profile(workload.engine),
            ENGINES[workload.engine],
        )
        sharded = self.prepared(quantization, workload.engine).sharded
        split = row.split
        if split is None or (workload.cpu_offload_bytes and not split.supports_offload):
            fullest = row.estimate(spec, sharded, workload, accelerator, profile).fullest
            return Demand(workload, fullest.required, fullest.layers, fullest.fixed_bytes)
        if split.cache_bytes is not None:
            sums = self._stage_sums(quantization, split, workload, accelerator, kind)
            caches = [split.cache_bytes(one.layout, workload) for one in sums]
            sizes = [one.size.expected + cache for one, cache in zip(sums, caches, strict=True)]
            number = sizes.index(max(sizes))
            rest = sums[number]
            required = rest.size.interval(caches[number])
            return Demand(workload, required, rest.layers, rest.size.expected)
        loaded, other_memory = (
            split.loaded(spec, sharded, workload, accelerator),
            self._stage_memory(split, workload, accelerator, kind),
        )
        return Demand(
            workload,
            *fullest_required(loaded, other_memory),
            None if split.for_accelerator is None else (loaded, other_memory),
        )

    def _stage_sums(
        self,
        quantization: str | None,
        split: SplitEstimate,
        workload: Workload,
        accelerator: Accelerator,
        kind: Hashable,
    ) -> tuple[StageSum, ...]:
        """Return every stage but for its cache, added up once for all numbers of requests."""
        one = structs.replace(workload, concurrency=1)

        def compute() -> tuple[StageSum, ...]:
            sharded = self.prepared(quantization, workload.engine).sharded
            loaded = split.loaded(self._model.spec, sharded, one, accelerator)
            return stage_sums(loaded, self._stage_memory(split, one, accelerator, kind))

        return self._sums.get_or_compute((quantization, one, kind), compute)

    def _stage_memory(
        self, split: SplitEstimate, workload: Workload, accelerator: Accelerator, kind: Hashable
    ) -> tuple[StageMemory, ...]:
        """Return what is held in addition to the weights, computed once for all their formats."""

        def compute() -> tuple[StageMemory, ...]:
            spec, engine = self._model.spec, workload.engine
            settled = ENGINES[engine].with_defaults(workload, spec, accelerator)
            profile, derived = self.profile(engine), self._derived[engine]
            return split.stage_memory(spec, settled, accelerator, profile, derived)

        return self._stage_memories.get_or_compute((workload, kind), compute)

    def workload(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int
    ) -> Workload:
        """Return the Workload a request means, not settled yet: the same for every format of the
        weights and on all GPUs of the same default batch."""
        one = structs.replace(request, model="", gpu="", quantization=None, concurrency=1)
        wide = UNQUANTIZED.get(canonical_name(request.quantization or "")) == "F32"
        batch = self.default_batch(request, engine, accelerator)
        key = (*structs.astuple(one), engine, count, batch, wide)
        workload = self._workloads.get_or_compute(
            key,
            lambda: base_workload(
                request, self._model.spec, accelerator, count, self.profile(engine)
            ),
        )
        if workload.concurrency == (request.concurrency or 1):
            return workload
        return structs.replace(workload, concurrency=request.concurrency or 1)
