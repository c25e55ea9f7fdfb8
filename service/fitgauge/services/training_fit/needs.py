"""What a training needs where no GPU is named: memory of one GPU by method."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET, structs

from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import total
from fitgauge.engine.training.workload import Method
from fitgauge.services.common import responses
from fitgauge.services.common.any_gpu import ANY_GPU
from fitgauge.services.common.assumptions import model_notes
from fitgauge.services.common.need_schemas import MemoryNeed, SmallestGpus
from fitgauge.services.common.readings import size_readings
from fitgauge.services.common.schemas import Assumption
from fitgauge.services.common.smallest import gpus_in_words, sizes_in_words
from fitgauge.services.training_fit.assumptions import METHOD_TITLES
from fitgauge.services.training_fit.defaults import METHODS
from fitgauge.services.training_fit.echo import echo
from fitgauge.services.training_fit.merge import adapter_merge, merge_in_words
from fitgauge.services.training_fit.responses import checkpoint_size, training_in_words
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.run_fields import OF_THE_RUN
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

DEGREES = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "data_parallel",
    "data_parallel_replicate",
    "expert_parallel",
    "expert_tensor_parallel",
)
"""Fields that divide a training over GPUs."""

_OF_GPUS = (
    "gpu_count",
    *DEGREES,
    "sequence_parallel",
    "rollout_tensor_parallel",
    "other_memory_gib",
    *(name for name in OF_THE_RUN if name != "merge"),
)
"""Fields that mean nothing without a GPU."""

_WEIGHTS = ("weights", "master_weights")


def on_one_gpu(request: TrainingRequest) -> TrainingRequest:
    """Return the request without fields that mean nothing without a GPU."""
    ignored = [name for name in _OF_GPUS if name in request.__struct_fields__]
    return structs.replace(request, **dict.fromkeys(ignored))


def needs_answer(
    request: TrainingRequest,
    model: Model,
    judged: JudgedMethods,
    smallest: Sequence[SmallestGpus],
    assumed: list[Assumption],
    models: RlModels,
) -> TrainingAnswer:
    """Return the answer to a question without a GPU. judged: the methods on one GPU of any size.
    smallest: the GPUs that hold the training. models: the named reward model and critic."""
    main = judged.main
    needs = [
        _need(name, one)
        for name, one in sorted(
            {main.workload.method: main, **judged.others}.items(), key=lambda pair: _rank(pair[0])
        )
    ]
    named_first = sorted(needs, key=lambda need: need.name != request.method)
    understood = echo(main, ANY_GPU.accelerator, model)
    merge = adapter_merge(request, main, model.spec, ANY_GPU.accelerator)
    first = "" if merge is UNSET else f"{merge_in_words(merge)} "
    return TrainingAnswer(
        verdict=None,
        summary=(
            f"{first}{training_in_words(model, main)} needs {sizes_in_words(named_first, _with)}."
            f"{gpus_in_words(smallest, _with)}"
        ),
        fit_probability=None,
        model=responses.model_answer(model),
        gpu=None,
        per_gpu=None,
        terms=None,
        phases=[],
        limits=None,
        host_memory=None,
        others={},
        suggestions=[],
        warnings=[*model_notes(model), *_ignored(request)],
        assumed=assumed,
        understood_as={
            name: value
            for name, value in understood.items()
            if name != "gpu" and name not in _OF_GPUS
        },
        launch=None,
        checkpoint_bytes=checkpoint_size(model, main, models),
        read_as=list(size_readings(request.model, model)),
        needs=needs,
        smallest=list(smallest),
        merge=merge,
    )


def _need(method: Method, trained: TrainingEstimate) -> MemoryNeed:
    stage = trained.fullest
    weights = total(term for term in stage.terms if term.name in _WEIGHTS)
    return MemoryNeed(
        name=method,
        engine=None,
        required_bytes=stage.need,
        weights_bytes=weights.expected,
        kv_cache_bytes=sum(term.bytes for term in stage.terms if term.name == "kv_cache"),
        request={"method": method},
    )


def _rank(method: Method) -> int:
    """Return the place of a method: lora, qlora, full; others, which are only sent, first."""
    return METHODS.index(method) if method in METHODS else -1


def _with(method: str) -> str:
    return f"with {METHOD_TITLES[method]}"


def _ignored(request: TrainingRequest) -> Iterator[Note]:
    """Yield the fields that mean nothing without a GPU."""
    for name in _OF_GPUS:
        if getattr(request, name, None) is not None:
            yield Note("field-ignored", name, f"`{name}` is ignored without `gpu`.")
