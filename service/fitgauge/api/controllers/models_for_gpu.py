"""Which models run on a GPU."""

from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import BODY_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.facade import Services
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer, ModelsForGpuRequest


class ModelsForGpuController(Controller):
    """Which models run on a GPU."""

    @post(
        "/v1/models-for-gpu",
        operation_id="list_models_that_fit",
        status_code=200,
        summary="Which models run on this GPU?",
        description=(
            "Holds every bundled model against a GPU and a workload, serving or training, in the"
            " widest format that fits of those that people run there or in formats of your choice,"
            " and lists those that fit or are tight, the most capable first, in pages."
        ),
        responses=errors(*BODY_ERRORS, 404, 422, 503),
        opt={
            "body": BodyDecoder(ModelsForGpuRequest, {"gpu": "RTX 3090"}),
            "examples": {
                "one GPU": {"gpu": "RTX 3090", "task": "generate"},
                "fine-tuning": {"gpu": "RTX 3090", "task": "training", "method": "qlora"},
                "in 4 bits too": {
                    "gpu": "RTX 3090",
                    "quantizations": "as published, awq",
                    "search": "qwen3",
                    "context_length": 16384,
                },
            },
            "weight": 20,
        },
    )
    async def list_models_that_fit(
        self,
        data: JSONBody[ModelsForGpuRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> ModelsForGpuAnswer:
        """List the bundled models that fit, until the caller disconnects."""
        return await while_connected(request, services.list_models_that_fit(data))
