"""What was guessed of the names in a request, and what else they may mean."""

from collections.abc import Callable, Iterator

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.name_parts import is_tag
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantization.requested import is_gguf_format
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES, preferred
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import FitgaugeError, UnknownAcceleratorError
from fitgauge.services.common import parsing
from fitgauge.services.common.reading_schemas import Reading, Verdict
from fitgauge.services.common.schemas import Assumption, FitRequest

_MOST_COMPARED = 3
"""Other readings of one field whose verdict is compared."""


def model_readings(
    model: Model, verdict_of: Callable[[str], Verdict | None], verdict: Verdict | None
) -> Iterator[Reading]:
    """Yield how the name of a model was read, where that was a guess, and the model that it has
    the shapes of. verdict_of: the verdict of the same question about another model; None where it
    has none. verdict: the answer's."""
    if model.guessed_from is not None:
        estimated = {name: verdict_of(name) for name in model.others[:_MOST_COMPARED]}
        verdicts = {name: one for name, one in estimated.items() if one is not None}
        yield Reading(
            field="model",
            sent=model.guessed_from,
            taken=f"{model.id} in {model.named_format}" if model.named_format else model.id,
            others=list(model.others),
            changes_verdict=(
                any(one != verdict for one in verdicts.values()) if verdicts else None
            ),
            verdicts=verdicts,
        )
    if model.base is not None:
        yield Reading(field="model", sent=model.id, taken=model.base, rule=model.rule)


def with_named_format(request: FitRequest, model: Model) -> FitRequest:
    """Return the request in the format that the model's name asks for, unless another is sent."""
    if request.quantization is not None or model.named_format is None:
        return request
    return structs.replace(request, quantization=model.named_format)


def engine_of_name(request: FitRequest, model: Model) -> Assumption | None:
    """Return the engine that the model's name implies where none is sent: one that reads GGUF
    files for such a file, Ollama for a tag of its library; None for another name."""
    if request.engine is not None or request.engine_version is not None:
        return None
    if model.stored is not None and model.stored.file_name is not None:
        engine = next(engine for engine in DEFAULT_ENGINES if ENGINES[engine].reads_gguf)
        why = "the model is a GGUF file"
    elif is_tag(request.model):
        engine = next(name for name, row in ENGINES.items() if row.runs_tags)
        why = f"`{request.model}` is written as a tag of its library"
    else:
        return None
    return Assumption("engine", engine, f"`engine` not set: assuming {engine}, because {why}.")


def engine_of_format(request: FitRequest, gpu: GpuMatch) -> Assumption | None:
    """Return the engine that a GGUF format implies on GPUs of several kinds where none is sent;
    None elsewhere, where the first engine that runs such weights is taken."""
    if not gpu.unlike or request.engine is not None or request.engine_version is not None:
        return None
    if not is_gguf_format(request.quantization):
        return None
    engine = next(name for name, row in ENGINES.items() if row.line_up is not None)
    why = f"it divides layers in {request.quantization} over GPUs of several kinds"
    return Assumption("engine", engine, f"`engine` not set: assuming {engine}, because {why}.")


def engine_of_options(request: FitRequest) -> Assumption | None:
    """Return the first engine that has the options and the KV cache which are sent, where none is
    sent and the usual one lacks one of them; None elsewhere."""
    if request.engine is not None or request.engine_version is not None:
        return None
    every = sorted(frozenset().union(*(row.options for row in ENGINES.values())))
    sent = [name for name in every if getattr(request, name) is not None]

    def lacks(engine: EngineName) -> list[str]:
        names = [name for name in sent if name not in ENGINES[engine].options]
        if not parsing.takes_cache(request.kv_cache_dtype, engine):
            names.append(f"a KV cache in {request.kv_cache_dtype}")
        return names

    lacking = lacks(DEFAULT_ENGINES[0])
    engine = next((name for name in preferred() if not lacks(name)), None)
    if not lacking or engine is None:
        return None
    why = f"it has {' and '.join(lacking)}"
    return Assumption("engine", engine, f"`engine` not set: assuming {engine}, because {why}.")


def find_gpu(
    catalog: Catalog, snapshot: Snapshot, gpu: str, model: str, *, unlike: bool = False
) -> GpuMatch:
    """Return the GPU that is meant; unlike: also GPUs of several kinds. Raise as Catalog.find;
    where the text names a model, and `model` a GPU, with both swapped as the question to send."""
    try:
        return catalog.find_unlike(gpu) if unlike else catalog.find(gpu)
    except UnknownAcceleratorError as error:
        if "/" not in gpu and snapshot.read(gpu) is None:
            raise
        try:
            catalog.find(model)
        except FitgaugeError:
            raise error from None
        raise UnknownAcceleratorError(
            f"`gpu` names a model, {gpu!r}, and `model` a GPU, {model!r}.",
            hint="Swap them.",
            field="gpu",
            send={"model": gpu, "gpu": model},
        ) from None
