"""The cells of a table that differ by their number of requests alone: one launch of one model."""

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import Model
from fitgauge.engine.serving.support import context_refusal
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing as words
from fitgauge.services.common.default_engine import first_that_runs
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, code_of, refused_field, sentence
from fitgauge.services.compare.schemas import CellNote, CompareRequest, CompareRow
from fitgauge.services.compare.unknown_names import Setting
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import BestLaunch
from fitgauge.services.fit.checkpoints import default_format
from fitgauge.services.fit.workload import context_length_of


class LaunchCells:
    """Rows of one model on one kind of GPU under one setting, for any number of requests."""

    def __init__(
        self,
        of: int,
        request: CompareRequest,
        model: Model,
        match: GpuMatch,
        setting: Setting,
        fitting: BatchEstimator,
    ) -> None:
        """of: rows of the whole table; fitting: of the model."""
        accelerator, named = match.accelerator, request.quantizations is not None
        quantization = setting.quantization
        if not named and model.named_format is not None:
            quantization, named = model.named_format, True
        question = FitRequest(
            model=model.id,
            gpu=accelerator.name,
            gpu_count=match.count,
            engine=setting.engine,
            quantization=quantization,
            context_length=setting.context_length,
            kv_cache_dtype=request.kv_cache_dtype,
            settings=request.settings,
        )
        engine = setting.engine or first_that_runs(
            lambda usual: _runs(fitting, question, usual, accelerator)
        )
        quantization = (
            words.engine_format(quantization, engine) if named else default_format(model, engine)
        )
        question = structs.replace(question, quantization=quantization)
        self._row = CompareRow(
            number=0,
            of=of,
            model=model.id,
            gpu=accelerator.name,
            gpu_count=match.count,
            engine=engine,
            quantization=quantization or words.AS_PUBLISHED,
            context_length=context_length_of(question, model.spec),
            concurrency=0,
            verdict="unsupported",
        )
        self._launch = self._best_launch(question, match, model, fitting, engine)

    def row(self, number: int, concurrency: int) -> CompareRow:
        """Return the cell of so many requests; what is impossible is unsupported, with the
        reason."""
        row = structs.replace(self._row, number=number, concurrency=concurrency)
        if self._launch is None:
            return row
        try:
            fitted = self._launch.under(concurrency)
        except IMPOSSIBLE as error:
            row.note = _note(error)
            return row
        row.required_bytes, row.budget_bytes = fitted.required, fitted.budget.expected
        row.headroom_bytes = row.budget_bytes - fitted.required.expected
        row.verdict, row.fit_probability = fitted.verdict, round(fitted.probability, 4)
        row.chosen = dict(fitted.changed)
        return row

    def _best_launch(
        self,
        question: FitRequest,
        gpu: GpuMatch,
        model: Model,
        fitting: BatchEstimator,
        engine: EngineName,
    ) -> BestLaunch | None:
        """Return the launch; None where it is impossible, as all rows then note."""
        try:
            too_long = context_refusal(context_length_of(question, model.spec), model.spec)
            if too_long is not None:
                self._row.note = CellNote(
                    "context-exceeds-model", too_long.parameter, sentence(too_long)
                )
                return None
            refused = fitting.refused(question, engine, gpu.accelerator)
            if refused is not None:
                self._row.note = CellNote("unsupported", refused.parameter, sentence(refused))
                return None
            return BestLaunch(fitting, question, engine, gpu.accelerator, gpu.count)
        except IMPOSSIBLE as error:
            self._row.note = _note(error)
            return None


def _note(error: InvalidRequestError | UnsupportedError) -> CellNote:
    return CellNote(code_of(error), refused_field(error), sentence(error))


def _runs(
    fitting: BatchEstimator, question: FitRequest, engine: EngineName, accelerator: Accelerator
) -> bool:
    try:
        return fitting.refused(question, engine, accelerator) is None
    except IMPOSSIBLE:
        return False
