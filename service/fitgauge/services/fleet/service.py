"""A fleet from its file to its answer: names resolved, rows of one model after the other, what the
whole fits on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from fitgauge import __version__
from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import FitgaugeError
from fitgauge.services.common import parsing
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, as_invalid_request, invalid_request
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fleet.cells import Cell, ModelCells
from fitgauge.services.fleet.pools import Pool, pool_of
from fitgauge.services.fleet.schemas import Fault, Fleet, FleetRow, LoadEntry, ModelEntry

Find = Callable[[str], Coroutine[Any, Any, Model]]

_ALIKE = 64
"""Models whose cells are held for others like them: some 0.2 MiB each, with 50 kinds of GPU and
four loads."""

_IN_A_FILE = ("GET /v1/gpus", "`fitgauge gpus`")
"""A path of the API, and the command that lists the same."""

_AT_ONCE = 8
"""Models looked up at once."""


class Shard(NamedTuple):
    """One of the equal parts of a fleet."""

    number: int
    """From 1."""
    total: int
    """How many parts there are."""

    def models(self, entries: Sequence[ModelEntry]) -> list[ModelEntry]:
        """Return the models of this part: every `total`-th."""
        return list(entries[self.number - 1 :: self.total])


WHOLE = Shard(1, 1)


class Batch(NamedTuple):
    """The rows of one model."""

    entry: ModelEntry
    """The model's entry."""
    rows: list[FleetRow]
    """Its rows; none under a fault."""
    skipped: int = 0
    """Rows of them that were answered before."""
    fault: Fault | None = None
    """Why there are none."""


class FleetQuestion(NamedTuple):
    """A fleet whose GPUs are resolved."""

    fleet: Fleet
    """The file."""
    pools: list[Pool]
    """Its GPUs."""
    faults: list[Fault]
    """Entries that are not answered."""

    def pools_of(self, entry: ModelEntry) -> list[Pool]:
        """Return the GPUs that a model may run on."""
        return [pool for pool in self.pools if entry.gpus is None or pool.title in entry.gpus]

    def loads_of(self, entry: ModelEntry) -> list[LoadEntry]:
        """Return the loads that a copy of a model must hold."""
        loads = self.fleet.loads
        return [load for load in loads if entry.loads is None or load.name in entry.loads]


class FleetService:
    """Answers fleets."""

    def __init__(
        self, find: Find, checkpoints: Checkpoints, engines: Engines, catalog: Catalog
    ) -> None:
        """find: the model of a name; checkpoints: the published repositories that may be loaded
        instead of one."""
        self._find = as_invalid_request(find)
        self._checkpoints = checkpoints
        self._engines = engines
        self._catalog = catalog
        self._weights = WeightCache()
        self._runs = [engines.profile(name, None).own_shares for name in ENGINES]

    @property
    def engines(self) -> Engines:
        """The profiles of all engines."""
        return self._engines

    def question(self, fleet: Fleet) -> FleetQuestion:
        """Return the fleet with its GPUs; those that are unknown are faults."""
        pools, faults = [], list(fleet.faults)
        for entry in fleet.gpus:
            try:
                pools.append(pool_of(entry, self._catalog))
            except FitgaugeError as error:
                faults.append(fault_of(error, fleet.lines["gpus"][entry.title]))
        return FleetQuestion(fleet, pools, faults)

    async def batches(
        self, question: FleetQuestion, previous: Mapping[str, FleetRow], shard: Shard = WHOLE
    ) -> AsyncIterator[Batch]:
        """Yield the rows of one model after the other, in the order of the file. previous: rows
        that were answered before, by `question`. Raises InvalidRequestError for a release unknown.
        """
        fleet = question.fleet
        engines = self.engines_of(fleet.engine, fleet.engine_version)
        alike: Memo[bytes, dict[str, dict[str, Cell]]] = Memo(_ALIKE)
        async for entry, model in self.resolved(shard.models(fleet.models)):
            if isinstance(model, FitgaugeError):
                fault = fault_of(model, fleet.lines["models"][entry.title])
                yield Batch(entry, [], fault=fault)
                continue
            try:
                yield self._batch(question, entry, model, engines, previous, alike)
            except IMPOSSIBLE as error:
                refused = invalid_request(error) if isinstance(error, UnsupportedError) else error
                fault = fault_of(refused, fleet.lines["models"][entry.title])
                yield Batch(entry, [], fault=fault)

    def engines_of(self, engine: str | None, version: str | None) -> Engines:
        """Return the profiles of a release of an engine. Raises InvalidRequestError where it is
        unknown."""
        if version is None:
            return self._engines
        return self._engines.until(engine or DEFAULT_ENGINES[0], parsing.version(version))

    async def resolved(
        self, entries: Sequence[ModelEntry]
    ) -> AsyncIterator[tuple[ModelEntry, Model | FitgaugeError]]:
        """Yield every entry with its model, or with why there is none."""
        waiting = iter(entries)
        while some := list(islice(waiting, _AT_ONCE)):
            models = await asyncio.gather(
                *(self._find(entry.model) for entry in some), return_exceptions=True
            )
            for entry, model in zip(some, models, strict=True):
                if isinstance(model, BaseException) and not isinstance(model, FitgaugeError):
                    raise model
                yield entry, model

    def cells(
        self, question: FleetQuestion, entry: ModelEntry, model: Model, engines: Engines
    ) -> tuple[ModelCells, BatchEstimator]:
        """Return the cells of a model on its GPUs, and what estimates them. Raises
        UnsupportedError and InvalidRequestError for a format, an engine or a cache format
        unknown."""
        fleet = question.fleet
        fitting = BatchEstimator(model, engines, self._weights, checkpoints=self._checkpoints)
        is_of_fleet = entry.engine is None or parsing.engine(entry.engine) == parsing.engine(
            fleet.engine
        )
        request = FitRequest(
            model=model.id,
            engine=entry.engine or fleet.engine,
            engine_version=fleet.engine_version if is_of_fleet else None,
            quantization=entry.quantization,
            kv_cache_dtype=entry.kv_cache_dtype,
            settings=fleet.settings,
        )
        return ModelCells(model, request, question.pools_of(entry), fitting), fitting

    def _batch(
        self,
        question: FleetQuestion,
        entry: ModelEntry,
        model: Model,
        engines: Engines,
        previous: Mapping[str, FleetRow],
        alike: Memo[bytes, dict[str, dict[str, Cell]]],
    ) -> Batch:
        """Return the rows of one model: those of `previous`, and the others estimated. alike: the
        cells of lately answered models by what decides them, then by load."""
        pools, loads = question.pools_of(entry), question.loads_of(entry)
        keys = dict(_keys(question.fleet, entry, model, pools, loads, self._runs))
        skipped = sum(key in previous for key in keys.values())
        by_load = alike.get_or_compute(_decides(entry, model), dict)
        cells: ModelCells | None = None
        rows = []
        for load in loads:
            is_known = all(keys[load.name, pool.name] in previous for pool in pools)
            if not is_known and load.name not in by_load:
                if cells is None:
                    cells, _ = self.cells(question, entry, model, engines)
                by_load[load.name] = cells.under(load.context_length, load.concurrency)
            for pool in pools:
                key = keys[load.name, pool.name]
                row = previous.get(key)
                if row is None:
                    row = _row(entry, model, pool, load, by_load[load.name][pool.name], key)
                price = pool.usd_per_hour
                if price is not None and row.gpu_count is not None:
                    row.usd_per_hour = round(price * row.gpu_count, 4)
                rows.append(row)
        return Batch(entry, rows, skipped)


