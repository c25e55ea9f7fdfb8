"""One bundled model on a GPU: its row in a format, and in the widest format that fits of those that
people run there."""

from collections.abc import Iterator

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import Model
from fitgauge.engine.quantization.requested import requested_form
from fitgauge.engine.serving.fit import LISTED
from fitgauge.engine.serving.platforms import maker
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.launch import source_of
from fitgauge.services.models_for_gpu.schemas import FittingModel, ModelsForGpuRequest

_SCALES = 0.9
"""Bits of weights in a format are at least this share of its nominal ones."""


def question_of(
    request: ModelsForGpuRequest,
    model: Model,
    match: GpuMatch,
    count: int,
    quantization: str | None,
) -> FitRequest:
    """Return the question of a model in a format."""
    return FitRequest(
        model=model.id,
        gpu=match.accelerator.name,
        gpu_count=count,
        engine=request.engine,
        quantization=quantization,
        context_length=request.context_length,
        concurrency=request.concurrency,
        kv_cache_dtype=request.kv_cache_dtype,
        settings=request.settings,
    )


def widest_row(
    fitting: BatchEstimator,
    request: ModelsForGpuRequest,
    model: Model,
    match: GpuMatch,
    count: int,
) -> FittingModel | None:
    """Return the row of the first format that fits, of the first engine; else of the likeliest
    that is listed; None where none is."""
    tight: list[FittingModel] = []
    for engine in _engines(request, match.accelerator):
        for quantization in _formats(fitting, model, engine, match, count):
            question = question_of(request, model, match, count, quantization)
            row = fitting_row(fitting, question, engine, model, match, count)
            if row is not None and row.verdict == "fits":
                return row
            if row is not None:
                tight.append(row)
    return max(tight, key=lambda row: row.fit_probability, default=None)


def _engines(request: ModelsForGpuRequest, accelerator: Accelerator) -> list[EngineName]:
    """Return the engine that is named, else the usual ones; of a GPU whose maker is not known not
    those for the GPUs of one maker."""
    if request.engine:
        return [words.engine(request.engine)]
    vendor = maker(accelerator)
    platforms = {name: ENGINES[name].platforms for name in DEFAULT_ENGINES}
    return [name for name, own in platforms.items() if vendor in own or len(own) > 1]


def _formats(
    fitting: BatchEstimator, model: Model, engine: EngineName, match: GpuMatch, count: int
) -> Iterator[str | None]:
    """Yield the formats of a model that people run in an engine, None being as published.

    Left out are those that surely exceed the GPUs, those in which a repository of its own is
    bundled, and those that no known checkpoint has, unless it is an engine for whose format
    checkpoints are made by whoever runs it."""
    row = ENGINES[engine]
    published_alone = model.is_quantized or model.spec.task == "encode"
    as_published = published_alone or row.default_quantization is None
    if as_published and not is_too_large(model, None, match, count):
        yield None
    if published_alone:
        return
    for quantization in row.served_formats:
        if is_too_large(model, quantization, match, count):
            continue
        if fitting.formats.choice(quantization, engine).repo is not None:
            continue
        if row.checkpoint_kinds or fitting.formats.has_checkpoint(quantization, engine):
            yield quantization


def is_too_large(model: Model, quantization: str | None, match: GpuMatch, count: int) -> bool:
    """Return whether the weights alone exceed the GPUs, without sharding them. False of models
    that are published in a format of their own, whose tensors differ in bits."""
    if quantization is None and model.is_quantized:
        return False
    form = requested_form(quantization, model.spec) if quantization else None
    bits = form.bits if form is not None else BITS["BF16"]
    least = _SCALES * bits / 8 * answers.parameters(model)
    return least > count * match.accelerator.usable.high


def fitting_row(
    fitting: BatchEstimator,
    question: FitRequest,
    engine: EngineName,
    model: Model,
    match: GpuMatch,
    count: int,
) -> FittingModel | None:
    """Return the row of a question; None where it is impossible or not listed."""
    try:
        if not fitting.runs(question, engine, match.accelerator):
            return None
        estimate = best_estimate(fitting, question, engine, match.accelerator, count)
    except IMPOSSIBLE:
        return None
    if estimate.probability < LISTED:
        return None
    loaded = fitting.formats.choice(question.quantization, engine).model
    return FittingModel(
        model=model.id,
        parameters=answers.parameters(model),
        task=model.spec.task,
        engine=engine,
        quantization=question.quantization or words.AS_PUBLISHED,
        context_length=estimate.workload.context_length,
        verdict=estimate.verdict,
        fit_probability=round(estimate.probability, 4),
        required_bytes=estimate.required,
        budget_bytes=estimate.budget.expected,
        headroom_bytes=estimate.budget.expected - estimate.required.expected,
        chosen=dict(estimate.changed),
        checkpoint=source_of(loaded, question.quantization, engine).repository,
    )
