"""The cells of a table that differ by their context and their number of requests alone: one engine
runs one model in one format on so many GPUs of a kind."""

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator, slices_refusal
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.support import context_refusal
from fitgauge.engine.serving.workload import EngineName, Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing
from fitgauge.services.common.default_engine import first_that_runs
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, code_of, refused_field, sentence
from fitgauge.services.compare.schemas import CellNote, CompareRequest, CompareRow
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import BestLaunch
from fitgauge.services.fit.checkpoints import default_format
from fitgauge.services.fit.demands import LaunchDemand
from fitgauge.services.fit.workload import context_length_of, with_context


class GpuCells:
    """Rows of one model on so many GPUs of a kind, by one engine in one format."""

    def __init__(
        self,
        of: int,
        request: CompareRequest,
        model: Model,
        match: GpuMatch,
        engine: EngineName | None,
        quantization: str | None,
        fitting: BatchEstimator,
        beyond: int | None = None,
    ) -> None:
        """of: rows of the whole table; engine: None for the first usual one that runs it;
        quantization: None for as published; fitting: of the model; beyond: the context where it is
        longer than the config says."""
        accelerator, named = match.accelerator, request.quantizations is not None
        if not named and model.named_format is not None:
            quantization, named = model.named_format, True
        question = FitRequest(
            model=model.id,
            gpu=accelerator.name,
            gpu_count=match.count,
            engine=engine,
            quantization=quantization,
            kv_cache_dtype=request.kv_cache_dtype,
            settings=request.settings,
        )
        runs_on = self._runs_on = engine or first_that_runs(
            lambda usual: _runs(fitting, question, usual, accelerator, beyond or 0)
        )
        quantization = (
            parsing.engine_format(quantization, runs_on)
            if named
            else default_format(model, runs_on)
        )
        self._question = structs.replace(question, quantization=quantization)
        self._model = model
        self._accelerator = accelerator
        self._fitting = fitting
        self._row = CompareRow(
            number=0,
            of=of,
            model=model.id,
            gpu=accelerator.name,
            gpu_count=match.count,
            engine=runs_on,
            quantization=quantization or parsing.AS_PUBLISHED,
            context_length=None,
            concurrency=0,
            verdict="unsupported",
        )
        self._note: CellNote | None = None
        self._launch: tuple[Workload, LaunchDemand] | None = None
        try:
            refused = slices_refusal(accelerator, match.count) or fitting.refused(
                self._question, runs_on, accelerator
            )
            if refused is not None:
                self._note = CellNote("unsupported", refused.parameter, sentence(refused))
                return
            workload = fitting.workload(self._question, runs_on, accelerator, match.count)
            self._launch = workload, fitting.launch(quantization, workload, accelerator)
        except IMPOSSIBLE as error:
            self._note = _note(error)

    def with_context(self, context_length: int | None) -> "LaunchCells":
        """Return the rows with a context; None for the usual one."""
        spec = self._model.spec
        question = structs.replace(self._question, context_length=context_length)
        context = context_length_of(question, spec)
        row = structs.replace(self._row, context_length=context, note=self._note)
        too_long = context_refusal(context, spec, self._runs_on)
        if too_long is not None:
            row.note = CellNote("context-exceeds-model", too_long.parameter, sentence(too_long))
            return LaunchCells(row, None)
        if self._launch is None:
            return LaunchCells(row, None)
        workload, launch = self._launch
        workload = with_context(workload, question, spec, self._accelerator, context)
        try:
            launch = launch.of(workload)
        except IMPOSSIBLE as error:
            row.note = _note(error)
            return LaunchCells(row, None)
        return LaunchCells(row, BestLaunch(self._fitting, question, self._accelerator, launch))


class LaunchCells:
    """Rows of one launch, for any number of requests."""

    def __init__(self, row: CompareRow, launch: BestLaunch | None) -> None:
        """row: what all have in common; launch: None where it is impossible, as its note says."""
        self._row = row
        self._launch = launch

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
        budget_bytes = fitted.budget.expected
        return structs.replace(
            row,
            verdict=fitted.verdict,
            fit_probability=round(fitted.probability, 4),
            required_bytes=fitted.required,
            budget_bytes=budget_bytes,
            headroom_bytes=budget_bytes - fitted.required.expected,
            chosen=fitted.chosen,
        )


def _note(error: InvalidRequestError | UnsupportedError) -> CellNote:
    return CellNote(code_of(error), refused_field(error), sentence(error))


def _runs(
    fitting: BatchEstimator,
    question: FitRequest,
    engine: EngineName,
    accelerator: Accelerator,
    beyond: int,
) -> bool:
    try:
        return (
            context_refusal(beyond, fitting.spec, engine) is None
            and fitting.refused(question, engine, accelerator) is None
        )
    except IMPOSSIBLE:
        return False
