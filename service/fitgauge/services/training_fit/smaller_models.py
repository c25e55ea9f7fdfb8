"""A smaller model of the same family to train, as a change where no other helps on the GPUs that
were named."""

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import shared
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import GIB
from fitgauge.services.common.host_memory import exceeds_host
from fitgauge.services.common.responses import parameters
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.common.smaller_models import SmallerModels, smaller_in_words
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.training_fit.launchers.command import launch
from fitgauge.services.training_fit.lengths import with_lengths
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_fit.workload import training_gpus

_LEAST_PART = 1 / 16
"""Of the parameters, below which a model is no stand-in for another."""


def smaller_model_to_train(
    request: TrainingRequest,
    model: Model,
    match: GpuMatch,
    models: SmallerModels,
    rl_models: RlModels,
    training: TrainingFitService,
) -> Suggestion | None:
    """Return the first smaller model whose training fits with nothing else changed; None where
    none does. Left out are checkpoints of other quantizers, which were made to be served."""
    request = with_lengths(request)
    count = training_gpus(request, match.count)
    accelerator = shared(match.accelerator, int((request.other_memory_gib or 0) * GIB))
    for other in models.find(model, count * accelerator.usable.high):
        too_small = parameters(other) < _LEAST_PART * parameters(model)
        if too_small or _quantizer(other) not in (None, _quantizer(model)):
            continue
        changed = structs.replace(request, model=other.id)
        try:
            trained = training.check(changed, other, accelerator, count, rl_models)
        except IMPOSSIBLE:
            continue
        if (
            trained.verdict == "fits"
            and refusal(trained.workload, accelerator) is None
            and not exceeds_host(trained.host_memory, request.host_memory_gib)
        ):
            return Suggestion(
                change=smaller_in_words(other),
                verdict="fits",
                required_bytes=trained.need,
                request={"model": other.id},
                launch=launch(other, trained.workload, trained.setup, trained.tool),
                host_memory=trained.host_memory,
            )
    return None


def _quantizer(model: Model) -> object:
    """Return the method that a config names; None without one."""
    return (model.spec.quantization or {}).get("quant_method")
