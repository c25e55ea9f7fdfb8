"""compare_fit: models x GPUs x settings, one verdict a cell, in the order in which they were
asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import Model, ModelSpec
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.engine.serving.support import context_refusal
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing as words
from fitgauge.services.common.default_engine import first_that_runs
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, code_of, refused_field, sentence
from fitgauge.services.common.weight_cache import WeightCache, scheme_of
from fitgauge.services.compare.schemas import MOST_CELLS, CellNote, CompareRequest, CompareRow
from fitgauge.services.compare.unknown_names import Setting, UnknownName, unknown_row
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.checkpoints import Checkpoints, default_format
from fitgauge.services.fit.workload import context_length_of


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
        total = cells(len(models), len(gpus), len(settings))
        resolved = [model for model in models if isinstance(model, Model)]
        for names in (models, gpus):
            unknown = [name for name in names if isinstance(name, UnknownName)]
            if len(unknown) == len(names):
                raise unknown[0].error
        for _, quantization, _, _ in settings:
            scheme_of(resolved[0], quantization)
        start = request.offset or 0
        rows = self._rows(request, models, gpus, settings, start)
        return Comparison(total, islice(rows, request.limit))

    def _rows(
        self,
        request: CompareRequest,
        models: Sequence[Model | UnknownName],
        gpus: Sequence[GpuMatch | UnknownName],
        settings: Sequence[Setting],
        start: int,
    ) -> Iterator[CompareRow]:
        """Yield the rows from the cell at `start` on."""
        of_model = len(gpus) * len(settings)
        total = len(models) * of_model
        for index in range(start // of_model, len(models)):
            model = models[index]
            estimator = (
                None
                if isinstance(model, UnknownName)
                else BatchEstimator(
                    model, self._engines, self._preparer, checkpoints=self._checkpoints
                )
            )
            skipped = max(0, start - index * of_model)
            of_rest = islice(enumerate(product(gpus, settings)), skipped, None)
            for cell, (gpu, setting) in of_rest:
                number = index * of_model + cell + 1
                if isinstance(gpu, UnknownName) or isinstance(model, UnknownName):
                    yield unknown_row(number, total, request, model, gpu, setting)
                elif estimator is not None:
                    yield _row(number, total, request, model, gpu, setting, estimator)


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
    """Return engines x formats x contexts x concurrencies. Raises InvalidRequestError for an
    engine or a cache format unknown."""
    engines: list[EngineName | None] = [
        words.engine(name) for name in words.split_list(request.engines)
    ] or [None]
    for engine in engines:
        words.kv_cache_dtype(request.kv_cache_dtype, engine or DEFAULT_ENGINES[0])
    formats = words.quantizations(request.quantizations)
    contexts: list[int | None] = [*_several(request.context_lengths)] or [None]
    return list(product(engines, formats, contexts, _several(request.concurrencies) or [1]))


def _several(sent: int | list[int] | None) -> list[int]:
    return [] if sent is None else [sent] if isinstance(sent, int) else list(dict.fromkeys(sent))


def _row(
    number: int,
    total: int,
    request: CompareRequest,
    model: Model,
    match: GpuMatch,
    setting: Setting,
    fitting: BatchEstimator,
) -> CompareRow:
    """Return one cell; what is impossible is unsupported, with the reason."""
    engine_name, quantization, context, concurrency = setting
    spec, accelerator = model.spec, match.accelerator
    named = request.quantizations is not None
    if not named and model.named_format is not None:
        quantization, named = model.named_format, True
    question = FitRequest(
        model=model.id,
        gpu=accelerator.name,
        gpu_count=match.count,
        engine=engine_name,
        quantization=quantization,
        context_length=context,
        concurrency=concurrency,
        kv_cache_dtype=request.kv_cache_dtype,
        settings=request.settings,
    )
    engine = engine_name or first_that_runs(
        lambda usual: _runs(fitting, question, usual, accelerator)
    )
    quantization = (
        words.engine_format(quantization, engine) if named else default_format(model, engine)
    )
    question = structs.replace(question, quantization=quantization)
    row = CompareRow(
        number=number,
        of=total,
        model=model.id,
        gpu=accelerator.name,
        gpu_count=match.count,
        engine=engine,
        quantization=quantization or words.AS_PUBLISHED,
        context_length=context_length_of(question, spec),
        concurrency=concurrency,
        verdict="unsupported",
    )
    _judge(row, question, match, spec, fitting, engine)
    return row


def _judge(
    row: CompareRow,
    question: FitRequest,
    gpu: GpuMatch,
    spec: ModelSpec,
    fitting: BatchEstimator,
    engine: EngineName,
) -> None:
    """Fill in how the cell turned out."""
    accelerator = gpu.accelerator
    try:
        too_long = context_refusal(context_length_of(question, spec), spec)
        refused = too_long or fitting.refused(question, engine, accelerator)
        if refused is not None:
            row.note = CellNote(
                "context-exceeds-model" if too_long else "unsupported",
                refused.parameter,
                sentence(refused),
            )
            return
        fitted = best_estimate(fitting, question, engine, accelerator, gpu.count)
    except IMPOSSIBLE as error:
        row.note = CellNote(code_of(error), refused_field(error), sentence(error))
        return
    row.required_bytes, row.budget_bytes = fitted.required, fitted.budget.expected
    row.headroom_bytes = row.budget_bytes - fitted.required.expected
    row.verdict, row.fit_probability = fitted.verdict, round(fitted.probability, 4)
    row.chosen = dict(fitted.changed)


def _runs(
    fitting: BatchEstimator, question: FitRequest, engine: EngineName, accelerator: Accelerator
) -> bool:
    try:
        return fitting.refused(question, engine, accelerator) is None
    except IMPOSSIBLE:
        return False
