"""What a model needs where no GPU is named: the least that the workload takes, by format."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import custom
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.any_gpu import ANY_GPU
from fitgauge.services.common.assumptions import model_notes
from fitgauge.services.common.default_engine import other_engine
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.common.need_schemas import MemoryNeed, SmallestGpus
from fitgauge.services.common.positions import scaling_notes
from fitgauge.services.common.readings import size_readings
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.smallest import gpus_in_words, sizes_in_words
from fitgauge.services.common.unsupported import sentence
from fitgauge.services.common.weight_cache import read_scheme
from fitgauge.services.fit.assumptions import assumptions
from fitgauge.services.fit.echo import understood_as
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.query import FitEstimate

_OF_A_GPU = (
    "gpu_count", "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel",
    "gpu_memory_utilization", "kv_cache_memory_gib", "other_memory_gib",
)  # fmt: skip
"""Fields that mean nothing without a GPU."""

_UNDERSTOOD = (
    "model", "engine", "engine_version", "quantization", "context_length", "concurrency",
    "kv_cache_dtype", "rope_scaling_factor",
)  # fmt: skip

_ROUNDS = 20
"""The most sizes of a GPU that are tried for one format."""

_CLOSE = 1.0005
"""What a need may be of the GPU that it was found on."""

_NARROWER = 0.97
"""A format is listed where its weights take less than this share of the wider one's."""


def needs_answer(
    request: FitRequest,
    model: Model,
    smallest: Callable[[], Sequence[SmallestGpus]],
    estimator: Estimator,
) -> FitAnswer:
    """Return the answer to a question without a GPU. smallest: find the GPUs that hold the
    workload.

    Raises InvalidRequestError or UnsupportedError where the question is impossible."""
    request = structs.replace(request, quantization=parsing.quantization(request.quantization))
    alone = structs.replace(request, **dict.fromkeys(_OF_A_GPU))
    first = estimator.check(estimator.ask(alone, model, ANY_GPU))
    main = _main(first, alone, model, estimator)
    needs = [] if main.refused else list(_needs(request, main, estimator))
    host = None if main.refused else estimator.host_memory(main)
    held = [
        structs.replace(one, name=needs[0].name) if one.name == parsing.AS_PUBLISHED else one
        for one in (smallest() if needs and host is None else ())
    ]
    understood = understood_as(main)
    sent = {name for name in request.__struct_fields__ if getattr(request, name) is not None}
    return FitAnswer(
        verdict="unsupported" if main.refused else None,
        summary=(
            f"{model.id} is unsupported: {sentence(main.refused)}"
            if main.refused
            else _summary(main, needs, held, host)
        ),
        fit_probability=None,
        model=responses.model_answer(model),
        gpu=None,
        per_gpu=None,
        terms=None,
        limits=None,
        host_memory=host,
        suggestions=[],
        warnings=[
            *model_notes(model),
            *scaling_notes(model.spec, main.workload),
            *_ignored(request),
        ],
        assumed=[
            *(
                [other_engine(first.refused, main.workload.engine)]
                if first.refused and not main.refused
                else ()
            ),
            *assumptions(main),
        ],
        understood_as={
            name: value
            for name, value in understood.items()
            if name in _UNDERSTOOD or (name in sent and name not in _OF_A_GPU)
        },
        launch=None,
        read_as=list(size_readings(request.model, model)),
        needs=needs,
        smallest=held,
    )


def _formats(
    request: FitRequest, model: Model, engine: EngineName
) -> tuple[tuple[EngineName, str | None], ...]:
    """Return the engines and formats to estimate: what is sent, else as published and the usual
    narrower ones, with a GGUF file's where no engine is sent."""
    if request.quantization is not None:
        return ((engine, request.quantization),)
    usual: list[tuple[EngineName, str | None]] = [(engine, parsing.AS_PUBLISHED)]
    if model.is_quantized:
        return tuple(usual)
    usual += [(engine, quantization) for _, quantization in ENGINES[engine].smaller_weights]
    if request.engine is None:
        for name in DEFAULT_ENGINES:
            own = ENGINES[name].own_format
            if own and ENGINES[name].reads_gguf:
                usual.append((name, own[1]))
    return tuple(dict.fromkeys(usual))


