"""The tools that the official conformance suite calls."""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
ToolResult = types.CallToolResult | types.InputRequiredResult

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAE"
    "hQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV = base64.b64encode(
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00"
    b"\x02\x00\x10\x00data\x00\x00\x00\x00"
).decode()
IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
KEY = secrets.token_bytes(32)


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)])


def embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(resource=contents)


def signed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def verified(state: str | None) -> str:
    """Return what was signed. Raises MCPError where a client changed it."""
    words, _, _ = (state or "").rpartition(".")
    if not hmac.compare_digest(signed(words).encode(), (state or "").encode()):
        raise MCPError(types.INVALID_PARAMS, "requestState is not what this server sent.")
    return words


def elicit(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sample(words: str, most: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=words))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=most)
    )


def needs(requests: Mapping[str, Any], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(
        input_requests=dict(requests), request_state=signed(state) if state else None
    )


def answers(params: Any, kinds: Mapping[str, type]) -> dict[str, Any] | None:
    """Return the client's answers of these kinds; None where one is missing or of another kind."""
    responses = params.input_responses or {}
    if all(isinstance(responses.get(name), kind) for name, kind in kinds.items()):
        return {name: responses[name] for name in kinds}
    return None


ASK_NAME = {"user_name": elicit("What is your name?", "name")}
ASK_ROOTS = {"client_roots": types.ListRootsRequest()}
ASK_ALL = {**ASK_NAME, "greeting": sample("Generate a greeting", 50), **ASK_ROOTS}
ASK_CONFIRM = {"confirm": elicit("Please confirm", "ok", "boolean")}
ASK_STEPS = (
    {"step1": elicit("Step 1: What is your name?", "name")},
    {"step2": elicit("Step 2: What is your favorite color?", "color")},
)


async def ask_name(_: Context, params: types.CallToolRequestParams) -> ToolResult:
    got = answers(params, {"user_name": types.ElicitResult})
    if got is None or not (got["user_name"].content or {}).get("name"):
        return needs(ASK_NAME)
    return text(f"Hello, {got['user_name'].content['name']}!")


async def ask_capital(_: Context, params: types.CallToolRequestParams) -> ToolResult:
    got = answers(params, {"capital_question": types.CreateMessageResult})
    if got is None:
        return needs({"capital_question": sample("What is the capital of France?")})
    return text(str(got["capital_question"].content))


async def ask_roots(_: Context, params: types.CallToolRequestParams) -> ToolResult:
    got = answers(params, {"client_roots": types.ListRootsResult})
    if got is None:
        return needs(ASK_ROOTS)
    return text(", ".join(str(root.uri) for root in got["client_roots"].roots))


async def ask_with_state(_: Context, params: types.CallToolRequestParams) -> ToolResult:
    if params.request_state is not None:
        verified(params.request_state)
        if answers(params, {"confirm": types.ElicitResult}):
            return text("state-ok")
    return needs(ASK_CONFIRM, "confirming")


async def ask_all(_: Context, params: types.CallToolRequestParams) -> ToolResult:
    kinds = {
        "user_name": types.ElicitResult,
        "greeting": types.CreateMessageResult,
        "client_roots": types.ListRootsResult,
    }
    if params.request_state is not None:
        verified(params.request_state)
    return text("All are here.") if answers(params, kinds) else needs(ASK_ALL, "all")


async def ask_in_rounds(_: Context, params: types.CallToolRequestParams) -> ToolResult:
    if params.request_state is None:
        return needs(ASK_STEPS[0], json.dumps([]))
    before = json.loads(verified(params.request_state))
    got = answers(params, {f"step{len(before) + 1}": types.ElicitResult})
    if got is None:
        return needs(ASK_STEPS[len(before)], json.dumps(before))
    now = [*before, *(one.content for one in got.values())]
    return text(json.dumps(now)) if len(now) == 2 else needs(ASK_STEPS[1], json.dumps(now))


async def ask_what_the_client_can(
    context: Context, params: types.CallToolRequestParams
) -> ToolResult:
    can = context.session.client_capabilities
    wanted = {}
    if can and can.elicitation is not None:
        wanted |= ASK_NAME
    if can and can.sampling is not None:
        wanted |= {"greeting": sample("Generate a greeting", 50)}
    if not wanted or params.input_responses:
        return text("Complete.")
    return needs(wanted)


async def needs_sampling(context: Context, _: types.CallToolRequestParams) -> ToolResult:
    can = context.session.client_capabilities
    if can is None or can.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs sampling.", data=data)
    return text("Complete.")


async def fails(_: Context, __: types.CallToolRequestParams) -> ToolResult:
    result = text("This tool intentionally returns an error for testing")
    return result.model_copy(update={"is_error": True})


async def reports_progress(context: Context, _: types.CallToolRequestParams) -> ToolResult:
    for progress in (0, 50, 100):
        await context.session.report_progress(progress, 100)
        await asyncio.sleep(0.05)
    return text("Complete.")


def always(result: types.CallToolResult) -> Callable[..., Awaitable[ToolResult]]:
    async def tool(_: Context, __: types.CallToolRequestParams) -> ToolResult:
        return result

    return tool


TOOLS: dict[str, Callable[[Context, types.CallToolRequestParams], Awaitable[ToolResult]]] = {
    "test_simple_text": always(text("This is a simple text response for testing.")),
    "test_image_content": always(types.CallToolResult(content=[IMAGE])),
    "test_audio_content": always(
        types.CallToolResult(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])
    ),
    "test_embedded_resource": always(
        types.CallToolResult(
            content=[
                embedded(
                    "test://embedded-resource",
                    "text/plain",
                    "This is an embedded resource content.",
                )
            ]
        )
    ),
    "test_multiple_content_types": always(
        types.CallToolResult(
            content=[
                types.TextContent(text="Multiple content types test:"),
                IMAGE,
                embedded(
                    "test://mixed-content-resource",
                    "application/json",
                    json.dumps({"test": "data", "value": 123}),
                ),
            ]
        )
    ),
    "test_error_handling": fails,
    "test_tool_with_progress": reports_progress,
    "test_missing_capability": needs_sampling,
    "test_streaming_elicitation": ask_name,
    "test_logging_tool": always(text("Complete.")),
    "test_input_required_result_elicitation": ask_name,
    "test_input_required_result_sampling": ask_capital,
    "test_input_required_result_list_roots": ask_roots,
    "test_input_required_result_request_state": ask_with_state,
    "test_input_required_result_tampered_state": ask_with_state,
    "test_input_required_result_multiple_inputs": ask_all,
    "test_input_required_result_multi_round": ask_in_rounds,
    "test_input_required_result_capabilities": ask_what_the_client_can,
}


async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=name, input_schema={"type": "object"})
            for name in TOOLS
        ]
    )


async def call_tool(context: Context, params: types.CallToolRequestParams) -> ToolResult:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name[:64]!r}.")
    return await TOOLS[params.name](context, params)
