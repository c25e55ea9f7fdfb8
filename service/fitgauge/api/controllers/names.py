"""Names as somebody types them."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import QueryParameter

from fitgauge.api.documentation import errors
from fitgauge.api.query_parameters import strict_query
from fitgauge.services.common.name_search import Names
from fitgauge.services.facade import Services


class NamesController(Controller):
    """Names as somebody types them."""

    @get(
        "/v1/names",
        operation_id="search_names",
        summary="Which models and GPUs have such a name?",
        description=(
            "Up to 20 bundled models and 20 GPUs whose names hold every word of the search: what"
            " a search box shows while somebody types."
        ),
        responses=errors(422),
        guards=[strict_query],
    )
    async def search_names(
        self,
        services: NamedDependency[Services],
        search: Annotated[
            str,
            QueryParameter(
                max_length=200,
                description="Words of the names.",
                examples=[Example(value="qwen3 8b")],
            ),
        ] = "",
        hub: Annotated[
            bool,
            QueryParameter(
                description="Whether to ask the Hub too: slower, a second at most.",
                examples=[Example(value=True)],
            ),
        ] = False,
    ) -> Names:
        """Return names that hold every word."""
        return await services.search_names(search, hub)