def _decides(entry: ModelEntry, model: Model) -> bytes:
    """Return what decides the cells of a model within one fleet: fine-tunes of one architecture
    are alike, but where the format makes the engine load another repository."""
    other = model.id if entry.quantization or model.named_format else None
    parts = (model.spec, model.stored, model.source, other, model.named_format)
    return msgspec.msgpack.encode(
        (*parts, entry.gpus, entry.quantization, entry.engine, entry.kv_cache_dtype)
    )


def _keys(
    fleet: Fleet,
    entry: ModelEntry,
    model: Model,
    pools: Sequence[Pool],
    loads: Sequence[LoadEntry],
    runs: Sequence[Mapping[str, float]],
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what the row of every load and pool answers, as a short hash: of all that decides
    it. runs: what runs of one's own say of each engine."""
    of_model = blake2b(
        msgspec.json.encode(
            (
                __version__,
                (model.id, model.revision, entry.title, entry.quantization, entry.kv_cache_dtype),
                (entry.engine or fleet.engine, fleet.engine_version, fleet.settings),
                runs,
            )
        ),
        digest_size=8,
    )
    of_pools = [
        (pool.name, repr((pool.name, pool.accelerator.id, pool.accelerator.usable, pool.counts)))
        for pool in pools
    ]
    for load in loads:
        of_load = of_model.copy()
        of_load.update(msgspec.json.encode(load))
        for name, text in of_pools:
            of_row = of_load.copy()
            of_row.update(text.encode())
            yield (load.name, name), of_row.hexdigest()


def _row(
    entry: ModelEntry, model: Model, pool: Pool, load: LoadEntry, cell: Cell, key: str
) -> FleetRow:
    """Return a cell as it is answered."""
    fitted = cell.fitted
    return FleetRow(
        name=entry.title,
        model=model.id,
        gpu=pool.name,
        load=load.name,
        verdict="unsupported" if fitted is None else fitted.verdict,
        gpu_count=None if fitted is None else cell.gpu_count,
        engine=cell.engine,
        quantization=cell.quantization or parsing.AS_PUBLISHED,
        context_length=cell.context_length,
        concurrency=load.concurrency,
        question=key,
        required_bytes=None if fitted is None else fitted.required.expected,
        budget_bytes=None if fitted is None else fitted.budget.expected,
        chosen={} if fitted is None else fitted.chosen,
        note=cell.note,
    )


def fault_of(error: FitgaugeError, line: int) -> Fault:
    """Return why an entry is not answered."""
    return Fault(
        line=line,
        code=error.code,
        message=" ".join(filter(None, (error.detail, error.hint.replace(*_IN_A_FILE)))),
        matches=list(error.matches),
    )
