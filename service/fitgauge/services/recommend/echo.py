"""A question with its defaults filled in."""

from collections.abc import Container, Iterable

from fitgauge.engine.model.model import Model
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common import parsing
from fitgauge.services.recommend.option_schemas import Fields
from fitgauge.services.recommend.schemas import Objective, RecommendRequest
from fitgauge.services.recommend.search import MOST_GPUS, Option
from fitgauge.services.recommend.task_fields import OF_SERVING, OF_TRAINING
from fitgauge.services.training_plan.choices import DEFAULT_GLOBAL_BATCH, DEFAULT_MOST


def serving_fields(
    request: RecommendRequest,
    model: Model,
    option: Option,
    objective: Objective,
    prompt_tokens: int,
) -> Fields:
    """Return the request with its defaults filled in."""
    filled: Fields = {
        "model": model.id,
        "context_length": option.fitted.workload.context_length,
        "concurrency": option.fitted.workload.concurrency,
        "prompt_tokens": prompt_tokens,
        "objective": objective,
        "max_gpu_count": request.max_gpu_count or MOST_GPUS,
    }
    return filled | _sent(request, OF_SERVING, filled)


def training_fields(
    request: RecommendRequest, model: Model, workload: TrainingWorkload, objective: Objective
) -> Fields:
    """Return the question with its defaults filled in, to be sent back."""
    filled: Fields = {
        "task": "training",
        "model": model.id,
        "optimizer": workload.optimizer,
        "sequence_length": workload.sequence_length,
        "global_batch_size": global_batch_size(request),
        "objective": objective,
        "max_gpu_count": request.max_gpu_count or DEFAULT_MOST,
    }
    if request.method is not None:
        filled["method"] = workload.method
    if request.method is not None and workload.base_precision != "half":
        # a base in 16 bit is that of a question without precision
        filled["precision"] = workload.precision
    return filled | _sent(request, OF_TRAINING, filled)


def global_batch_size(request: RecommendRequest) -> int:
    """Return the sequences of a step: by default as many as the most GPUs, of which counts that are
    powers of two are tried."""
    most = request.max_gpu_count or DEFAULT_MOST
    return request.global_batch_size or max(DEFAULT_GLOBAL_BATCH, 1 << (most - 1).bit_length())


_OF_BOTH = ("detail", "owned", "max_usd_per_hour", "max_watts", "gpus_per_node", "max_nodes")
"""Fields of either task that are echoed where they are sent."""
_LISTS = ("vendors", "kinds", "gpus", "clouds", "include")


def _sent(request: RecommendRequest, of_task: Iterable[str], filled: Container[str]) -> Fields:
    """Return the other fields that a request sets, and its lists as text."""
    fields = {name: getattr(request, name) for name in (*of_task, *_OF_BOTH) if name not in filled}
    fields |= {
        name: ", ".join(parsing.split_list(getattr(request, name))) or None for name in _LISTS
    }
    return {name: value for name, value in fields.items() if value is not None}
