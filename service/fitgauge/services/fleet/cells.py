"""The rows of one model: for every kind of GPU and every load the fewest GPUs that hold it.

What the model demands is counted once for GPUs that an engine treats alike; a GPU whose memory is
below a bound of that count is not looked at."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.support import context_refusal
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, code_of, refused_field, sentence
from fitgauge.services.common.weight_cache import scheme_of
from fitgauge.services.compare.schemas import CellNote
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator, gpu_class
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.batch_steps import LaunchKind, LaunchSteps
from fitgauge.services.fit.checkpoints import default_format
from fitgauge.services.fit.floors import Floors
from fitgauge.services.fit.workload import context_length_of, degrees
from fitgauge.services.fleet.pools import Pool


class Cell(NamedTuple):
    """How a model turned out on GPUs of one kind."""

    engine: EngineName
    """The engine."""
    quantization: str | None
    """The format of the weights; None: as published."""
    context_length: int
    """Tokens of a request."""
    gpu_count: int | None
    """The fewest GPUs that hold it, else the most; None where it is unsupported."""
    fitted: BatchEstimate | None
    """The estimate on so many."""
    note: CellNote | None = None
    """Why it is unsupported."""

    @property
    def fewest(self) -> int | None:
        """The fewest GPUs that hold it; None where none do."""
        fits = self.fitted is not None and self.fitted.verdict == "fits"
        return self.gpu_count if fits else None


_IDLE = CellNote("impossible-degrees", "gpu_count", "The model cannot use so many GPUs.")


class _Group(NamedTuple):
    """Pools on which one engine runs the model in one format."""

    engine: EngineName
    """The engine."""
    quantization: str | None
    """The format."""
    pools: tuple[Pool, ...]
    """The GPUs."""


_Division = tuple[list[_Group], dict[str, Cell]]
"""The groups, and what is refused of other pools."""


class ModelCells:
    """The cells of one model on the GPUs of a fleet."""

    def __init__(
        self, model: Model, request: FitRequest, pools: Sequence[Pool], fitting: BatchEstimator
    ) -> None:
        """request: what the model's entry says, without a load. Raises UnsupportedError and
        InvalidRequestError for a format, an engine or a cache format unknown."""
        self._model = model
        self._request = request
        self._pools = pools
        self._fitting = fitting
        self._class_of = {pool.name: gpu_class(pool.accelerator) for pool in pools}
        self._kinds: dict[Hashable, list[tuple[tuple[int, int], list[Pool]]]] = {}
        self._divisions: dict[int, _Division] = {}
        self._least: dict[Hashable, float] = {}
        self._divided(0)

    def under(self, context_length: int | None, concurrency: int) -> dict[str, Cell]:
        """Return the cells under a load, by the name of the pool."""
        request = structs.replace(
            self._request, context_length=context_length, concurrency=concurrency
        )
        context = context_length_of(request, self._model.spec)
        groups, refused = self._divided(context)
        cells = {name: cell._replace(context_length=context) for name, cell in refused.items()}
        for group in groups:
            too_long = context_refusal(context, self._model.spec, group.engine)
            if too_long is not None:
                why = CellNote("context-exceeds-model", too_long.parameter, sentence(too_long))
                unsupported = Cell(group.engine, group.quantization, context, None, None, why)
                cells |= dict.fromkeys((pool.name for pool in group.pools), unsupported)
                continue
            of_group = structs.replace(
                request, engine=group.engine, quantization=group.quantization
            )
            for name, count, outcome in self._outcomes(of_group, group):
                fitted = outcome if isinstance(outcome, BatchEstimate) else None
                note = outcome if isinstance(outcome, CellNote) else None
                cells[name] = Cell(group.engine, group.quantization, context, count, fitted, note)
        return cells

    def on(
        self, pool: Pool, count: int, context_length: int | None, concurrency: int
    ) -> BatchEstimate | None:
        """Return the estimate on so many GPUs of a pool under a load; None where it is
        unsupported."""
        groups, _ = self._divided(context_length or 0)
        group = next((one for one in groups if pool in one.pools), None)
        if group is None:
            return None
        request = structs.replace(
            self._request,
            engine=group.engine,
            quantization=group.quantization,
            gpu_count=count,
            context_length=context_length,
            concurrency=concurrency,
        )
        try:
            return best_estimate(self._fitting, request, group.engine, pool.accelerator, count)
        except IMPOSSIBLE:
            return None

    def _divided(self, context_length: int) -> _Division:
        """Return the pools by engine and format: the same for all contexts that the model's config
        says it reads."""
        longest = self._model.spec.max_context_length
        key = context_length if context_length > longest else 0
        if key not in self._divisions:
            refused: dict[str, Cell] = {}
            self._divisions[key] = list(self._grouped(key, refused)), refused
        return self._divisions[key]

    def _grouped(self, beyond: int, refused: dict[str, Cell]) -> Iterator[_Group]:
        """Yield the pools by engine and format, and note in `refused` those on which it does not
        run. beyond: the context where it is longer than the config says, else 0."""
        sent, named = self._request.quantization, self._request.quantization is not None
        quantization = parsing.quantization(sent)
        if not named and self._model.named_format is not None:
            quantization, named = self._model.named_format, True
        request = structs.replace(self._request, quantization=quantization)
        engine_of = self._engines(request, beyond)
        for engine in dict.fromkeys(engine_of.values()):
            own = tuple(
                pool for pool in self._pools if engine_of[self._class_of[pool.name]] == engine
            )
            if named:
                form = parsing.engine_format(quantization, engine)
            else:
                form = default_format(self._model, engine)
            settled = structs.replace(request, engine=engine, quantization=form)
            running = self._running(settled, engine, own)
            yield _Group(
                engine, form, tuple(pool for pool in own if self._class_of[pool.name] in running)
            )
            for pool in own:
                if self._class_of[pool.name] not in running:
                    note = self._refusal(settled, engine, pool.accelerator)
                    refused[pool.name] = Cell(engine, form, 0, None, None, note)

    def _engines(self, request: FitRequest, beyond: int) -> dict[Hashable, EngineName]:
        """Return the first engine that runs the model, by class of GPU; the first of all, whose
        refusal explains what is missing, where none does."""
        engines = (parsing.engine(request.engine),) if request.engine else DEFAULT_ENGINES
        parsing.kv_cache_dtype(request.kv_cache_dtype, engines[0])
        scheme_of(self._model, request.quantization)
        chosen: dict[Hashable, EngineName] = {}
        for engine in engines:
            if context_refusal(beyond, self._model.spec, engine) is not None:
                continue
            left = [one for one in self._pools if self._class_of[one.name] not in chosen]
            chosen |= dict.fromkeys(self._running(request, engine, left), engine)
        return dict.fromkeys(self._class_of.values(), engines[0]) | chosen

    def _running(
        self, request: FitRequest, engine: EngineName, pools: Sequence[Pool]
    ) -> set[Hashable]:
        """Return the classes of GPUs on which the engine runs the model."""
        classes = {self._class_of[pool.name]: pool.accelerator for pool in pools}
        try:
            return self._fitting.running(request, engine, classes)
        except IMPOSSIBLE:
            return set()

    def _refusal(
        self, request: FitRequest, engine: EngineName, accelerator: Accelerator
    ) -> CellNote | None:
        """Return why the engine does not run the model on a GPU."""
        try:
            refused = self._fitting.refused(request, engine, accelerator)
        except IMPOSSIBLE as error:
            return _note(error)
        return None if refused is None else _note(refused)

    def _outcomes(
        self, request: FitRequest, group: _Group
    ) -> Iterator[tuple[str, int | None, BatchEstimate | CellNote]]:
        """Yield (name, GPUs, outcome) of every pool of a group."""
        workloads: dict[Hashable, Workload] = {}
        for batch, alike in self._alike(request, group):
            yield from self._fewest(request, group.engine, alike, batch, workloads)

    def _alike(
        self, request: FitRequest, group: _Group
    ) -> list[tuple[tuple[int, int], list[Pool]]]:
        """Return the pools of a group by kind, each with the engine's default batch, which the
        context alone decides of a load."""
        key = group.engine, request.context_length
        if key not in self._kinds:
            kind_of = ENGINES[group.engine].accelerator_kind
            kinds: defaultdict[tuple[Hashable, tuple[int, int]], list[Pool]] = defaultdict(list)
            for pool in group.pools:
                batch = self._fitting.default_batch(request, group.engine, pool.accelerator)
                kinds[kind_of(pool.accelerator), batch].append(pool)
            self._kinds[key] = [(batch, pools) for (_, batch), pools in kinds.items()]
        return self._kinds[key]

    def _fewest(
        self,
        request: FitRequest,
        engine: EngineName,
        pools: Sequence[Pool],
        batch: tuple[int, int],
        workloads: dict[Hashable, Workload],
    ) -> Iterator[tuple[str, int | None, BatchEstimate | CellNote]]:
        """Yield the fewest GPUs that hold the model in each of these pools, which are of one kind;
        where none do, the most that it can use. workloads: those of this load, by the engine's
        default batch and the number of GPUs."""
        left = {pool.name: pool for pool in pools}
        for count in sorted({count for pool in pools for count in pool.counts}):
            least = self._least_usable(request, engine, count)
            large = [
                pool
                for pool in left.values()
                if count in pool.counts and pool.accelerator.usable.expected >= least
            ]
            if not large:
                continue
            on_count = structs.replace(request, gpu_count=count)
            accelerator = large[0].accelerator
            try:
                if (batch, count) not in workloads:
                    workloads[batch, count] = self._fitting.workload(
                        on_count, engine, accelerator, count
                    )
                fitting = dict(self._on_count(on_count, workloads[batch, count], large))
            except IMPOSSIBLE:
                continue
            for name, fitted in fitting.items():
                del left[name]
                yield name, count, fitted
        for pool in left.values():
            yield (pool.name, *self._most(request, engine, pool))

    def _on_count(
        self, request: FitRequest, workload: Workload, pools: Sequence[Pool]
    ) -> Iterator[tuple[str, BatchEstimate]]:
        """Yield the pools that so many GPUs of each hold it in, most with the engine's defaults, so
        that other settings are counted where one does not. Raises as `BatchEstimator.shape`."""
        fitting, accelerator = self._fitting, pools[0].accelerator
        demand = fitting.demand_of(request.quantization, workload, accelerator)
        least, others = fitting.least_usable(demand), []
        for pool in pools:
            if pool.accelerator.usable.expected >= least:
                judged = fitting.against(demand, pool.accelerator)
                if judged.verdict == "fits":
                    yield pool.name, judged
                    continue
            others.append(pool)
        if not others or request.settings == "defaults":
            return
        steps = LaunchSteps(fitting, request, LaunchKind(fitting, request, workload, accelerator))
        for pool in others:
            fitted = steps.fitted(pool.accelerator)
            if fitted is not None:
                yield pool.name, fitted

    def _most(
        self, request: FitRequest, engine: EngineName, pool: Pool
    ) -> tuple[int | None, BatchEstimate | CellNote]:
        """Return the estimate on the most GPUs that the model can use of a pool; why there is
        none where it can use none."""
        why: InvalidRequestError | UnsupportedError | None = None
        for count in reversed(pool.counts):
            if self._least_usable(request, engine, count) == inf:
                continue
            on_count = structs.replace(request, gpu_count=count)
            try:
                return count, best_estimate(
                    self._fitting, on_count, engine, pool.accelerator, count
                )
            except IMPOSSIBLE as error:
                why = error
        return None, _note(why) if why is not None else _IDLE

    def _least_usable(self, request: FitRequest, engine: EngineName, count: int) -> float:
        """Return the usable memory below which so many GPUs are too small for weights and cache;
        infinite where some of them would idle."""
        key = engine, count, request.context_length, request.concurrency
        if key not in self._least:
            self._least[key] = self._floor(request, engine, count)
        return self._least[key]

    def _floor(self, request: FitRequest, engine: EngineName, count: int) -> float:
        """Return `_least_usable`, worked out."""
        try:
            tensor, pipeline, data = degrees(request, self._model.spec, count, engine)
        except IMPOSSIBLE:
            tensor, pipeline, data = 1, count, 1
        if tensor * pipeline * data < count:
            return inf
        floors = Floors(self._fitting, request)
        return floors.of_count(request.quantization, engine, count, tensor)


def _note(error: InvalidRequestError | UnsupportedError) -> CellNote:
    """Return a refusal as rows say it."""
    if isinstance(error, UnsupportedError):
        return CellNote("unsupported", error.parameter, sentence(error))
    return CellNote(code_of(error), refused_field(error), sentence(error))
