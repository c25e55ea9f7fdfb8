"""The plugin's own HTTP stack with what the official conformance suite calls: its tools, resources
and prompts. Only tests run it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Scope, Send

from fitgauge_plugin.mcp_http import security, serve_http
from fitgauge_plugin.mcp_server import CACHE_HINTS
from hosts.suite_tools import IMAGE, PNG, Context, answers, call_tool, elicit, list_tools, needs
from live import listening

TEXT = types.TextResourceContents(
    uri="test://static-text",
    mime_type="text/plain",
    text="This is the content of the static text resource.",
)
BINARY = types.BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=PNG)
WATCHED = types.TextResourceContents(
    uri="test://watched-resource", mime_type="text/plain", text="Watched."
)
RESOURCES = {str(contents.uri): contents for contents in (TEXT, BINARY, WATCHED)}
TEMPLATE = "test://template/{id}/data"

ASK_CONTEXT = {"user_context": elicit("What context should the prompt use?", "context")}
EMPTY = types.EmptyResult()


async def list_resources(_: Context, __: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri, description=uri, mime_type=contents.mime_type)
            for uri, contents in RESOURCES.items()
        ]
    )


async def list_templates(_: Context, __: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=TEMPLATE, name="data", description="Data.")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    _: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    contents = RESOURCES.get(uri)
    if match := re.fullmatch("test://template/([^/]+)/data", uri):
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        contents = types.TextResourceContents(
            uri=uri, mime_type="application/json", text=json.dumps(data)
        )
    if contents is None:
        raise MCPError(types.INVALID_PARAMS, "Unknown resource.", data={"uri": uri[:200]})
    return types.ReadResourceResult(contents=[contents])


async def do_nothing(_: Context, __: Any) -> types.EmptyResult:
    return EMPTY


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(_: Context, __: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=name,
                arguments=[types.PromptArgument(name=one, required=True) for one in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(
    _: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    sent = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            contents: list[Any] = ["This is a simple prompt for testing."]
        case "test_prompt_with_arguments":
            contents = [f"Prompt with arguments: arg1='{sent['arg1']}', arg2='{sent['arg2']}'"]
        case "test_prompt_with_embedded_resource":
            resource = types.TextResourceContents(
                uri=sent["resourceUri"],
                mime_type="text/plain",
                text="Embedded resource content for testing.",
            )
            contents = [
                types.EmbeddedResource(resource=resource),
                "Please process the embedded resource above.",
            ]
        case "test_prompt_with_image":
            contents = [IMAGE, "Please analyze the image above."]
        case "test_input_required_result_prompt":
            got = answers(params, {"user_context": types.ElicitResult})
            if got is None:
                return needs(ASK_CONTEXT)
            contents = [str(got["user_context"].content)]
        case _:
            raise MCPError(types.INVALID_PARAMS, "Unknown prompt.")
    return types.GetPromptResult(
        messages=[
            types.PromptMessage(
                role="user", content=types.TextContent(text=one) if isinstance(one, str) else one
            )
            for one in contents
        ]
    )


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    words = [word for word in ("paris", "park") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=words, has_more=False))


def suite_server() -> Server[Any]:
    return Server(
        "conformance",
        version="1",
        cache_hints=CACHE_HINTS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=do_nothing,
        on_unsubscribe_resource=do_nothing,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=do_nothing,
    )


class Application:
    """The ASGI application, with the lifespan that a server runs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.mcp(scope, receive, send)
            return
        await receive()
        async with serve_http(suite_server(), security((), ())) as self.mcp:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def serving_suite() -> Iterator[str]:
    """Provide the address of the server, run as the service is."""
    with listening(Application()) as url:
        yield f"{url}/mcp"
