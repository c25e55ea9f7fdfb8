"""Writes the committed artefacts: openapi.json and the tool manifests of the usual hosts.
`python -m fitgauge.api.export DIRECTORY`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitgauge.api.openapi import document, schemas
from fitgauge.api.operations import OPERATIONS, Operation


def artefacts() -> dict[str, Any]:
    """Return every artefact by its path under openapi/."""
    known = schemas()
    tools = [
        (operation, parameters(operation, known)) for operation in OPERATIONS if operation.tool
    ]
    return {
        "openapi.json": document(),
        "tools/openai.json": [
            {
                "type": "function",
                "function": {"name": op.id, "description": _described(op), "parameters": schema},
            }
            for op, schema in tools
        ],
        "tools/anthropic.json": [
            {"name": op.id, "description": _described(op), "input_schema": schema}
            for op, schema in tools
        ],
        "tools/gemini.json": [
            {
                "functionDeclarations": [
                    {"name": op.id, "description": _described(op), "parametersJsonSchema": schema}
                    for op, schema in tools
                ]
            }
        ],
    }


def parameters(operation: Operation, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation as one flat object: no references, no unions,
    optional means left out. known: `openapi.schemas`."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in operation.parameters:
        properties[parameter.name] = {
            **flat(parameter.schema),
            "description": parameter.description,
        }
        if parameter.required:
            required.append(parameter.name)
    if operation.request:
        schema = known[operation.request.__name__]
        properties |= {name: flat(value) for name, value in schema["properties"].items()}
        required += schema["required"]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_OF_ARRAYS = ("items", "minItems", "maxItems")
_UNSAID = ("anyOf", "default", "examples", "minLength", "maxLength")
"""What tells a tool nothing that its description does not; all of it stands in the OpenAPI
document."""

_GUARDS = 100
"""Larger maxima guard the service and bound no answer: they are left out too."""


def flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a property with one type, the first: hosts leave optional arguments out instead of
    sending null, and know no choices."""
    options = [option for option in schema.get("anyOf", ()) if option["type"] != "null"]
    merged: dict[str, Any] = {**(options[0] if options else {}), **schema}
    if isinstance(merged["type"], list):
        merged["type"] = next(name for name in merged["type"] if name != "null")
    left_out = _UNSAID if merged["type"] == "array" else (*_UNSAID, *_OF_ARRAYS)
    if merged.get("maximum", 0) > _GUARDS:
        left_out = (*left_out, "maximum")
    return {key: value for key, value in merged.items() if key not in left_out}


def _described(operation: Operation) -> str:
    return f"{operation.summary} {operation.description}"


def main(directory: str) -> None:
    """Write every artefact under `directory`."""
    for name, content in artefacts().items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
