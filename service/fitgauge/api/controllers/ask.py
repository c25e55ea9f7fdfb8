"""Questions in plain words."""

from litestar import Controller, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import BODY_ERRORS, errors
from fitgauge.api.request_parsing import ApiRequest, BodyDecoder
from fitgauge.services.ask.schemas import AskAnswer, AskRequest
from fitgauge.services.facade import Services

_EXAMPLE = "Will Qwen3 32B in AWQ fit on 2x RTX 4090 with 32k context for 8 users?"


class AskController(Controller):
    """Questions in plain words."""

    @post(
        "/v1/ask",
        operation_id="ask",
        status_code=200,
        summary="What does this question mean, and what is the answer?",
        description=(
            "Reads a question in plain words, English or Chinese first, by a grammar: the operation"
            " it means, what it says, what is missing, and the answer of that operation. Only what"
            " the text says is understood."
        ),
        responses=errors(*BODY_ERRORS, 422, 503),
        opt={
            "body": BodyDecoder(AskRequest, {"question": _EXAMPLE}),
            "examples": {
                "serving": {"question": _EXAMPLE},
                "training": {"question": "Can I fine-tune a 7b with LoRA on a single 24GB GPU?"},
                "in Chinese": {"question": "两张A100 80G能全量微调Qwen3 8B吗,序列长度4096"},
            },
            "weight": 10,
        },
    )
    async def ask(
        self, data: JSONBody[AskRequest], request: ApiRequest, services: NamedDependency[Services]
    ) -> AskAnswer:
        """Answer a question in plain words, until the caller disconnects."""
        return await while_connected(request, services.ask(data))
