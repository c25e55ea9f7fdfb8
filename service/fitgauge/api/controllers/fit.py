"""Serving: will a model fit?"""

from litestar import Controller, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.answer_cache import AnswerCache, asked_before
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest


class FitController(Controller):
    """Serving: will a model fit?"""

    @post(
        "/v1/fit",
        operation_id="check_fit",
        status_code=200,
        before_request=asked_before,
        summary="Will this model fit on this GPU when it is served?",
        description=(
            "Estimates GPU memory for serving a model by its Hugging Face ID: a verdict, every byte"
            " named, the limits, and the smallest changes that would make it fit."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS, 503),
        opt={
            "body": BodyDecoder(FitRequest, {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"}),
            "examples": {
                "one GPU": {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"},
                "four GPUs, long context": {
                    "model": "Qwen/Qwen3-32B",
                    "gpu": "RTX 4090",
                    "gpu_count": 4,
                    "context_length": 32768,
                },
            },
        },
    )
    async def check_fit(
        self, data: JSONBody[FitRequest], request: ApiRequest, answers: NamedDependency[AnswerCache]
    ) -> Response[FitAnswer]:
        """Estimate GPU memory of serving; repeated questions are answered from the cache."""
        return await answers.answer(request, answers.services.check_fit, data)
