"""Models by themselves."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from fitgauge.api.documentation import MODEL_ERRORS, NAME_SCHEMA, errors
from fitgauge.api.query_parameters import strict_query
from fitgauge.services.common.model_schemas import ModelDetail
from fitgauge.services.facade import Services


class ModelsController(Controller):
    """Models by themselves."""

    @get(
        "/v1/models/{owner:str}/{name:str}",
        operation_id="get_model",
        summary="What is this model made of?",
        description=(
            "Architecture, exact parameter count, stored bytes and cache growth of a Hugging Face"
            " model."
        ),
        responses=errors(*MODEL_ERRORS),
        guards=[strict_query],
    )
    async def get_model(
        self,
        owner: Annotated[
            str,
            PathParameter(
                description="The user or organisation on the Hub.",
                examples=[Example(value="Qwen")],
                schema_extra=NAME_SCHEMA,
            ),
        ],
        name: Annotated[
            str,
            PathParameter(
                description="The repository; name@revision and name:file are understood.",
                examples=[Example(value="Qwen3-32B")],
                schema_extra=NAME_SCHEMA,
            ),
        ],
        services: NamedDependency[Services],
    ) -> ModelDetail:
        """Describe one model."""
        return await services.get_model(f"{owner}/{name}")
