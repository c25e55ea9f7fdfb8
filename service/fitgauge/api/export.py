"""Writes the committed artefacts: openapi.json and the tool manifests of the usual hosts.
`python -m fitgauge.api.export DIRECTORY`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitgauge.api.openapi import document, tool_ids
from fitgauge.api.tools_document import tools_document


def artefacts() -> dict[str, Any]:
    """Return every artefact by its path under openapi/."""
    openapi = document()
    schemas = openapi["components"]["schemas"]
    tools = [
        (
            operation["operationId"],
            f"{operation['summary']} {operation['description']}",
            parameters(operation, schemas),
        )
        for methods in openapi["paths"].values()
        for operation in methods.values()
        if operation["operationId"] in tool_ids()
    ]
    return {
        "openapi.json": openapi,
        "tools/openapi.json": tools_document(),
        "tools/openai.json": [
            {
                "type": "function",
                "function": {"name": name, "description": description, "parameters": schema},
            }
            for name, description, schema in tools
        ],
        "tools/anthropic.json": [
            {"name": name, "description": description, "input_schema": schema}
            for name, description, schema in tools
        ],
        "tools/gemini.json": [
            {
                "functionDeclarations": [
                    {"name": name, "description": description, "parametersJsonSchema": schema}
                    for name, description, schema in tools
                ]
            }
        ],
    }


def parameters(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation as one flat object: no references, no unions,
    optional means left out. schemas: the document's components."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in operation.get("parameters", ()):
        properties[parameter["name"]] = {
            **flat(parameter["schema"]),
            "description": parameter["description"],
        }
        if parameter["required"]:
            required.append(parameter["name"])
    if "requestBody" in operation:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = schemas[reference.rpartition("/")[2]]
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


def main(directory: str) -> None:
    """Write every artefact under `directory`."""
    for name, content in artefacts().items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
