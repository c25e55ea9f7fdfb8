"""Training: will a model fit?"""

from litestar import Controller, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.answer_cache import AnswerCache, asked_before
from fitgauge.api.documentation import BODY_ERRORS, MODEL_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest


class TrainingFitController(Controller):
    """Training: will a model fit?"""

    @post(
        "/v1/training-fit",
        operation_id="check_training_fit",
        status_code=200,
        before_request=asked_before,
        summary="Will this model fit on this GPU when it is trained?",
        description=(
            "Estimates GPU memory for training: LoRA, QLoRA or full, under transformers, DeepSpeed,"
            " FSDP or Megatron; by default as TRL trains. Gives a verdict, every byte named, the"
            " largest micro-batch, the other methods, and what would make it fit."
        ),
        responses=errors(*BODY_ERRORS, *MODEL_ERRORS, 503),
        opt={
            "body": BodyDecoder(
                TrainingRequest, {"model": "meta-llama/Llama-3.1-8B", "gpu": "A100 80GB"}
            ),
            "examples": {
                "full fine-tuning": {
                    "model": "meta-llama/Llama-3.1-8B",
                    "gpu": "A100 80GB",
                    "method": "full",
                    "precision": "bf16",
                },
                "QLoRA on one GPU": {
                    "model": "meta-llama/Llama-3.1-8B",
                    "gpu": "RTX 4090",
                    "method": "qlora",
                    "lora_rank": 16,
                    "sequence_length": 4096,
                },
            },
            "weight": 5,
        },
    )
    async def check_training_fit(
        self,
        data: JSONBody[TrainingRequest],
        request: ApiRequest,
        answers: NamedDependency[AnswerCache],
    ) -> Response[TrainingAnswer]:
        """Estimate GPU memory of training; repeated questions are answered from the cache."""
        return await answers.answer(
            request, answers.services.check_training_fit, data, cancellable=True
        )
