"""One bundled model on a GPU: its row in a format, and in the widest format that fits of those that
people run there."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.model import Model
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantization.requested import requested_form
from fitgauge.engine.serving.fit import LISTED
from fitgauge.engine.serving.platforms import maker
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.support import context_refusal
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_settings import best_estimate
from fitgauge.services.fit.floors import Floors
from fitgauge.services.fit.launch import source_of
from fitgauge.services.fit.workload import degrees
from fitgauge.services.models_for_gpu.schemas import FittingModel, ModelsForGpuRequest

_SCALES = 0.9
"""Bits of weights in a format are at least this share of its nominal ones."""

Served = dict[tuple[str, EngineName], tuple[str | None, ...]]
"""The formats in which people run a model on a GPU, by the model's id and the engine."""


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """What a list is asked of."""

    request: ModelsForGpuRequest
    """The request."""
    match: GpuMatch
    """The GPU."""
    count: int
    """How many of it."""
    engines: Sequence[EngineName]
    """The engines that may run a model on it, the preferred one first."""
    served: Served
    """As far as it is worked out: the same for every context and number of requests."""
    alike: dict[Hashable, BatchEstimate | None]
    """Estimates of this list for models that are made alike, as fine-tunes of one are."""


def engines_on(request: ModelsForGpuRequest, accelerator: Accelerator) -> list[EngineName]:
    """Return the engine that is named, else the usual ones; of a GPU whose maker is not known not
    those for the GPUs of one maker. Raises InvalidRequestError for an engine unknown."""
    if request.engine:
        return [parsing.engine(request.engine)]
    vendor = maker(accelerator)
    platforms = {name: ENGINES[name].platforms for name in DEFAULT_ENGINES}
    return [name for name, own in platforms.items() if vendor in own or len(own) > 1]


def question_of(gpu: ListedGpu, model: Model, quantization: str | None) -> FitRequest:
    """Return the question of a model in a format."""
    request = gpu.request
    return FitRequest(
        model=model.id,
        gpu=gpu.match.accelerator.name,
        gpu_count=gpu.count,
        engine=request.engine,
        quantization=quantization,
        context_length=request.context_length,
        concurrency=request.concurrency,
        kv_cache_dtype=request.kv_cache_dtype,
        settings=request.settings,
    )


def widest_row(gpu: ListedGpu, fitting: BatchEstimator, model: Model) -> FittingModel | None:
    """Return the row of the first format that fits, of the first engine; else of the likeliest
    that is listed; None where none is."""
    tight: list[FittingModel] = []
    for engine in _reading(gpu.engines, gpu.request, model.spec):
        for quantization in _served(gpu, fitting, model, engine):
            row = _row(gpu, fitting, model, engine, question_of(gpu, model, quantization))
            if row is not None and row.verdict == "fits":
                return row
            if row is not None:
                tight.append(row)
    return max(tight, key=lambda row: row.fit_probability, default=None)


def rows_in(
    gpu: ListedGpu, fitting: BatchEstimator, model: Model, formats: Iterable[str | None]
) -> Iterator[FittingModel]:
    """Yield the rows of the formats asked for, each of the first engine that runs it."""
    engines = _reading(
        (parsing.engine(gpu.request.engine),) if gpu.request.engine else DEFAULT_ENGINES,
        gpu.request,
        model.spec,
    )
    for quantization in formats:
        if quantization is not None and model.is_quantized:
            continue
        if is_too_large(model, quantization, gpu.match, gpu.count):
            continue
        question = question_of(gpu, model, quantization)
        accelerator = gpu.match.accelerator
        running = (name for name in engines if not fitting.refused(question, name, accelerator))
        engine = next(running, None)
        row = engine and _row(gpu, fitting, model, engine, question)
        if row:
            yield row


def _reading(
    engines: Iterable[EngineName], request: ModelsForGpuRequest, spec: ModelSpec
) -> list[EngineName]:
    """Return the engines with which the model reads the context."""
    length = request.context_length or 0
    return [name for name in engines if context_refusal(length, spec, name) is None]


def _served(
    gpu: ListedGpu, fitting: BatchEstimator, model: Model, engine: EngineName
) -> tuple[str | None, ...]:
    """Return the formats of a model that people run in an engine on such a GPU."""
    formats = gpu.served.get((model.id, engine))
    if formats is None:
        formats = tuple(
            quantization
            for quantization in _formats(fitting, model, engine, gpu.match, gpu.count)
            if _runs(gpu, fitting, model, engine, quantization)
        )
        gpu.served[model.id, engine] = formats
    return formats


def _runs(
    gpu: ListedGpu,
    fitting: BatchEstimator,
    model: Model,
    engine: EngineName,
    quantization: str | None,
) -> bool:
    try:
        question = question_of(gpu, model, quantization)
        return fitting.runs(question, engine, gpu.match.accelerator)
    except IMPOSSIBLE:
        return False


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
    least = _SCALES * bits / 8 * responses.parameters(model)
    return least > count * match.accelerator.usable.high


def _row(
    gpu: ListedGpu, fitting: BatchEstimator, model: Model, engine: EngineName, question: FitRequest
) -> FittingModel | None:
    """Return the row of a question; None where it is impossible or not listed."""
    choice = fitting.formats.choice(question.quantization, engine)
    shapes = model.id if choice.repo is not None else id(model.spec)
    key = shapes, engine, question.quantization
    if key not in gpu.alike:
        gpu.alike[key] = _estimate(gpu, fitting, engine, question)
    estimate = gpu.alike[key]
    if estimate is None:
        return None
    return FittingModel(
        model=model.id,
        parameters=responses.parameters(model),
        task=model.spec.task,
        engine=engine,
        quantization=question.quantization or parsing.AS_PUBLISHED,
        context_length=estimate.workload.context_length,
        verdict=estimate.verdict,
        fit_probability=round(estimate.probability, 4),
        required_bytes=estimate.required,
        budget_bytes=estimate.budget.expected,
        headroom_bytes=estimate.budget.expected - estimate.required.expected,
        chosen=estimate.chosen,
        checkpoint=source_of(choice.model, question.quantization, engine).repository,
    )


def _estimate(
    gpu: ListedGpu, fitting: BatchEstimator, engine: EngineName, question: FitRequest
) -> BatchEstimate | None:
    """Return the estimate of a question; None where it is impossible or not listed."""
    accelerator, count, quantization = gpu.match.accelerator, gpu.count, question.quantization
    try:
        tensor, _, _ = degrees(question, fitting.spec, count, engine)
        floor = Floors(fitting, question).of_listed(quantization, engine, count, tensor)
        if accelerator.usable.expected < floor:
            return None
        estimate = best_estimate(fitting, question, engine, accelerator, count)
    except IMPOSSIBLE:
        return None
    return estimate if estimate.probability >= LISTED else None
