"""Utilization of the GPUs by a training run."""

from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.media_types import UPLOADS
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.facade import Services
from fitgauge.services.utilization.schemas import UtilizationAnswer, UtilizationRequest


class UtilizationController(Controller):
    """Utilization of the GPUs by a training run."""

    @post(
        "/v1/utilization",
        operation_id="explain_utilization",
        status_code=200,
        summary="How much of its GPUs does a training run use?",
        description=(
            "MFU and HFU from achieved TFLOPS or a throughput, time and cost of a token budget,"
            " whether ZeRO is bound by communication. Or upload a PyTorch profiler trace (.json.gz"
            " as application/gzip, .json as application/octet-stream) for tensor-core,"
            " communication and idle shares."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS),
        request_max_body_size=64 * 1024 * 1024,
        opt={
            "body": BodyDecoder(
                UtilizationRequest, {"gpu": "A100 80GB", "achieved_tflops": 100}, largest=64 * 1024
            ),
            "uploads": UPLOADS,
            "examples": {
                "achieved FLOPs": {"achieved_tflops": 100, "gpu": "A100 80GB", "precision": "fp16"},
                "throughput": {
                    "model": "7b",
                    "gpu": "A100 80GB",
                    "gpu_count": 4,
                    "tokens_per_second": 6144,
                    "published_tokens_per_second": 3300,
                },
            },
        },
    )
    async def explain_utilization(
        self,
        request: ApiRequest,
        services: NamedDependency[Services],
        data: JSONBody[UtilizationRequest | None] = None,
    ) -> UtilizationAnswer:
        """Answer a question, or read an uploaded trace piece by piece."""
        if data is None:
            return await services.explain_trace(request.stream())
        return await services.explain_utilization(data)
