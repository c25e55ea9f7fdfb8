"""The smallest GPUs that train a model: what an answer without a GPU names, and what one suggests
where no change helps on the GPUs that were named."""

from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.accelerator import Accelerator, most_gpus
from fitgauge.engine.model.model import Model
from fitgauge.engine.training.workload import Method
from fitgauge.services.common.host_memory import exceeds_host
from fitgauge.services.common.need_schemas import Fields, SmallestGpus
from fitgauge.services.common.responses import COUNTS
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.common.smallest import roles
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.recommend.costs import Costs
from fitgauge.services.recommend.elsewhere import change_in_words, worth_naming
from fitgauge.services.training_fit.launchers.command import launch, launch_command
from fitgauge.services.training_fit.lengths import with_lengths
from fitgauge.services.training_fit.needs import DEGREES, on_one_gpu
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.training_fit.support import refusal

_SHARDED = ("weights", "master_weights", "gradients", "optimizer_states")
"""Terms of which many GPUs together hold at least one copy."""


class _Option(NamedTuple):
    accelerator: Accelerator
    """The GPU."""
    gpus: int
    """How many of it."""
    usd_per_hour: float
    """Lowest price of all of them [USD/h]."""
    trained: TrainingEstimate
    """The estimate of the training on them."""


def smallest_training(
    request: TrainingRequest,
    model: Model,
    models: RlModels,
    alone: TrainingEstimate,
    training: TrainingFitService,
    catalog: Catalog,
) -> list[SmallestGpus]:
    """Return the fewest, the cheapest and the fastest rented GPUs on which a training fits, with
    data parallelism alone. alone: the training on one GPU of any size; its method is taken.
    models: the named reward model and critic."""
    method = alone.workload.method
    of_method = structs.replace(request, method=method)
    costs = Costs(catalog.offers, None, owned=False)
    least = sum(term.low for term in alone.fullest.terms if term.name in _SHARDED)
    options = [
        option
        for accelerator in catalog.all()
        for option in _fewest(of_method, model, models, accelerator, least, training, costs)
    ]
    return [
        SmallestGpus(
            reasons=reasons,
            name=method,
            gpu=option.accelerator.name,
            gpu_count=option.gpus,
            required_bytes=option.trained.need,
            usd_per_hour=round(option.usd_per_hour, 2),
            request=_fields(of_method, option),
            command=launch_command(
                model, option.trained.workload, option.trained.setup, option.trained.tool
            ),
        )
        for option, reasons in roles(
            options, lambda one: one.gpus, lambda one: (one.usd_per_hour,), _slowness
        )
    ]


def training_elsewhere(
    request: TrainingRequest,
    method: Method,
    model: Model,
    models: RlModels,
    training: TrainingFitService,
    catalog: Catalog,
) -> Iterator[Suggestion]:
    """Yield other GPUs as changes of a question: the fewest, and the cheapest. method: the one that
    is answered. models: the named reward model and critic. Raises the errors of IMPOSSIBLE."""
    free = on_one_gpu(structs.replace(with_lengths(request), method=method))
    alone = training.alone(free, model, models).main
    divided = [name for name in DEGREES if getattr(request, name) is not None]
    for one in worth_naming(smallest_training(free, model, models, alone, training, catalog)):
        fields: Fields = {"gpu": one.gpu, "gpu_count": one.gpu_count}
        if request.method is None:
            fields["method"] = method
        changed = structs.replace(request, **(dict.fromkeys(divided) | fields))
        accelerator = catalog.find(one.gpu).accelerator
        try:
            trained = training.check(changed, model, accelerator, one.gpu_count, models)
        except IMPOSSIBLE:
            continue
        if trained.verdict == "fits" and refusal(trained.workload, accelerator) is None:
            freed = {name: getattr(trained.workload, name) for name in divided}
            yield Suggestion(
                change=change_in_words(one),
                verdict="fits",
                required_bytes=trained.need,
                request=freed | fields,
                launch=launch(model, trained.workload, trained.setup, trained.tool),
                host_memory=trained.host_memory,
            )


def _fewest(
    request: TrainingRequest,
    model: Model,
    models: RlModels,
    accelerator: Accelerator,
    least_bytes: int,
    training: TrainingFitService,
    costs: Costs,
) -> Iterator[_Option]:
    """Yield the fewest of one accelerator on which it fits, with what is offloaded on their hosts,
    where they have a price."""
    most = most_gpus(accelerator, COUNTS[-1])
    for count in COUNTS:
        price = costs.usd_per_hour(accelerator, count) if count <= most else None
        if price is None or count * accelerator.usable.high < least_bytes:
            continue
        try:
            trained = training.check(request, model, accelerator, count, models)
        except IMPOSSIBLE:
            continue
        too_much = exceeds_host(trained.host_memory, request.host_memory_gib)
        runs = refusal(trained.workload, accelerator) is None
        if trained.verdict == "fits" and runs and not too_much:
            yield _Option(accelerator, count, price, trained)
            return


def _slowness(option: _Option) -> tuple[float, ...]:
    """Return what orders options by peak arithmetic, the fastest first."""
    peak = option.accelerator.bf16_tflops_dense
    return (inf if peak is None else -peak * option.gpus,)


def _fields(request: TrainingRequest, option: _Option) -> Fields:
    """Return the request with these GPUs, without what is left out."""
    fields: dict[str, Any] = structs.asdict(request)
    fields |= {"gpu": option.accelerator.name, "gpu_count": option.gpus}
    return {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in fields.items()
        if value is not None and name not in ("detail", "lengths")
    }
