"""Which GPUs to use for a model."""

from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.facade import Services
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest


class RecommendController(Controller):
    """Which GPUs to use for a model."""

    @post(
        "/v1/recommend",
        operation_id="recommend_gpus",
        status_code=200,
        summary="Which GPUs should this model be served or trained on?",
        description=(
            "Searches the GPUs sold today in counts of 1 to 16 and the usual formats: three to five"
            " options (fewest GPUs, cheapest, fastest, headroom) with command and price; with"
            " `detail` full all that nothing beats."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS, 503),
        opt={
            "body": BodyDecoder(RecommendRequest, {"model": "Qwen/Qwen3-32B"}),
            "examples": {
                "any GPU": {"model": "Qwen/Qwen3-32B", "context_length": 32768, "concurrency": 16},
                "GPUs at hand": {
                    "model": "70b",
                    "gpus": "4x L40S, 2x RTX 4090",
                    "owned": True,
                    "objective": "most_headroom",
                },
                "a budget": {
                    "model": "70b",
                    "context_length": 32768,
                    "concurrency": 16,
                    "max_usd_per_hour": 12,
                    "objective": "cheapest",
                },
                "training": {
                    "model": "Qwen/Qwen3-8B",
                    "task": "training",
                    "method": "lora",
                    "sequence_length": 4096,
                },
            },
            "weight": 10,
        },
    )
    async def recommend_gpus(
        self,
        data: JSONBody[RecommendRequest],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> RecommendAnswer:
        """Search GPUs for a model, until the caller disconnects."""
        return await while_connected(request, services.recommend_gpus(data))
