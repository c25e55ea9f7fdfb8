"""The Model Context Protocol server: the service's tools, models and GPUs for MCP hosts.

It knows the service by its contract alone: `call` sends a request of the HTTP API, whether over
the network or in the same process."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from fitgauge_plugin import mcp_prompts, mcp_resources
from fitgauge_plugin.calls import Call, Reply

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Answers whether a language model fits on a GPU (VRAM), for serving and for training, and if"
    " not, what does. Names may be written as people write them. Sizes are GiB per GPU. Repeat"
    " what `assumed` says: it is part of the answer."
)

FORWARDED = ("authorization", "x-api-key", "x-hf-token", "x-request-id", "traceparent")
"""Headers of the host's request that go with the calls made for it."""

_DAY_MS = 24 * 60 * 60 * 1000

CACHE_HINTS: Mapping[CacheableMethod, CacheHint] = {
    "tools/list": CacheHint(_DAY_MS, "public"),
    "resources/list": CacheHint(_DAY_MS, "public"),
    "resources/templates/list": CacheHint(_DAY_MS, "public"),
    "prompts/list": CacheHint(_DAY_MS, "public"),
}
"""How long hosts may keep a list: it changes with a release alone."""


def mcp_server(tools: Sequence[Mapping[str, Any]], call: Call, version: str) -> Server[Any]:
    """Return the server.

    tools: as the protocol lists them, from the service's manifest. call: sends a request of the
    HTTP API. version: of the service."""
    listed = [types.Tool.model_validate(tool) for tool in tools]
    names = {tool.name for tool in listed}

    async def list_tools(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in names:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name[:64]!r}.")
        reply = await call(
            "POST", f"/tools/{params.name}", params.arguments or {}, forwarded(context)
        )
        return tool_result(reply)

    async def list_resources(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=mcp_resources.LISTED)

    async def list_templates(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=mcp_resources.TEMPLATES)

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await mcp_resources.read(str(params.uri), call, forwarded(context))

    async def list_prompts(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=mcp_prompts.LISTED)

    async def get_prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return mcp_prompts.get(params.name, params.arguments or {})

    return Server(
        "fitgauge",
        title="Fitgauge",
        version=version,
        description="Will a model fit on a GPU, and if not, what will?",
        instructions=INSTRUCTIONS,
        cache_hints=CACHE_HINTS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def tool_result(reply: Reply) -> types.CallToolResult:
    """Return an answer as structured content and, since several hosts drop that, as text too.

    An error is text alone: it has not the form of an answer, and a model reads what to send."""
    body = reply.body or {"error": f"The service answered {reply.status}.", "code": "no-answer"}
    if reply.retry_after:
        body = body | {"retry_after_seconds": reply.retry_after}
    text = types.TextContent(text=json.dumps(body, ensure_ascii=False))
    if reply.is_success:
        return types.CallToolResult(content=[text], structured_content=body)
    return types.CallToolResult(content=[text], is_error=True)


def forwarded(context: Context) -> dict[str, str]:
    """Return the headers of the host's request that go with its calls; none over stdio."""
    headers = getattr(context.request, "headers", {})
    return {name: headers[name] for name in FORWARDED if name in headers}
