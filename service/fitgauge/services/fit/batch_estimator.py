"""One model over many GPUs: what it demands is worked out once for GPUs that an engine treats
alike, and set against each of them."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.engine.serving.doubt import doubted, least_doubt
from fitgauge.engine.serving.fit import Allowance, Verdict, sure_gap, verdict
from fitgauge.engine.serving.platforms import maker
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.rope_scaling import OPTION
from fitgauge.engine.serving.support import newer_wheels, refusal
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common import parsing
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.common.weight_cache import WeightCache, read_scheme
from fitgauge.services.fit.checkpoints import CheckpointChoice, Checkpoints
from fitgauge.services.fit.demands import Demand, LaunchDemand, LaunchShape, ModelDemands
from fitgauge.services.fit.model_formats import ModelFormats
from fitgauge.services.fit.query import Settings
from fitgauge.services.fit.workload import base_workload, context_length_of, is_requantized

_WORKLOADS, _ALLOWANCES = 4096, 1024
"""Cached workloads of one question, and what GPUs have for its launches."""


_DECIDING = attrgetter(
    *(
        name
        for name in FitRequest.__struct_fields__
        if name not in ("model", "gpu", "quantization", "concurrency")
    )
)
"""Reads the fields of a request that decide its workload; requests at once are set on a copy."""


def gpu_class(accelerator: Accelerator) -> Hashable:
    """Return what decides whether an engine runs a format on a GPU."""
    return maker(accelerator), accelerator.compute_capability, accelerator.gfx


class BatchEstimate(NamedTuple):
    """How one question turned out."""

    workload: Workload
    """The workload, settled."""
    required: Bytes
    """What the fullest GPU needs [bytes]."""
    allowance: Allowance
    """What it has for the launch."""
    probability: float
    """How likely that suffices."""
    changed: Settings = MappingProxyType({})
    """Settings other than the engine's defaults."""

    @property
    def chosen(self) -> dict[str, float]:
        """What differs from the engine's defaults, the scaling of positions too, to be sent."""
        factor = self.workload.rope_scaling_factor
        return {**self.changed, **({OPTION: factor} if factor > 1 else {})}

    @property
    def budget(self) -> Bytes:
        """What the engine may use of the GPU [bytes]."""
        return self.allowance.budget

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
        self._others: dict[str, BatchEstimator] = {}
        self._of_format: dict[tuple[str | None, EngineName], BatchEstimator | None] = {}
        self._model = model
        self._engines = engines
        self._preparer = preparer
        self._refused: dict[Hashable, UnsupportedError | None] = {}
        self._single: dict[Hashable, Workload] = {}
        self._bounds: dict[EngineName, tuple[float, bool]] = {}
        self._workloads: Memo[Hashable, Workload] = Memo(_WORKLOADS)
        self._allowances: Memo[Hashable, Allowance] = Memo(_ALLOWANCES)
        self.formats = ModelFormats(model, engines, preparer, checkpoints or Checkpoints(None))
        self._demands = ModelDemands(self.formats, checkpoint)

    @property
    def spec(self) -> ModelSpec:
        """What the model is made of."""
        return self._model.spec

    def _of_other_shape(
        self, quantization: str | None, engine: EngineName
    ) -> "BatchEstimator | None":
        """Return the estimator of a repository whose layers differ from the model's (a width
        padded for its groups), which is loaded in a format; None where they are the same."""
        key = quantization, engine
        if key not in self._of_format:
            choice = self.formats.choice(quantization, engine)
            self._of_format[key] = self._other(choice)
        return self._of_format[key]

    def _other(self, choice: CheckpointChoice) -> "BatchEstimator | None":
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
            scheme = read_scheme(self._model, self.formats.scheme(request.quantization, engine))
            self._refused[key] = refusal(
                self._single[same_on_all], scheme, accelerator, self._model.spec
            )
        return self._refused[key]

    def has_wheels(self, request: FitRequest, engine: EngineName, accelerator: Accelerator) -> bool:
        """Return whether the engine's wheels are for such a GPU."""
        version = parsing.version(request.engine_version or self.formats.profile(engine).newest)
        return version is None or newer_wheels(engine, version, accelerator) is None

    def runs(self, request: FitRequest, engine: EngineName, accelerator: Accelerator) -> bool:
        """Return whether the engine runs it on such a GPU, which is remembered with the weights
        once they are sharded. Raises UnsupportedError for an unknown format."""
        if self.formats.is_prepared(request.quantization, engine):
            name = gpu_class(accelerator)
            return name in self.running(request, engine, {name: accelerator})
        return self.refused(request, engine, accelerator) is None

    def running(
        self, request: FitRequest, engine: EngineName, classes: Mapping[Hashable, Accelerator]
    ) -> set[Hashable]:
        """Return those classes of GPUs on which the engine runs it, asked of a GPU of each.
        Raises UnsupportedError for an unknown format."""
        runs, running = self.formats.prepared(request.quantization, engine).runs, set()
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

    def against(self, demand: Demand, accelerator: Accelerator) -> BatchEstimate:
        """Return a demand set against a GPU of its kind."""
        if demand.parts is not None:
            row = ENGINES[demand.workload.engine]
            settled = row.with_defaults(demand.workload, self._model.spec, accelerator)
            demand = demand.on(settled, accelerator)
        allowance = self._allowance(demand, accelerator)
        required = doubted(demand.required, demand.fixed_bytes, allowance.by)
        return BatchEstimate(demand.workload, required, allowance, allowance.probability(required))

    def _allowance(self, demand: Demand, accelerator: Accelerator) -> Allowance:
        """Return what a GPU has for the launch of a demand: the same for any format of the weights
        and any requests whose fullest GPU has as many layers, where GPUs of a kind do not
        differ."""
        if demand.parts is not None:
            return self._compute_allowance(demand, accelerator)
        key = demand.launch.idle, demand.layers, accelerator.id
        allowance = self._allowances.get(key)
        if allowance is None:
            allowance = self._compute_allowance(demand, accelerator)
            self._allowances.put(key, allowance)
        return allowance

    def _compute_allowance(self, demand: Demand, accelerator: Accelerator) -> Allowance:
        workload = demand.workload
        row, profile = ENGINES[workload.engine], self.formats.profile(workload.engine)
        outside = row.bytes_outside_budget(
            self._model.spec, profile, workload, accelerator, layers=demand.layers
        )
        return row.allowance(outside, profile, workload, accelerator)

    def allowance_at(
        self, share: float, judged: BatchEstimate, accelerator: Accelerator
    ) -> Allowance:
        """Return what a GPU has for the same launch with another share of it, of an engine whose
        budget alone depends on that (`Engine.budget_is_device_share`)."""
        engine, outside = judged.workload.engine, judged.allowance.outside

        def compute() -> Allowance:
            workload = structs.replace(judged.workload, gpu_memory_utilization=share)
            return ENGINES[engine].allowance(
                outside, self.formats.profile(engine), workload, accelerator
            )

        return self._allowances.get_or_compute((engine, outside, share, accelerator.id), compute)

    def kinds(
        self, request: FitRequest, engine: EngineName, accelerators: Iterable[Accelerator]
    ) -> list[Hashable]:
        """Return the kind of every accelerator: those of one have the same demand."""
        row, batch_of = ENGINES[engine], self._default_batches(request, engine)
        return [(row.accelerator_kind(each), batch_of(each)) for each in accelerators]

    def default_batch(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator
    ) -> tuple[int, int]:
        """Return the engine's default (max_num_seqs, max_batched_tokens) on an accelerator."""
        return self._default_batches(request, engine)(accelerator)

    def _default_batches(
        self, request: FitRequest, engine: EngineName
    ) -> Callable[[Accelerator], tuple[int, int]]:
        """Return the function behind `default_batch` of a question."""
        version = parsing.version(request.engine_version or self.formats.profile(engine).newest)
        spec, default_batch = self._model.spec, ENGINES[engine].default_batch
        context, tensor = context_length_of(request, spec), request.tensor_parallel or 1
        return lambda accelerator: default_batch(accelerator, context, version, spec, tensor)

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
        return self.launch(quantization, workload, accelerator).under(workload.concurrency)

    def launch(
        self, quantization: str | None, workload: Workload, accelerator: Accelerator
    ) -> LaunchDemand:
        """Return what a workload demands of a GPU under any number of requests. Raises
        InvalidRequestError as `demand`."""
        return self.launch_of(quantization, self.shape(workload, accelerator))

    def shape(self, workload: Workload, accelerator: Accelerator) -> LaunchShape:
        """Return a workload on a GPU, whatever the format of its weights. Raises
        InvalidRequestError as `demand`."""
        return self._demands.shape(workload, accelerator)

    def shape_of(self, workload: Workload, other: LaunchShape) -> LaunchShape:
        """Return a workload on the GPUs of another launch that is divided alike. Raises as
        `shape`."""
        return self._demands.shape_of(workload, other)

    def launch_of(self, quantization: str | None, shape: LaunchShape) -> LaunchDemand:
        """Return the same as `launch` for a workload whose shape is known."""
        other = self._of_other_shape(quantization, shape.workload.engine)
        if other is not None:
            return other.launch(None, shape.workload, shape.accelerator)
        return self._demands.launch(quantization, shape)

    def least_usable(self, demand: Demand, share: float | None = None) -> int:
        """Return the usable bytes below which a demand fits no GPU of the kind. share: of the GPU,
        where the engine may take another than the demand's."""
        workload, required = demand.workload, demand.required
        fixed_bytes = 0 if demand.parts is not None else demand.fixed_bytes
        return self.least_usable_of(
            workload.engine,
            required.expected,
            fixed_bytes,
            share or workload.gpu_memory_utilization,
            spread=required.high - required.expected if fixed_bytes else 0,
        )

    def least_usable_of(
        self, engine: EngineName, required: int, fixed: int, share: float, spread: int = 0
    ) -> int:
        """Return the usable bytes below which no GPU surely holds what is required of it, whatever
        the doubt and however much lies outside the engine's share.

        required: bytes expected, of which at least `fixed` are no cache; share: of the GPU; spread:
        of the upper side of what is required [bytes]."""
        doubt, is_share = self._bounds.get(engine) or self._bounds_of(engine)
        least = required + sure_gap(spread, doubt * fixed)
        return int(least / share if is_share else least) - 1

    def _bounds_of(self, engine: EngineName) -> tuple[float, bool]:
        """Return (the least doubt, whether the budget is a share of the device)."""
        doubt = least_doubt(self.formats.profile(engine))
        bounds = self._bounds[engine] = doubt, ENGINES[engine].budget_is_device_share
        return bounds

    def workload(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator, count: int
    ) -> Workload:
        """Return the Workload a request means, not settled yet: the same for every format of the
        weights, but for what it says of them, and on all GPUs of the same default batch."""
        wide = UNQUANTIZED.get(canonical_name(request.quantization or "")) == "F32"
        batch = self.default_batch(request, engine, accelerator)
        requantized = is_requantized(request, self._model.spec)
        key = (_DECIDING(request), engine, count, batch, wide, requantized)
        workload = self._workloads.get_or_compute(
            key,
            lambda: base_workload(
                request, self._model.spec, accelerator, count, self.formats.profile(engine)
            ),
        )
        if workload.concurrency == (request.concurrency or 1):
            return workload
        return structs.replace(workload, concurrency=request.concurrency or 1)
