"""The tools of agents: forgiving arguments, short answers."""

from typing import Annotated, Any

from litestar import Controller, Request, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter

from fitgauge.api.callers import while_connected
from fitgauge.api.manifests import manifests
from fitgauge.api.problems import RequestError
from fitgauge.api.request_parsing import ApiRequest
from fitgauge.api.tool_requests import (
    ArgumentsDecoder,
    on_tool_error,
    on_tool_request_error,
    on_unknown_tool,
)
from fitgauge.api.tools_document import VERSION, VERSION_30, tools_document
from fitgauge.services.facade import Services
from fitgauge.services.tools.errors import ToolCallError, UnknownToolError
from fitgauge.services.tools.schemas import ToolAnswer
from fitgauge.services.tools.service import Tools

MANIFESTS = manifests()
_LARGEST_LOG = 2 * 1024 * 1024


class ToolsController(Controller):
    """The tools of agents."""

    path = "/tools"
    exception_handlers = {  # noqa: RUF012 - Litestar's
        ToolCallError: on_tool_error,
        UnknownToolError: on_unknown_tool,
        RequestError: on_tool_request_error,
    }

    @post(
        "/{name:str}",
        status_code=200,
        request_max_body_size=_LARGEST_LOG,
        opt={"body": ArgumentsDecoder(_LARGEST_LOG)},
    )
    async def call(
        self,
        name: Annotated[str, PathParameter()],
        data: JSONBody[dict[str, Any]],
        request: ApiRequest,
        services: NamedDependency[Services],
    ) -> ToolAnswer:
        """Answer a call, until the caller disconnects."""
        return await while_connected(request, Tools(services).call(name, data))

    @get([f"/{host}.json" for host in MANIFESTS])
    async def list_for_host(self, request: Request[Any, Any, Any]) -> Any:  # noqa: ANN401 - by host
        """Return the manifest of the host that the path names."""
        return MANIFESTS[request.url.path.rpartition("/")[2].removesuffix(".json")]

    @get(["/openapi.json", "/openapi-3.0.json"])
    async def describe(
        self, request: Request[Any, Any, Any], public_url: NamedDependency[str]
    ) -> dict[str, Any]:
        """Return the document of the tools, for the address under which it is read."""
        version = VERSION_30 if request.url.path.endswith("-3.0.json") else VERSION
        if public_url.startswith("http"):
            return tools_document(public_url, version)
        return tools_document(f"{str(request.base_url).rstrip('/')}{public_url}", version)
