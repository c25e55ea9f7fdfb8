"""Dify's rule for OpenAPI tools, as its parser states it (api/core/tools/utils/parser.py).

Dify has no package to import. It takes the first server's URL and the path as they are, reads the
properties of a body on the top level alone, looks their `type` up in a set (a list is an error),
knows string, integer, number and boolean, and takes the last content type of a body."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitgauge.api.tools_document import tools_document
from fitgauge.services.tools.faces import OPTIONS, TOOLS

KINDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


class ImportRefusedError(Exception):
    """Dify would raise, or drop a parameter's type."""


def imported(document: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the parameters of every tool with Dify's kind of each."""
    url = document["servers"][0]["url"]
    if not url.startswith(("http://", "https://")):
        raise ImportRefusedError(f"{url} is not absolute")
    return {
        operation["operationId"]: body_parameters(operation)
        for methods in document["paths"].values()
        for operation in methods.values()
    }


def body_parameters(operation: dict[str, Any]) -> dict[str, str]:
    """Return the parameters of one operation."""
    (*_, content) = operation["requestBody"]["content"].values()
    kinds = {}
    for name, field in content["schema"].get("properties", {}).items():
        kind = field.get("type")
        if not isinstance(kind, str) or kind not in KINDS:
            raise ImportRefusedError(f"{name} has the type {kind}")
        kinds[name] = KINDS[kind]
    return kinds


servers = st.from_regex(
    r"https?://[a-z]{1,20}(\.[a-z]{2,5})?(:[1-9][0-9]{1,3})?/{0,2}", fullmatch=True
)
names = st.sampled_from(list(TOOLS))


@settings(max_examples=20)
@given(servers)
def test_every_tool_is_imported_with_every_parameter(server):
    assert imported(tools_document(server)) == {
        name: {parameter.name: KINDS[parameter.type] for parameter in tool.parameters}
        | ({OPTIONS: "string"} if tool.options else {})
        for name, tool in TOOLS.items()
    }


@settings(max_examples=30)
@given(names, st.sampled_from([{"type": ["string", "null"]}, {"$ref": "#/x"}, {"anyOf": []}]))
def test_a_list_of_types_a_reference_or_a_choice_is_refused(name, field):
    document = copy.deepcopy(tools_document())
    content = document["paths"][f"/tools/{name}"]["post"]["requestBody"]["content"]
    content["application/json"]["schema"]["properties"]["model"] = field
    with pytest.raises(ImportRefusedError):
        imported(document)
