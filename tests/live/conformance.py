"""Holds a response to the OpenAPI document: its status, media type, headers and body are those
that the document promises."""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from fitgauge.api.manifests import manifests
from fitgauge.api.media_types import NDJSON
from fitgauge.api.openapi import document
from fitgauge.api.tools_document import tools_document


@dataclass(frozen=True)
class Operation:
    """One operation of the OpenAPI document."""

    method: str
    path: str
    raw: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.raw["operationId"])

    @property
    def parameters(self) -> list[dict[str, Any]]:
        return self.raw.get("parameters", [])

    @property
    def request(self) -> str | None:
        """Name of the schema of its JSON body."""
        body = self.raw.get("requestBody")
        return body and body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]

    @property
    def examples(self) -> dict[str, Any]:
        """Examples of its JSON body, by name."""
        body = self.raw.get("requestBody")
        examples = body["content"]["application/json"]["examples"] if body else {}
        return {name: example["value"] for name, example in examples.items()}


OPERATIONS = [
    Operation(method.upper(), path, raw)
    for path, methods in document()["paths"].items()
    for method, raw in methods.items()
]
UNDOCUMENTED = (
    "/.well-known/oauth-protected-resource/mcp",
    "/mcp",
    "/metrics",
    "/schema/openapi.json",
    "/tools/openapi.json",
    "/tools/openapi-3.0.json",
    *(f"/tools/{host}.json" for host in manifests()),
)
"""Paths that speak a protocol of their own, or answer a document."""


@cache
def validator(name):
    """Of one schema of the document's components."""
    registry = Registry().with_resource("urn:document", DRAFT202012.create_resource(document()))
    return Draft202012Validator(
        {"$ref": f"urn:document#/components/schemas/{name}"}, registry=registry
    )


def operation_at(method, path):
    """Return the operation that answers there; None where the document has none."""
    for template, methods in document_paths().items():
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path):
            return methods.get("get" if method == "HEAD" else method.lower())
    return None


@cache
def document_paths():
    return document()["paths"]


def conform(response: httpx.Response) -> None:
    """Raise AssertionError where the response is none that the document allows."""
    response.read()
    path = response.request.url.path
    status, media_type = response.status_code, response.headers.get("content-type")
    assert status < 500 or status == 503, response.text
    if path in UNDOCUMENTED or response.request.method == "OPTIONS":
        return
    if path.startswith("/tools/") and status != 405:
        conform_tool(response)
        return
    operation = operation_at(response.request.method, path)
    if operation is None:
        assert status in (404, 405, 429)
        schema, headers = "Problem", {}
        assert media_type == "application/problem+json"
    else:
        promised = operation["responses"][str(status)]
        assert media_type in promised["content"]
        content = promised["content"][media_type]
        schema, headers = content["schema"]["$ref"].rpartition("/")[2], promised.get("headers", {})
    for name, header in headers.items():
        assert name in response.headers or not header.get("required")
    if response.request.method != "HEAD":
        for body in (
            map(json.loads, response.text.splitlines())
            if media_type == NDJSON
            else [response.json()]
        ):
            validator(schema).validate(body)
        if schema == "Problem":
            problem = response.json()
            assert problem["status"] == status
            assert all(problem[part] for part in ("type", "title", "detail", "hint"))
            assert not re.search(
                r"/usr/|/home/|/root/|site-packages|Traceback|\.py\b", response.text
            )


def conform_tool(response: httpx.Response) -> None:
    """Raise AssertionError where the response of a tool is none that its document allows."""
    path, status = response.request.url.path, response.status_code
    paths = tools_document()["paths"]
    responses = paths.get(path, next(iter(paths.values())))["post"]["responses"]
    assert path in paths or status in (404, 413, 429)
    promised = responses.get(str(status)) or responses[f"{status // 100}XX"]
    assert response.headers["content-type"] in promised["content"]
    schema = promised["content"]["application/json"]["schema"]
    Draft202012Validator(schema).validate(response.json())
