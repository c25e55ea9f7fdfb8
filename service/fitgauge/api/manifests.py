"""The tools in the forms of the usual hosts, all from `services/tools/faces.py`.

OpenAI's strict mode wants every property required, so an optional one may be null; the tools take
null as left out. Anthropic's strict mode allows 24 optional parameters in a request, and the seven
tools have more: its form is not strict. Without references, choices and defaults every host reads
the same schema."""

from collections.abc import Iterable, Mapping
from typing import Any

from fitgauge import __version__
from fitgauge.api.tools_document import answer_schema, arguments_schema
from fitgauge.services.tools.faces import TOOLS, Tool

BAR_URI = "ui://fitgauge/bar.html"
"""The picture that hosts of MCP Apps draw from an answer about one model and GPU."""

_WITH_BAR = ("check_fit", "check_training_fit")


def manifests() -> dict[str, Any]:
    """Return every manifest by the host's name."""
    return {
        "openai-responses": [_responses_tool(tool) for tool in TOOLS.values()],
        "openai-chat": [
            {"type": "function", "function": _openai_function(tool)} for tool in TOOLS.values()
        ],
        "anthropic": [_anthropic_tool(tool) for tool in TOOLS.values()],
        "gemini": [{"functionDeclarations": [_gemini_function(tool) for tool in TOOLS.values()]}],
        "mcp": {"version": __version__, "tools": mcp_tools()},
    }


def mcp_tools() -> list[dict[str, Any]]:
    """Return the tools as the Model Context Protocol lists them."""
    return [_mcp_tool(tool) for tool in TOOLS.values()]


def title(tool: Tool) -> str:
    """Return the name of a tool in words."""
    words = tool.name.replace("_", " ").replace("gpus", "GPUs")
    return words[:1].upper() + words[1:]


def _responses_tool(tool: Tool) -> dict[str, Any]:
    return {"type": "function", **_openai_function(tool)}


def _openai_function(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": _strict(arguments_schema(tool)),
        "strict": True,
    }


def _anthropic_tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": arguments_schema(tool) | {"additionalProperties": False},
        "input_examples": [dict(tool.example)],
    }


def _gemini_function(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": arguments_schema(tool),
    }


def _mcp_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool that only reads, gives the same for the same, and asks the Hub."""
    listed = {
        "name": tool.name,
        "title": title(tool),
        "description": tool.description,
        "inputSchema": arguments_schema(tool),
        "outputSchema": answer_schema(),
        "annotations": {
            "title": title(tool),
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": tool.asks_hub,
        },
    }
    if tool.name in _WITH_BAR:
        listed["_meta"] = {"ui": {"resourceUri": BAR_URI}}
    return listed


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object schema with every property required and nothing else allowed."""
    required: Iterable[str] = schema["required"]
    properties = {
        name: field if name in required else field | {"type": [field["type"], "null"]}
        for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