def _main(
    first: FitEstimate, request: FitRequest, model: Model, estimator: Estimator
) -> FitEstimate:
    """Return the question on one GPU of any size: `first`, else, where no engine is sent, on the
    next default one that runs the model."""
    if request.engine is None and first.refused:
        for engine in DEFAULT_ENGINES[1:]:
            question = structs.replace(request, engine=engine)
            checked = estimator.possible(estimator.ask(question, model, ANY_GPU))
            if checked is not None and checked.refused is None:
                return checked
    return first


def _needs(request: FitRequest, main: FitEstimate, estimator: Estimator) -> Iterator[MemoryNeed]:
    """Yield what the workload takes in each format, the widest first: on an engine only those that
    take less than the one before."""
    model = main.query.model
    previous: dict[EngineName, int] = {}
    for engine, quantization in _formats(request, model, main.workload.engine):
        changes = {"engine": engine, "quantization": quantization}
        checked = estimator.possible(estimator.change(main.query, changes))
        if checked is None or checked.refused:
            continue
        need = _need(checked, quantization, estimator)
        widest = previous.setdefault(engine, need.weights_bytes)
        if need.weights_bytes == widest or need.weights_bytes < _NARROWER * widest:
            previous[engine] = need.weights_bytes
            yield need
    if not previous:  # the engine reads none of these formats, only its own default
        yield _need(main, main.query.request.quantization, estimator)


def _need(checked: FitEstimate, quantization: str | None, estimator: Estimator) -> MemoryNeed:
    """Return the least that a question takes on the smallest GPU that holds it."""
    least = _smallest(checked, estimator).estimate.fullest
    sizes = {term.name: term.bytes for term in least.terms}
    sent = {"engine": checked.workload.engine, "quantization": quantization}
    return MemoryNeed(
        name=_name(checked, quantization),
        engine=checked.workload.engine,
        required_bytes=least.required,
        weights_bytes=sizes.get("weights", 0),
        kv_cache_bytes=sizes.get("kv_cache", 0) + sizes.get("state_cache", 0),
        request={name: value for name, value in sent.items() if value is not None},
    )


def _smallest(checked: FitEstimate, estimator: Estimator) -> FitEstimate:
    """Return the least that a question takes on the smallest GPU that holds it. `checked` is on one
    that holds anything, of which some engines keep a part back: from what is needed without that
    part on, the GPU grows to what was needed last."""
    least = _least(estimator.ends(checked, others=False)) or checked
    kept_back = sum(term.bytes for term in least.estimate.fullest.terms if term.name == "reserve")
    size = least.required - kept_back
    for _ in range(_ROUNDS if kept_back else 0):
        match = GpuMatch(custom(size, "any-size"), 1)
        least = (
            _least(estimator.ends_of(structs.replace(checked.query, match=match), others=False))
            or least
        )
        if least.required <= size * _CLOSE:
            break
        size = least.required
    return least


def _least(ends: Sequence[FitEstimate]) -> FitEstimate | None:
    """Return the end that takes least: limits of the scheduler at their lowest, no CUDA graphs."""
    return min(ends, key=lambda one: one.required, default=None)


def _name(checked: FitEstimate, quantization: str | None) -> str:
    """Return the format's name: of published weights what they are stored in."""
    if quantization is not None and quantization != parsing.AS_PUBLISHED:
        return quantization
    model = checked.query.model
    if model.is_quantized:
        return read_scheme(model, checked.prepared.scheme).name
    return model.spec.dtype.lower()


def _summary(
    main: FitEstimate,
    needs: Sequence[MemoryNeed],
    smallest: Sequence[SmallestGpus],
    host: HostMemory | None,
) -> str:
    """Return the needs in one sentence, and in another the GPUs or, where a part lies in host
    memory, for which GPUs are not searched, that memory."""
    workload = main.workload
    load = responses.load_in_words(workload.concurrency, workload.context_length)
    cache = needs[0].kv_cache_bytes
    held = f"; {cache / GIB:.1f} GiB of it is KV cache" if cache else ""
    sizes = sizes_in_words(needs, _in)
    more = gpus_in_words(smallest, _in)
    if host is not None:
        form = _name(main, main.query.request.quantization)
        more = f" {_in(form).capitalize()} i{responses.host_in_words(host)[1:]}"
    return f"{main.query.model.id} needs {sizes} for {load}{held}.{more}"


def _in(name: str) -> str:
    return f"in {name}"


def _ignored(request: FitRequest) -> Iterator[Note]:
    """Yield the fields that mean nothing without a GPU."""
    for name in _OF_A_GPU:
        if getattr(request, name) is not None:
            yield Note("field-ignored", name, f"`{name}` is ignored without `gpu`.")
