"""compare_fit: models x GPUs x settings, one verdict a cell, in the order in which they were
asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product, starmap

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.weight_cache import WeightCache, scheme_of
from fitgauge.services.compare.launch_cells import GpuCells
from fitgauge.services.compare.schemas import MOST_CELLS, CompareRequest, CompareRow
from fitgauge.services.compare.unknown_names import Setting, UnknownName, unknown_row
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.checkpoints import Checkpoints


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table that was understood and is yet to be filled."""

    total: int
    """Rows of the whole table."""
    """All cells, also those outside of the page."""
    rows: Iterator[CompareRow]
    """The cells from `offset` on that were not taken yet; each is computed when it is taken."""

    def take(self, most: int, checkpoint: Checkpoint) -> list[CompareRow]:
        """Return up to `most` further rows; none at the end."""
        taken = []
        for row in islice(self.rows, most):
            checkpoint()
            taken.append(row)
        return taken


class Comparer:
    """Fills tables. Arithmetic alone; the rows are made as they are asked for, so that a caller
    can rest between them."""

    def __init__(self, engines: Engines, checkpoints: Checkpoints | None = None) -> None:
        """checkpoints: the published repositories that cells may load."""
        self._engines = engines
        self._checkpoints = checkpoints
        self._preparer = WeightCache()

    def compare(
        self,
        request: CompareRequest,
        models: Sequence[Model | UnknownName],
        gpus: Sequence[GpuMatch | UnknownName],
    ) -> Comparison:
        """Return the table, whose rows begin at the request's `offset` and end with its `limit`.
        Raises InvalidRequestError where it has more than 10,000 cells or names an engine or a
        format that is unknown; the error of a name where no row can be answered."""
        settings = _settings(request)
        concurrencies = _several(request.concurrencies) or [1]
        total = cells(len(models), len(gpus), len(settings) * len(concurrencies))
        resolved = [model for model in models if isinstance(model, Model)]
        for names in (models, gpus):
            unknown = [name for name in names if isinstance(name, UnknownName)]
            if len(unknown) == len(names):
                raise unknown[0].error
        for setting in settings:
            scheme_of(resolved[0], setting.quantization)
        start = request.offset or 0
        rows = self._rows(request, models, gpus, settings, concurrencies, total, start)
        return Comparison(total, islice(rows, request.limit))

    def _rows(
        self,
        request: CompareRequest,
        models: Sequence[Model | UnknownName],
        gpus: Sequence[GpuMatch | UnknownName],
        settings: Sequence[Setting],
        concurrencies: Sequence[int],
        total: int,
        start: int,
    ) -> Iterator[CompareRow]:
        """Yield the rows from the cell at `start` on."""
        of_model = total // len(models)
        for index in range(start // of_model, len(models)):
            model = models[index]
            estimator = (
                None
                if isinstance(model, UnknownName)
                else BatchEstimator(
                    model, self._engines, self._preparer, checkpoints=self._checkpoints
                )
            )
            of_gpu: GpuCells | None = None
            decided: tuple[object, ...] = ()
            skipped = max(0, start - index * of_model)
            launches = enumerate(product(gpus, settings))
            for of_launch, (gpu, setting) in islice(launches, skipped // len(concurrencies), None):
                first = index * of_model + of_launch * len(concurrencies) + 1
                numbered = [
                    (number, concurrency)
                    for number, concurrency in enumerate(concurrencies, first)
                    if number > start
                ]
                if isinstance(gpu, UnknownName) or isinstance(model, UnknownName):
                    for number, requests in numbered:
                        yield unknown_row(number, total, request, model, gpu, setting, requests)
                elif estimator is not None:
                    engine, quantization, context = setting
                    longest = model.spec.max_context_length
                    beyond = context if context and context > longest else None
                    if of_gpu is None or decided != (gpu, engine, quantization, beyond):
                        decided = gpu, engine, quantization, beyond
                        of_gpu = GpuCells(
                            total, request, model, gpu, engine, quantization, estimator, beyond
                        )
                    launch = of_gpu.with_context(context)
                    for number, requests in numbered:
                        yield launch.row(number, requests)


def cells(models: int, gpus: int, settings: int) -> int:
    """Return the size of a table. Raises InvalidRequestError for one that is too large."""
    total = models * gpus * settings
    if not total:
        raise InvalidRequestError(
            "The table has no cells.",
            hint="Send at least one model and one GPU.",
            field="models",
            code="missing-field",
        )
    if total > MOST_CELLS:
        message = (
            f"The table is too large: {models} models x {gpus} GPUs x {settings} settings are"
            f" {total:,} cells."
        )
        raise InvalidRequestError(
            message,
            hint=f"Request at most {MOST_CELLS:,} at a time.",
            field="models",
            code="too-many-cells",
        )
    return total


def _settings(request: CompareRequest) -> list[Setting]:
    """Return engines x formats x contexts. Raises InvalidRequestError for an
    engine or a cache format unknown."""
    engines: list[EngineName | None] = [
        parsing.engine(name) for name in parsing.split_list(request.engines)
    ] or [None]
    for engine in engines:
        parsing.kv_cache_dtype(request.kv_cache_dtype, engine or DEFAULT_ENGINES[0])
    formats = parsing.quantizations(request.quantizations)
    contexts: list[int | None] = [*_several(request.context_lengths)] or [None]
    return list(starmap(Setting, product(engines, formats, contexts)))


def _several(sent: int | list[int] | None) -> list[int]:
    return [] if sent is None else [sent] if isinstance(sent, int) else list(dict.fromkeys(sent))
