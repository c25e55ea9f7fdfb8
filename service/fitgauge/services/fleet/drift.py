"""What a release of an engine changes for a fleet: models that stop fitting or need other numbers
of GPUs, with the terms that change."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Literal, NamedTuple

from msgspec import structs

from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import FitgaugeError
from fitgauge.services.common import parsing
from fitgauge.services.common.unsupported import IMPOSSIBLE, invalid_request
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fleet.cells import Cell, ModelCells
from fitgauge.services.fleet.pools import Pool
from fitgauge.services.fleet.schemas import (
    DriftAnswer,
    DriftRow,
    Fault,
    LoadEntry,
    ModelEntry,
    TermChange,
)
from fitgauge.services.fleet.service import FleetQuestion, FleetService, fault_of
from fitgauge.services.fleet.summary import left_out

Change = Literal["stops", "needs_more", "needs_fewer", "starts"]

_NAMED = 5
"""Models that the summary names of each change."""


class DriftBatch(NamedTuple):
    """What changes for one model."""

    entry: ModelEntry
    """The model's entry."""
    rows: list[DriftRow]
    """What changes."""
    is_of_engine: bool = True
    """Whether the engine runs it."""
    fault: Fault | None = None
    """Why it is not answered."""


class _Release(NamedTuple):
    """A model on one release."""

    cells: ModelCells
    """Its cells."""
    fitting: BatchEstimator
    """What estimates them."""


class Releases:
    """Two releases of an engine, and what is between them for a fleet."""

    def __init__(
        self, service: FleetService, question: FleetQuestion, *, before: str, after: str
    ) -> None:
        """Raise InvalidRequestError for a release unknown."""
        fleet = question.fleet
        name = parsing.engine(fleet.engine) if fleet.engine else DEFAULT_ENGINES[0]
        self.engine: EngineName = name
        self.before = before
        self.after = after
        self._service = service
        self._questions = [
            (_on_release(question, name, release), service.engines_of(name, release))
            for release in (self.before, self.after)
        ]

    async def batches(self) -> AsyncIterator[DriftBatch]:
        """Yield what changes for one model after the other."""
        question = self._questions[0][0]
        lines = question.fleet.lines["models"]
        async for entry, model in self._service.resolved(question.fleet.models):
            if isinstance(model, FitgaugeError):
                fault = fault_of(model, lines[entry.title])
                yield DriftBatch(entry, [], fault=fault)
                continue
            try:
                if entry.engine is not None and parsing.engine(entry.engine) != self.engine:
                    yield DriftBatch(entry, [], is_of_engine=False)
                else:
                    yield DriftBatch(entry, self._rows(entry, model))
            except IMPOSSIBLE as error:
                refused = invalid_request(error) if isinstance(error, UnsupportedError) else error
                yield DriftBatch(entry, [], fault=fault_of(refused, lines[entry.title]))

    def _rows(self, entry: ModelEntry, model: Model) -> list[DriftRow]:
        """Return what changes for a model. Raises UnsupportedError and InvalidRequestError for a
        format or a cache format unknown."""
        entry = structs.replace(entry, engine=None)
        before, after = (
            _Release(*self._service.cells(question, entry, model, engines))
            for question, engines in self._questions
        )
        question = self._questions[0][0]
        rows = []
        for load in question.loads_of(entry):
            old = before.cells.under(load.context_length, load.concurrency)
            new = after.cells.under(load.context_length, load.concurrency)
            for pool in question.pools_of(entry):
                change = _change(old[pool.name], new[pool.name])
                if change is not None:
                    cells = old[pool.name], new[pool.name]
                    rows.append(_row(entry, load, pool, change, (before, after), cells))
        return rows


def _on_release(question: FleetQuestion, engine: EngineName, release: str) -> FleetQuestion:
    """Return the fleet on one release of an engine."""
    fleet = structs.replace(question.fleet, engine=engine, engine_version=release)
    return question._replace(fleet=fleet)


def _change(before: Cell, after: Cell) -> Change | None:
    """Return what a release changes for a cell; None for nothing."""
    old, new = before.fewest, after.fewest
    if old == new:
        return None
    if new is None:
        return "stops"
    if old is None:
        return "starts"
    return "needs_more" if new > old else "needs_fewer"


