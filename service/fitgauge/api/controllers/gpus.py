"""Accelerators by themselves."""

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import PathParameter, QueryParameter

from fitgauge.api.documentation import NAME_SCHEMA, errors
from fitgauge.api.query_parameters import strict_query
from fitgauge.services.common.gpu_schemas import GpuDetail, GpuList
from fitgauge.services.common.pages import PAGE_ITEMS
from fitgauge.services.facade import Services


class GpusController(Controller):
    """Accelerators by themselves."""

    @get(
        "/v1/gpus",
        operation_id="list_gpus",
        summary="Which accelerators are known?",
        description=(
            "The accelerators: usable memory as a process sees it, bandwidth, formats, price, with"
            " sources."
        ),
        responses=errors(422),
        guards=[strict_query],
    )
    async def list_gpus(
        self,
        services: NamedDependency[Services],
        limit: Annotated[
            int,
            QueryParameter(
                ge=1, le=1000, description="Rows of a page.", examples=[Example(value=10)]
            ),
        ] = PAGE_ITEMS,
        offset: Annotated[
            int,
            QueryParameter(
                ge=0, le=1_000_000, description="Rows to skip.", examples=[Example(value=0)]
            ),
        ] = 0,
    ) -> GpuList:
        """Return a page of the catalog."""
        return services.list_gpus(limit, offset)

    @get(
        "/v1/gpus/{id:str}",
        operation_id="get_gpu",
        summary="What is known of this accelerator?",
        description=(
            "One accelerator, by its id or by anything people call it, and where it is rented."
        ),
        responses=errors(404, 422),
        guards=[strict_query],
    )
    async def get_gpu(
        self,
        gpu: Annotated[
            str,
            PathParameter(
                name="id",
                description="An id of list_gpus, or a name such as RTX 4090.",
                examples=[Example(value="rtx-4090")],
                schema_extra=NAME_SCHEMA,
            ),
        ],
        services: NamedDependency[Services],
    ) -> GpuDetail:
        """Describe one accelerator."""
        return services.get_gpu(gpu)
