"""The OpenAPI document and the tool manifests: valid, committed, complete, and within the limits
of those that read them."""

import asyncio
import gc
import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from litestar import Litestar
from openapi_spec_validator import OpenAPIV31SpecValidator

from fitgauge.api import openapi
from fitgauge.api.application import Application
from fitgauge.api.controllers import CONTROLLERS
from fitgauge.api.dependencies import dependencies
from fitgauge.api.export import artefacts
from fitgauge.api.openapi import document
from fitgauge.api.request_parsing import ApiRequest
from live.conformance import OPERATIONS

COMMITTED = Path(__file__).parents[2] / "openapi"
BODIES = [operation for operation in OPERATIONS if operation.request]
SCHEMAS, ARTEFACTS = document()["components"]["schemas"], artefacts()


def by_id(operation):
    return operation.id


def test_the_document_is_valid_openapi():
    OpenAPIV31SpecValidator(document()).validate()


@pytest.mark.parametrize("name", ARTEFACTS)
def test_what_is_committed_is_what_the_code_says(name):
    assert json.loads((COMMITTED / name).read_text("utf-8")) == ARTEFACTS[name], "run: make openapi"


def test_nothing_else_is_committed():
    assert {str(path.relative_to(COMMITTED)) for path in COMMITTED.rglob("*.json")} == set(
        ARTEFACTS
    )


def test_the_service_answers_its_own_document(http):
    assert http.get("/schema/openapi.json").json() == document()


def test_every_route_is_an_operation_and_every_operation_a_route():
    application = Litestar(
        CONTROLLERS, dependencies=dependencies(), request_class=ApiRequest, openapi_config=None
    )
    routes = {
        (method, route.path_format)
        for route in application.routes
        for method in route.methods - {"OPTIONS"}
    }
    documented = {(operation.method, operation.path) for operation in OPERATIONS}
    assert routes == documented


def test_names_are_unique_and_short():
    names = [operation.id for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]{0,63}", name) for name in names)


@pytest.mark.parametrize("operation", OPERATIONS, ids=by_id)
def test_summary_and_description_are_there_and_short(operation):
    assert 1 <= len(operation.raw["summary"]) <= 300
    assert 1 <= len(operation.raw["description"]) <= 300


@pytest.mark.parametrize("operation", OPERATIONS, ids=by_id)
def test_no_operation_mixes_a_body_with_parameters(operation):
    """Open WebUI sends all arguments of a POST as its body."""
    assert not (operation.request and operation.parameters)


def nodes(schema, path=""):
    """Return every schema within a schema, with its place."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}/{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}/{key}")
    for option in schema.get("anyOf", ()):
        yield from nodes(option, f"{path}/anyOf")


def test_every_schema_says_its_type():
    for name, component in SCHEMAS.items():
        for path, schema in nodes(component, name):
            assert "type" in schema or "$ref" in schema or "anyOf" in schema, path


def test_a_choice_of_schemas_is_between_one_enum_or_reference_and_null():
    for name, component in SCHEMAS.items():
        for path, schema in nodes(component, name):
            if "anyOf" in schema:
                first, second = schema["anyOf"]
                assert "enum" in first or "$ref" in first, path
                assert second == {"type": "null"}, path


def test_no_enum_holds_a_null():
    """Open WebUI joins the values of an enum into a sentence."""
    for name, component in SCHEMAS.items():
        for path, schema in nodes(component, name):
            assert all(isinstance(value, str) for value in schema.get("enum", ())), path


def test_whole_bounds_are_whole_numbers():
    for component in SCHEMAS.values():
        for path, schema in nodes(component):
            kinds = schema.get("type")
            if (
                "integer" in (kinds if isinstance(kinds, list) else [kinds])
                and "number" not in kinds
            ):
                assert all(
                    isinstance(schema.get(key, 0), int) for key in ("minimum", "maximum", "default")
                ), path


@pytest.mark.parametrize("operation", BODIES, ids=by_id)
def test_requests_are_closed_and_flat(operation):
    schema = SCHEMAS[operation.request]
    assert schema["additionalProperties"] is False
    assert "$ref" not in json.dumps(schema)
    assert not any("properties" in field for field in schema["properties"].values())


EXAMPLES = [
    (operation, name, example)
    for operation in OPERATIONS
    for name, example in operation.examples.items()
]


@pytest.mark.parametrize(
    "operation,name,example",
    EXAMPLES,
    ids=[f"{operation.id}: {name}" for operation, name, _ in EXAMPLES],
)
def test_an_example_is_valid_and_answered(http, operation, name, example):
    Draft202012Validator(SCHEMAS[operation.request]).validate(example)
    assert http.request(operation.method, operation.path, json=example).status_code == 200


@pytest.mark.parametrize(
    "operation", [operation for operation in OPERATIONS if operation.parameters], ids=by_id
)
def test_the_example_of_every_parameter_is_valid_and_answered(http, operation):
    path = operation.path.format(
        **{parameter["name"]: parameter["example"] for parameter in operation.parameters}
    )
    query = {
        parameter["name"]: parameter["example"]
        for parameter in operation.parameters
        if parameter["in"] == "query"
    }
    for parameter in operation.parameters:
        Draft202012Validator(parameter["schema"]).validate(parameter["example"])
    assert http.get(path, params=query).status_code == 200


def test_the_examples_of_fields_are_valid():
    for operation in BODIES:
        for field in SCHEMAS[operation.request]["properties"].values():
            for example in field.get("examples", ()):
                Draft202012Validator(field).validate(example)


def test_the_largest_answers_are_small_enough_for_tool_hosts(http, ask):
    full = ask(model="70b", gpu="RTX 4090", gpu_count=1, detail="full").content
    assert len(full) < 100_000
    assert len(http.get("/v1/gpus").content) < 100_000


def test_what_the_document_was_made_of_is_freed_when_it_is_encoded():
    """It holds itself, and takes several times its size until the collector comes by."""
    gc.unfreeze()  # a service that ran in this process froze what was there
    gc.disable()
    try:
        openapi._application()
        before = _applications()
        asyncio.run(openapi.EncodedDocument("/").encoded())
    finally:
        gc.enable()
    assert _applications() < before


def _applications():
    return sum(type(each) is Application for each in gc.get_objects())
