"""The OpenAPI document of the tools, for hosts that read little of OpenAPI: one type a node, no
references, no choices, an absolute server."""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from fitgauge import __version__
from fitgauge.api.media_types import PROBLEM_JSON
from fitgauge.services.tools.faces import OPTIONS, TOOLS, Tool
from fitgauge.services.tools.schemas import ToolAnswer, ToolError

DEFAULT_SERVER = "http://127.0.0.1:8000"
"""Where `make serve` listens."""

_ERRORS = {
    "4XX": "Unknown, impossible or malformed, with the status of /v1; see send.",
    "503": "Too many long questions wait.",
}

_PROBLEMS = {"405": "A tool is called by POST.", "429": "Too many requests."}
"""Refusals that come before the tools, as problem+json."""


VERSION = "3.1.0"
"""Of OpenAPI; the one that GPT Actions take."""

VERSION_30 = "3.0.3"
"""For hosts that refuse 3.1, as Microsoft 365 Copilot does. Nothing else differs."""


def tools_document(server: str = DEFAULT_SERVER, version: str = VERSION) -> dict[str, Any]:
    """Return the document. server: the absolute address. version: of OpenAPI."""
    answer, error = answer_schema(), _inlined(ToolError)
    return {
        "openapi": version,
        "info": {
            "title": "Fitgauge tools",
            "version": __version__,
            "description": "Will a model fit on a GPU, and if not, what will? Sizes are GiB.",
        },
        "servers": [{"url": server.rstrip("/")}],
        "paths": {
            f"/tools/{tool.name}": {"post": _operation(tool, answer, error)}
            for tool in TOOLS.values()
        },
    }


def _operation(tool: Tool, answer: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    responses = {"200": {"description": "The answer.", "content": _json(answer)}}
    for status, reason in _ERRORS.items():
        responses[status] = {"description": reason, "content": _json(error)}
    for status, reason in _PROBLEMS.items():
        problem = {"schema": {"type": "object", "additionalProperties": True}}
        responses[status] = {"description": reason, "content": {PROBLEM_JSON: problem}}
    return {
        "operationId": tool.name,
        "summary": re.split(r"(?<=[.?]) ", tool.description)[0],
        "description": tool.description,
        "x-openai-isConsequential": False,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": arguments_schema(tool),
                    "example": dict(tool.example),
                }
            },
        },
        "responses": responses,
    }


def arguments_schema(tool: Tool) -> dict[str, Any]:
    """Return the arguments of a tool as one flat object."""
    properties = {
        parameter.name: {"type": parameter.type, "description": parameter.description}
        for parameter in tool.parameters
    }
    if tool.options:
        properties[OPTIONS] = {
            "type": "string",
            "description": f"Further settings as key=value: {tool.options}.",
        }
    return {"type": "object", "properties": properties, "required": list(tool.required)}


@cache
def answer_schema() -> dict[str, Any]:
    """Return what every tool answers, without references and choices."""
    return _inlined(ToolAnswer)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _inlined(kind: type[Struct]) -> dict[str, Any]:
    """Return the schema of a struct without references and choices."""
    _, components = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = _plain(components[kind.__name__], components)
    return schema


def _plain(node: Any, components: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON is any
    if isinstance(node, list):
        return [_plain(one, components) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        inner = _plain(components[node["$ref"].rpartition("/")[2]], components)
        return {**inner, **{key: value for key, value in node.items() if key != "$ref"}}
    if "anyOf" in node:  # values of any type: the object alone says it
        return {}
    plain = {key: _plain(value, components) for key, value in node.items() if key != "title"}
    if plain.get("additionalProperties") == {}:
        plain["additionalProperties"] = True
    if plain.get("required") == []:  # OpenAPI 3.0 wants one name or none of it
        del plain["required"]
    if "enum" in plain:
        plain["type"] = "string"
    return plain
