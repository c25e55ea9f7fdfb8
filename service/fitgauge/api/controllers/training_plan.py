"""Layouts that train a model."""

from litestar import Controller, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.answer_cache import AnswerCache, asked_before
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer, TrainingPlanRequest


class TrainingPlanController(Controller):
    """Layouts that train a model."""

    @post(
        "/v1/training-plan",
        operation_id="plan_training",
        status_code=200,
        before_request=asked_before,
        summary="Which layouts train this model, on how many GPUs?",
        description=(
            "Searches framework, ZeRO stage, tensor, pipeline, context, expert and data"
            " parallelism, micro-batch and checkpointing for the fewest GPUs, the cheapest or the"
            " fastest; every plan has each stage's bytes and a launch snippet. What is sent is"
            " kept."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS, 503),
        opt={
            "body": BodyDecoder(
                TrainingPlanRequest, {"model": "meta-llama/Llama-3.1-8B", "gpu": "H100"}
            ),
            "examples": {
                "13b under Megatron": {
                    "model": "13b",
                    "framework": "megatron",
                    "gpu": "80GB",
                    "sequence_length": 4096,
                },
                "fastest of 16": {
                    "model": "Qwen/Qwen3-8B",
                    "gpu": "H100",
                    "gpu_count": 16,
                    "objective": "fastest",
                },
            },
            "weight": 20,
        },
    )
    async def plan_training(
        self,
        data: JSONBody[TrainingPlanRequest],
        request: ApiRequest,
        answers: NamedDependency[AnswerCache],
    ) -> Response[TrainingPlanAnswer]:
        """Search layouts for training; repeated questions are answered from the cache."""
        return await answers.answer(request, answers.services.plan_training, data, cancellable=True)