def _row(
    entry: ModelEntry,
    load: LoadEntry,
    pool: Pool,
    change: Change,
    releases: tuple[_Release, _Release],
    cells: tuple[Cell, Cell],
) -> DriftRow:
    """Return a change with the terms behind it, on the GPUs that were enough on the release where
    fewer are."""
    counts = [cell.fewest for cell in cells]
    at_count = min(count for count in counts if count is not None)
    fitted = [
        release.cells.on(pool, at_count, load.context_length, load.concurrency)
        for release in releases
    ]
    row = DriftRow(
        name=entry.title,
        gpu=pool.name,
        load=load.name,
        change=change,
        gpu_count_before=counts[0],
        gpu_count_after=counts[1],
        at_gpu_count=at_count,
        verdict_before=fitted[0].verdict if fitted[0] is not None else "unsupported",
        verdict_after=fitted[1].verdict if fitted[1] is not None else "unsupported",
        note=cells[1].note or cells[0].note,
    )
    if fitted[0] is not None and fitted[1] is not None:
        row.required_bytes = fitted[0].required.expected, fitted[1].required.expected
        row.budget_bytes = fitted[0].budget.expected, fitted[1].budget.expected
        row.terms = _differences(
            _terms(releases[0], cells[0], fitted[0], pool),
            _terms(releases[1], cells[1], fitted[1], pool),
        )
    return row


def _terms(release: _Release, cell: Cell, fitted: BatchEstimate, pool: Pool) -> Counter[str]:
    """Return the terms of the fullest GPU [bytes]."""
    row, workload = ENGINES[cell.engine], fitted.workload
    choice = release.fitting.formats.choice(cell.quantization, cell.engine)
    spec, profile = choice.model.spec, release.fitting.formats.profile(cell.engine)
    settled = row.with_defaults(workload, spec, pool.accelerator)
    sharded = release.fitting.formats.prepared(cell.quantization, cell.engine).sharded
    estimate = row.estimate(spec, sharded, settled, pool.accelerator, profile)
    sizes: Counter[str] = Counter()
    for term in estimate.fullest.terms:
        sizes[term.name] += term.bytes
    return sizes


def _differences(before: Counter[str], after: Counter[str]) -> list[TermChange]:
    """Return the terms that change, the largest change first."""
    changes = [
        TermChange(term=name, before_bytes=before[name], after_bytes=after[name])
        for name in sorted(before | after)
        if before[name] != after[name]
    ]
    return sorted(changes, key=lambda one: -abs(one.after_bytes - one.before_bytes))


class DriftSummary:
    """Adds changes up."""

    def __init__(self, releases: Releases, faults: Sequence[Fault]) -> None:
        """faults: entries that are not answered, so far."""
        self._releases = releases
        self._faults = list(faults)
        self._models = 0
        self._not_asked: list[str] = []
        self._rows: list[DriftRow] = []

    def add(self, batch: DriftBatch) -> None:
        """Add what changes for a model."""
        if batch.fault is not None:
            self._faults.append(batch.fault)
        elif not batch.is_of_engine:
            self._not_asked.append(batch.entry.title)
        else:
            self._models += 1
            self._rows += batch.rows

    def answer(self) -> DriftAnswer:
        """Return what changes for the fleet."""
        stop = list(dict.fromkeys(row.name for row in self._rows if row.change == "stops"))
        grow = dict.fromkeys(row.name for row in self._rows if row.change == "needs_more")
        releases = self._releases
        return DriftAnswer(
            summary=_sentence(releases, self._models, self._rows) + left_out(self._faults),
            engine=releases.engine,
            before=releases.before,
            after=releases.after,
            models=self._models,
            stop=stop,
            grow=[name for name in grow if name not in stop],
            rows=self._rows,
            not_asked=self._not_asked,
            faults=sorted(self._faults, key=lambda fault: fault.line),
        )


def _sentence(releases: Releases, models: int, rows: Sequence[DriftRow]) -> str:
    """Return the summary."""
    after = f"{releases.engine} {releases.after}"
    stop = _on(rows, "stops")
    clauses = [
        f"{len({row.name for row in rows if row.change == 'stops'})} of {models} models stop"
        f" fitting on {after}, against {releases.before}{stop}"
    ]
    words_of: dict[Change, str] = {
        "needs_more": "more GPUs are needed",
        "needs_fewer": "fewer GPUs are needed",
        "starts": "starts fitting",
    }
    clauses += [
        f"{text}{names}" for change, text in words_of.items() if (names := _on(rows, change))
    ]
    return "; ".join(clauses) + "."


def _on(rows: Sequence[DriftRow], change: Change) -> str:
    """Return ': Qwen/Qwen3-8B on RTX 4090', the first models of a change; nothing without any."""
    names = list(dict.fromkeys(f"{row.name} on {row.gpu}" for row in rows if row.change == change))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f": {', '.join(names[:_NAMED])}{more}" if names else ""
