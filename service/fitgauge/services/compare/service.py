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
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.checkpoints import Checkpoints, default_format
from fitgauge.services.fit.workload import context_length_of

Setting = tuple[EngineName | None, str | None, int | None, int]
"""Engine (None: the first usual one that runs the cell), format, context length, concurrency."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table that was understood and is yet to be filled."""

    total: int
    rows: Iterator[CompareRow]
    """the rest of the cells, each computed when it is taken"""

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
        self, request: CompareRequest, models: Sequence[Model], gpus: Sequence[GpuMatch]
    ) -> Comparison:
        """Return the table. Raises InvalidRequestError where it has more than 10,000 cells or
        names an engine or a format that is unknown."""
        settings = _settings(request)
        total = cells(len(models), len(gpus), len(settings))
        for model, (_, quantization, _, _) in product(models[:1], settings):
            scheme_of(model, quantization)
        return Comparison(total, self._rows(request, models, gpus, settings, total))

    def _rows(
        self,
        request: CompareRequest,
        models: Sequence[Model],
        gpus: Sequence[GpuMatch],
        settings: Sequence[Setting],
        total: int,
    ) -> Iterator[CompareRow]:
        number = 0
        for model in models:
            fitting = BatchEstimator(
                model, self._engines, self._preparer, checkpoints=self._checkpoints
            )
            for found, setting in product(gpus, settings):
                number += 1
                yield _row(
                    number,
                    total,
                    request,
                    model,
                    found,
                    setting,
                    fitting,
                )


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
        said = (
            f"The table is too large: {models} models x {gpus} GPUs x {settings} settings are"
            f" {total:,} cells."
        )
        raise InvalidRequestError(
            said,
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
    found: GpuMatch,
    setting: Setting,
    fitting: BatchEstimator,
) -> CompareRow:
    """Return one cell; what is impossible is unsupported, with the reason."""
    asked, quantization, context, concurrency = setting
    spec, accelerator = model.spec, found.accelerator
    named = request.quantizations is not None
    if not named and model.named_format is not None:
        quantization, named = model.named_format, True
    question = FitRequest(
        model=model.id,
        gpu=accelerator.name,
        gpu_count=found.count,
        engine=asked,
        quantization=quantization,
        context_length=context,
        concurrency=concurrency,
        kv_cache_dtype=request.kv_cache_dtype,
        settings=request.settings,
    )
    engine = asked or first_that_runs(lambda usual: _runs(fitting, question, usual, accelerator))
    quantization = (
        words.engine_format(quantization, engine) if named else default_format(model, engine)
    )
    question = structs.replace(question, quantization=quantization)
    row = CompareRow(
        number=number,
        of=total,
        model=model.id,
        gpu=accelerator.name,
        gpu_count=found.count,
        engine=engine,
        quantization=quantization or words.AS_PUBLISHED,
        context_length=context_length_of(question, spec),
        concurrency=concurrency,
        verdict="unsupported",
    )
    _judge(row, question, accelerator, spec, fitting, engine)
    return row


def _judge(
    row: CompareRow,
    question: FitRequest,
    accelerator: Accelerator,
    spec: ModelSpec,
    fitting: BatchEstimator,
    engine: EngineName,
) -> None:
    """Fill in how the cell turned out."""
    try:
        too_long = context_refusal(row.context_length, spec)
        refused = too_long or fitting.refused(question, engine, accelerator)
        if refused is not None:
            row.note = CellNote(
                "context-exceeds-model" if too_long else "unsupported",
                refused.parameter,
                sentence(refused),
            )
            return
        fitted = best_estimate(fitting, question, engine, accelerator, row.gpu_count)
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
