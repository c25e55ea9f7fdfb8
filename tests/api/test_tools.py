"""The tools over HTTP: their document, forgiving bodies, and errors that hold the next call."""

import json

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from fitgauge.api.openapi import weights
from fitgauge.api.tools_document import arguments_schema, tools_document
from fitgauge.services.tools.faces import OPTIONS, TOOLS
from fitgauge.settings import Settings
from live import client, serving

MOST_PARAMETERS = 8
MOST_TOKENS = 2_200
FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}


def nodes(node):
    """Return every object within a document."""
    if isinstance(node, dict):
        yield node
    for child in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from nodes(child)


def test_the_document_is_valid_and_plain():
    document = tools_document()
    OpenAPIV31SpecValidator(document).validate()
    assert document["servers"][0]["url"].startswith("http")
    assert {path.rpartition("/")[2] for path in document["paths"]} == set(TOOLS)
    assert all(
        path["post"]["description"].startswith(path["post"]["summary"])
        for path in document["paths"].values()
    )
    for node in nodes(document):
        assert not {"$ref", "anyOf", "oneOf", "allOf"} & set(node)
        assert not isinstance(node.get("type"), list)


def test_the_faces_are_small():
    sizes = []
    for tool in TOOLS.values():
        schema = arguments_schema(tool)
        assert len(set(schema["properties"]) - {OPTIONS}) <= MOST_PARAMETERS
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(set(field) == {"type", "description"} for field in schema["properties"].values())
        face = {"name": tool.name, "description": tool.description, "input_schema": schema}
        sizes.append(len(json.dumps(face, separators=(",", ":"))) / 3.6)
    assert sum(sizes) <= MOST_TOKENS


def test_the_served_document_names_the_address_it_is_read_at(http, stand_in):
    document = http.get("/tools/openapi.json").json()
    assert document == tools_document(str(http.base_url).rstrip("/"))
    settings = Settings(log_level="warning", public_url="https://fit.example.com/")
    with serving(stand_in, settings) as url, client(url) as opened:
        served = opened.get("/tools/openapi.json").json()
    assert served["servers"] == [{"url": "https://fit.example.com"}]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(FIT),
        json.dumps({"arguments": FIT}),
        json.dumps({"input": json.dumps(FIT)}),
        json.dumps(json.dumps(FIT)),
        json.dumps({"Model": "acme/tiny", "GPU": "rtx4090", "gpu_count": None, "options": ""}),
    ],
)
def test_a_call_is_answered_however_a_host_wraps_it(http, body):
    answer = http.post("/tools/check_fit", content=body, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == "acme/tiny"
    assert answer.json()["gpu"] == "RTX 4090"


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{", 400, "malformed-json"),
        ("", 400, "malformed-json"),
        ("[" * 3000, 400, "malformed-json"),
        (b"\xff", 400, "malformed-json"),
        ("[]", 422, "invalid-request"),
        ('"text"', 422, "invalid-request"),
        ("{}", 422, "missing-field"),
        (json.dumps({**FIT, "options": "frobnicate=1"}), 422, "unknown-value"),
        (json.dumps({**FIT, "gpu": "no such thing"}), 404, "unknown-gpu"),
        (json.dumps({**FIT, "model": "acme/gated"}), 403, "gated-model"),
        (json.dumps({**FIT, "gpu_count": 9999}), 422, "invalid-value"),
    ],
)
def test_an_error_has_the_status_of_v1_and_a_code(http, body, status, code):
    answer = http.post("/tools/check_fit", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert set(answer.json()) <= {"error", "code", "send", "or"}


def test_what_an_error_says_to_send_is_answered(http):
    sent = {"gpu": "RTX 4090"}
    error = http.post("/tools/check_fit", json=sent).json()
    assert "model" in error["send"]
    error = http.post("/tools/check_fit", json={**FIT, "quantization": "q4_k_x"}).json()
    again = http.post("/tools/check_fit", json={**FIT, **error["send"]})
    assert again.status_code == 200


def test_an_unknown_tool_is_answered_with_the_tools(http):
    answer = http.post("/tools/checkfit", json=FIT)
    assert answer.status_code == 404
    assert answer.json()["or"][0] == "check_fit"
    assert set(answer.json()["or"]) == set(TOOLS)


def test_another_media_type_is_refused(http):
    answer = http.post("/tools/check_fit", content="x", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert answer.json()["code"] == "unsupported-media-type"


def test_a_tool_weighs_what_its_operation_weighs():
    assert weights()["/tools/compare_fit"] == weights()["/v1/compare"] > 1
