"""The OpenAPI 3.1 document, made from the table of operations and the structs of the contract."""

from typing import Any

import msgspec

from fitgauge import __version__
from fitgauge.api.operations import NDJSON, OPERATIONS, Operation
from fitgauge.api.problems import PROBLEM_JSON
from fitgauge.services.common.schemas import Problem

_REASONS = {
    400: "The body is not JSON.",
    403: "The Hub shows this model only to a token that was granted access.",
    404: "No such model, accelerator or path; see matches.",
    405: "The path knows other methods; see the Allow header.",
    413: "The body is too large.",
    415: "The body is not declared application/json.",
    422: "A value is missing, of the wrong type, out of bounds, or impossible; see hint.",
    424: "Only the Hub knows this model, and it gave no answer; see the Retry-After header.",
    429: "Too many requests; see the Retry-After header.",
    500: "A defect of the service.",
    503: "Too many long questions wait; see the Retry-After header.",
}
_SECONDS = {"type": "integer", "minimum": 1}
_RETRY_AFTER = {
    "Retry-After": {"description": "Seconds to wait.", "required": True, "schema": _SECONDS},
}
_HEADERS = {
    405: {
        "Allow": {
            "description": "The methods it knows.",
            "required": True,
            "schema": {"type": "string"},
        }
    },
    424: _RETRY_AFTER,
    429: _RETRY_AFTER,
    503: _RETRY_AFTER,
}
_ALWAYS = (405, 429, 500)


def document(server: str = "/") -> dict[str, Any]:
    """Return the whole document. server: the public address, where clients need an absolute one."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fitgauge",
            "version": __version__,
            "summary": "Will model X fit on GPU Y, and if not, what will?",
            "description": (
                "Memory estimates with evidence: every byte has a name, a formula, a basis and an"
                " interval. Sizes are bytes."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {"schemas": schemas()},
    }


def schemas() -> dict[str, Any]:
    """Return the schema of every struct of the contract, by its name."""
    sparse = {
        kind.__name__ for kind in _structs(msgspec.Struct) if kind.__struct_config__.omit_defaults
    }
    answers = _components([Problem, *(operation.answer for operation in OPERATIONS)])
    found = {
        name: schema if name in sparse else _always_sent(schema) for name, schema in answers.items()
    }
    found |= _components([operation.request for operation in OPERATIONS if operation.request])
    return {name: _plain(schema) for name, schema in sorted(found.items())}


def _components(kinds: list[type]) -> dict[str, Any]:
    return msgspec.json.schema_components(
        dict.fromkeys(kinds), ref_template="#/components/schemas/{name}"
    )[1]


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.description,
        "x-openai-isConsequential": False,
    }
    if operation.parameters:
        described["parameters"] = [
            {
                "name": p.name,
                "in": p.where,
                "required": p.required,
                "description": p.description,
                "schema": p.schema,
                "example": p.example,
            }
            for p in operation.parameters
        ]
    if operation.request:
        body: dict[str, Any] = {"schema": _reference(operation.request)}
        body["examples"] = {name: {"value": value} for name, value in operation.examples}
        files = {
            media: {"schema": {"type": "string", "format": "binary"}} for media in operation.uploads
        }
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": body, **files},
        }
    answers: dict[str, Any] = {
        "200": {
            "description": "The answer.",
            "content": {"application/json": {"schema": _reference(operation.answer)}},
        }
    }
    if operation.row:
        answers["200"]["content"][NDJSON] = {"schema": _reference(operation.row)}
    for status in sorted({*operation.errors, *_ALWAYS, *((503,) if operation.queued else ())}):
        answers[str(status)] = {
            "description": _REASONS[status],
            "content": {PROBLEM_JSON: {"schema": _reference(Problem)}},
        }
        if status in _HEADERS:
            answers[str(status)]["headers"] = _HEADERS[status]
    described["responses"] = answers
    return described


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _plain(schema: Any) -> Any:  # noqa: ANN401 - JSON is any
    """Return the schema as tool hosts read it best: every node has a `type`, and a choice between
    types is a list of types.

    A nullable enum stays a choice: hosts that join an enum's values into a sentence fail on a
    null among them."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _plain(value) for key, value in schema.items() if key != "default" or value is not None
    }
    if "enum" in plain:
        plain.setdefault("type", "string")
    options = plain.get("anyOf", [])
    if options and not any("enum" in option or "$ref" in option for option in options):
        del plain["anyOf"]
        plain |= {key: value for option in options for key, value in option.items()}
        plain["type"] = [option["type"] for option in options]
    return plain


def _always_sent(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer whose struct sends fields at their defaults too; callers
    may rely on them."""
    always = [name for name, field in schema.get("properties", {}).items() if "default" in field]
    return {**schema, "required": [*schema.get("required", ()), *always]}


def _structs(root: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    return [kind for child in root.__subclasses__() for kind in (child, *_structs(child))]
