"""One bundled model trained on a GPU, with the defaults of check_training_fit."""

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.fit import LISTED
from fitgauge.engine.training.workload import Method
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.models_for_gpu.schemas import FittingModel, ModelsForGpuRequest
from fitgauge.services.training_fit import parsing as training_words
from fitgauge.services.training_fit.defaults import METHODS
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.training_fit.support import refusal

_LEAST_BYTES: dict[Method, float] = {"full": 2.0, "lora": 2.0, "dora": 2.0, "qlora": 0.5}
"""Bytes a parameter that no method does without: its weights in 16 bit, or in 4."""

_BASES: dict[Method, str] = {"qlora": "nf4"}
"""Format of a frozen base where none is sent."""


class TrainedModels:
    """Estimates the training of bundled models."""

    def __init__(self, engines: Engines) -> None:
        self._service = TrainingFitService(load_training(), engines)

    def row(
        self,
        request: ModelsForGpuRequest,
        model: Model,
        match: GpuMatch,
        count: int,
        checkpoint: Checkpoint,
    ) -> FittingModel | None:
        """Return the row of the first method that fits, else of the likeliest that is listed; None
        where none is, and for a model whose weights are quantized already."""
        methods = [training_words.method(request.method)] if request.method else list(METHODS)
        if model.is_quantized or model.spec.task != "generate":
            return None
        available = count * match.accelerator.usable.high
        service, tight = self._service.with_checkpoint(checkpoint), list[TrainingEstimate]()
        for method in methods:
            if _LEAST_BYTES[method] * responses.parameters(model) > available:
                continue
            sent = TrainingRequest(
                model=model.id,
                gpu=match.accelerator.name,
                gpu_count=count,
                method=method,
                sequence_length=request.sequence_length,
            )
            try:
                estimate = service.check(sent, model, match.accelerator, count)
            except IMPOSSIBLE:
                continue
            if refusal(estimate.workload, match.accelerator) is not None:
                continue
            if estimate.verdict == "fits":
                return _row(model, match, estimate)
            if estimate.probability >= LISTED:
                tight.append(estimate)
        likeliest = max(tight, key=lambda one: one.probability, default=None)
        return None if likeliest is None else _row(model, match, likeliest)


def _row(model: Model, match: GpuMatch, estimate: TrainingEstimate) -> FittingModel:
    workload, need = estimate.workload, estimate.fullest.need
    usable = match.accelerator.usable.expected
    return FittingModel(
        model=model.id,
        parameters=responses.parameters(model),
        task=model.spec.task,
        engine=None,
        quantization=workload.quantization or _BASES.get(workload.method, parsing.AS_PUBLISHED),
        method=workload.method,
        framework=workload.framework,
        context_length=workload.sequence_length,
        verdict=estimate.verdict,
        fit_probability=round(estimate.probability, 4),
        required_bytes=need,
        budget_bytes=usable,
        headroom_bytes=usable - need.expected,
    )
