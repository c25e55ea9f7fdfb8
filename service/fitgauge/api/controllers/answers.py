"""Permalinks of answers."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from fitgauge.api.callers import while_connected
from fitgauge.api.documentation import MODEL_ERRORS, errors
from fitgauge.api.query_parameters import strict_query
from fitgauge.api.request_parsing import ApiRequest
from fitgauge.services.common.answer_facts import AnswerAgain
from fitgauge.services.common.answer_ids import LONGEST_ID
from fitgauge.services.facade import Services

EXAMPLE = "1iyZdH8gRtbEA"
"""Qwen/Qwen3-32B on an RTX 4090."""


class AnswersController(Controller):
    """Permalinks of answers."""

    @get(
        "/v1/answers/{answer_id:str}",
        operation_id="get_answer",
        summary="What is the answer of this permalink?",
        description=(
            "Answers the question of an `answer_id` again, as of now. The id holds the question"
            " itself, so every replica answers it and nothing is stored; whoever has it can read"
            " the question."
        ),
        responses=errors(*MODEL_ERRORS, 503),
        guards=[strict_query],
        opt={"tool": False, "weight": 20},
    )
    async def get_answer(
        self,
        answer_id: Annotated[
            str,
            PathParameter(
                description="The `answer_id` of an answer.",
                examples=[Example(value=EXAMPLE)],
                schema_extra={"minLength": 1, "maxLength": LONGEST_ID},
            ),
        ],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> AnswerAgain:
        """Answer a question again, until the caller disconnects."""
        return await while_connected(request, services.answer_again(answer_id))
