"""list_models_that_fit: which of the bundled models run on this card?"""

from collections.abc import Iterator

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import GpuMatch
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.spec import Model
from fitgauge.engine.serving.fit import LISTED
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.gpu_count import sent_count
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.models_for_gpu.schemas import (
    FittingModel,
    ModelsForGpuAnswer,
    ModelsForGpuRequest,
)

_PAGE = 50
_KEPT = 4096
"""Models laid out in a format: all that fit a 24 GiB card in 14 formats, some 30 MiB."""

_MOST_REMEMBERED = 2
"""What one question derives from each of them: another number of GPUs takes its place."""


class ModelsForGpu:
    """Holds every bundled model, once somebody asks, against one card. Tenths of a second, so
    not for an event loop."""

    def __init__(self, engines: Engines, snapshot: Snapshot) -> None:
        self._engines = engines
        self._snapshot = snapshot
        self._preparer = WeightCache(_KEPT, _MOST_REMEMBERED)
        self._models: dict[str, Model | None] = {}

    def answer(
        self, request: ModelsForGpuRequest, found: GpuMatch, checkpoint: Checkpoint = no_checkpoint
    ) -> ModelsForGpuAnswer:
        """Return a page of those that fit, the largest first. Raises InvalidRequestError for a
        format, an engine or a cache format unknown."""
        count = sent_count(request.gpu_count, found.count) or 1
        formats = words.quantizations(request.quantizations)
        rows = [
            row
            for model in self._meant(request, checkpoint)
            for row in self._rows(
                request,
                BatchEstimator(model, self._engines, self._preparer, checkpoint),
                model,
                found,
                count,
                formats,
            )
        ]
        rows.sort(key=lambda row: (-row.parameters, row.model.lower()))
        start = request.offset or 0
        return ModelsForGpuAnswer(
            gpu=answers.gpu_answer(found.accelerator, count),
            items=rows[start : start + (request.limit or _PAGE)],
            total=len(rows),
            warnings=found.warnings,
        )

    def _bundled(self, checkpoint: Checkpoint) -> Iterator[Model]:
        """Yield every bundled model, read when it is first asked for."""
        for model_id in self._snapshot.own_ids():
            checkpoint()
            if model_id not in self._models:
                self._models[model_id] = self._snapshot.model(model_id)
            model = self._models[model_id]
            if model is not None:
                yield model

    def _meant(self, request: ModelsForGpuRequest, checkpoint: Checkpoint) -> Iterator[Model]:
        """Yield the models that are asked about: by task, by words of their name, and able to
        hold the context."""
        wanted = (request.search or "").lower().split()
        for model in self._bundled(checkpoint):
            spec = model.spec
            named = f"{model.id} {spec.model_type} {spec.architecture}".lower()
            able = (
                not request.context_length
                or not spec.max_context_length
                or request.context_length <= spec.max_context_length
            )
            if able and request.task in (None, spec.task) and all(word in named for word in wanted):
                yield model

    def _rows(
        self,
        request: ModelsForGpuRequest,
        fitting: BatchEstimator,
        model: Model,
        found: GpuMatch,
        count: int,
        formats: list[str | None],
    ) -> Iterator[FittingModel]:
        engines = (words.engine(request.engine),) if request.engine else DEFAULT_ENGINES
        for quantization in formats:
            if quantization is not None and model.is_quantized:
                continue
            question = FitRequest(
                model=model.id,
                gpu=found.accelerator.name,
                gpu_count=count,
                engine=request.engine,
                quantization=quantization,
                context_length=request.context_length,
                concurrency=request.concurrency,
                kv_cache_dtype=request.kv_cache_dtype,
            )
            engine = next(
                (
                    name
                    for name in engines
                    if fitting.refused(question, name, found.accelerator) is None
                ),
                None,
            )
            if engine is not None:
                fitted = fitting.possible(question, engine, found.accelerator, count)
                if fitted is not None and fitted.probability >= LISTED:
                    yield _row(model, quantization, fitted)


def _row(model: Model, quantization: str | None, fitted: BatchEstimate) -> FittingModel:
    return FittingModel(
        model=model.id,
        parameters=answers.parameters(model),
        task=model.spec.task,
        engine=fitted.workload.engine,
        quantization=quantization or words.AS_PUBLISHED,
        context_length=fitted.workload.context_length,
        verdict=fitted.verdict,
        fit_probability=round(fitted.probability, 4),
        required_bytes=fitted.required,
        budget_bytes=fitted.budget.expected,
        headroom_bytes=fitted.budget.expected - fitted.required.expected,
    )
