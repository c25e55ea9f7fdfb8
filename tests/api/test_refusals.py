"""What a bad request gets: the right status, and a problem that tells what to send instead."""

import json

import pytest

from fitgauge import errors
from fitgauge.api.problems import STATUS
from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving
from refusals import GOOD, JSON, refused


@pytest.mark.parametrize(
    ("path", "fields", "status", "code"),
    [
        ("fit", {"context_length": "8k"}, 422, "invalid-request"),
        ("fit", {"gpu": "RTX 4095"}, 404, "unknown-gpu"),
        ("fit", {"model": "no/such"}, 404, "unknown-model"),
        ("fit", {"engine": "foo"}, 422, "unknown-engine"),
        ("fit", {"quantization": "foo"}, 422, "unknown-quantization"),
        ("fit", {"kv_cache_dtype": "foo"}, 422, "unknown-kv-cache-dtype"),
        ("fit", {"engine_version": "0.0.1"}, 422, "unsupported-version"),
        ("fit", {"tensor_parallel": 3}, 422, "impossible-degrees"),
        ("training-fit", {"tensor_parallel": 3}, 422, "impossible-degrees"),
        ("training-fit", {"trainer": "foo"}, 422, "unknown-trainer"),
        ("training-fit", {"optimizer": "foo"}, 422, "unknown-value"),
        ("training-fit", {"algorithm": "sft", "reference": "resident"}, 422, "impossible-request"),
        ("no-such-path", {}, 404, "unknown-path"),
    ],
)
def test_an_error_has_a_code(http, path, fields, status, code):
    response = http.post(f"/v1/{path}", json={**GOOD, **fields})
    assert (response.status_code, response.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"model": "acme/tiny", "gpu": ',
        b'{"model": "acme/tiny", "gpu": "RTX 4090"} x',
        b"model=acme/tiny&gpu=4090",
        b'\xef\xbb\xbf{"model": "acme/tiny", "gpu": "RTX 4090"}',
        b'{"model": "\xff", "gpu": "RTX 4090"}',
        b'{"\xff": 1}',
        b"\xff\xfe",
        b'{"model": "\\ud800", "gpu": "RTX 4090"}',
        b'{"model": "acme/tiny", "gpu": "RTX 4090", "gpu_memory_utilization": NaN}',
        b'{"model": "acme/tiny", "gpu": "RTX 4090", "gpu_memory_utilization": Infinity}',
        b'{"model": "acme/tiny", "gpu": "RTX 4090", "gpu_memory_utilization": -Infinity}',
        b'{"gpu": "\xff", "gpu_count": "5"}',
        b'{"gpu_count": "5", "gpu": "\xff"}',
        b'{"gpu_count": "5", "gpu": ',
    ],
)
def test_a_body_that_is_no_json_is_a_400(http, body):
    response = http.post("/v1/fit", content=body, headers=JSON)
    problem = refused(response, 400, "malformed-json")
    assert "object" in problem["hint"]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"model": ' * 6_000,
        b'{"gpu_count": "5", "x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"gpu_count": "5", "gpu": ' + b'{"a": ' * 9_000,
        b'{"model": "acme/tiny", "gpu": "RTX 4090", "x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
def test_deep_nesting_is_refused(http, body):
    assert http.post("/v1/fit", content=body, headers=JSON).status_code in (400, 422)


@pytest.mark.parametrize("body", [b"null", b"[]", b'"RTX 4090"', b"5", b"true"])
def test_json_that_is_no_object_is_a_422(http, body):
    assert (
        '"gpu"'
        in refused(http.post("/v1/fit", content=body, headers=JSON), 422, "invalid-request")["hint"]
    )


@pytest.mark.parametrize(
    "declared",
    [
        "text/plain",
        "application/msgpack",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "",
    ],
)
def test_a_body_declared_as_something_else_is_a_415(http, declared):
    response = http.post("/v1/fit", content=json.dumps(GOOD), headers={"content-type": declared})
    assert "application/json" in refused(response, 415, "unsupported-media-type")["hint"]


def test_a_body_without_a_declaration_is_a_415(http):
    refused(http.post("/v1/fit", content=json.dumps(GOOD)), 415, "unsupported-media-type")


def test_an_answered_question_needs_its_declaration_again(http):
    assert http.post("/v1/fit", json=GOOD).status_code == 200
    asked = http.post("/v1/fit", json=GOOD).request.content
    refused(http.post("/v1/fit", content=asked), 415, "unsupported-media-type")


def test_a_form_that_holds_no_object_is_a_415(http):
    refused(http.post("/v1/fit", data=GOOD), 415, "unsupported-media-type")


@pytest.mark.parametrize("size", [64 * 1024 + 1, 100_000_000])
def test_a_large_body_is_a_413(http, size):
    response = http.post("/v1/fit", content=b" " * size, headers=JSON)
    assert response.status_code == 413
    assert response.json()["hint"]


def test_a_large_body_in_chunks_is_a_413(http):
    response = http.post("/v1/fit", content=(b" " * 1024 for _ in range(500)), headers=JSON)
    assert response.status_code == 413


NUMBERS = {
    "gpu_count": ("4", "4"),
    "context_length": ("32,768", "32768"),
    "concurrency": (" 8 ", "8"),
    "tensor_parallel": ("2.0", "2"),
    "max_batched_tokens": ("1e3", "1000"),
    "max_num_seqs": ("1_024", "1024"),
    "gpu_memory_utilization": ("0.9", "0.9"),
    "cpu_offload_gib": ("-1", "-1"),
}


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_sent_as_text_is_a_422_that_holds_the_number(ask, field):
    text, number = NUMBERS[field]
    problem = refused(ask(**{field: text}), 422, "invalid-request")
    assert problem["field"] == field
    assert f'"{field}": {number}.' in problem["hint"]


@pytest.mark.parametrize(
    "text", ["32k", "", "many", "1e999", "9" * 5000, "\x00", "null", "[1]", "NaN"]
)
def test_a_text_that_is_no_number_is_a_422_all_the_same(ask, text):
    problem = refused(ask(context_length=text), 422, "invalid-request")
    assert problem["field"] == "context_length"
    assert "without quotes" in problem["hint"]


@pytest.mark.parametrize(
    "field,raw",
    [
        ("gpu_count", "0"),
        ("gpu_count", "-1"),
        ("gpu_count", "1.5"),
        ("gpu_count", "4097"),
        ("gpu_count", "true"),
        ("gpu_count", "[1]"),
        ("gpu_count", "{}"),
        ("gpu_count", "9223372036854775808"),
        ("gpu_count", "18446744073709551616"),
        ("gpu_count", "9" * 5000),
        ("context_length", "1e400"),
        ("context_length", "100000001"),
        ("tensor_parallel", "1025"),
        ("gpu_memory_utilization", "1e400"),
        ("gpu_memory_utilization", "-1e400"),
        ("gpu_memory_utilization", "0"),
        ("gpu_memory_utilization", "1.0000001"),
        ("cpu_offload_gib", "-0.1"),
        ("kv_cache_memory_gib", "0"),
        ("other_memory_gib", "-0.1"),
        ("enforce_eager", '"true"'),
        ("enforce_eager", "1"),
        ("detail", '"everything"'),
        ("model", '""'),
        ("model", "null"),
        ("model", "7"),
        ("model", json.dumps("x" * 201)),
        ("gpu", json.dumps("x" * 201)),
        ("engine", '""'),
    ],
)
def test_a_value_out_of_type_or_bounds_is_a_422_that_names_the_field(http, field, raw):
    fields = {name: json.dumps(value) for name, value in GOOD.items()} | {field: raw}
    body = "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
    problem = refused(http.post("/v1/fit", content=body, headers=JSON), 422, "invalid-request")
    assert problem["field"] == field


@pytest.mark.parametrize(
    ("operation", "missing"),
    [("fit", "model"), ("training-plan", "gpu"), ("training-fit", "model")],
)
def test_a_missing_field_is_a_422_that_names_it(http, operation, missing):
    fields = {name: value for name, value in GOOD.items() if name != missing}
    problem = refused(http.post(f"/v1/{operation}", json=fields), 422, "invalid-request")
    assert problem["field"] == missing
    assert f'"{missing}"' in problem["hint"]


def test_a_misspelt_field_is_a_422_that_names_the_right_one(ask):
    problem = refused(ask(context_lenght=4096), 422, "invalid-request")
    assert problem["field"] == "context_lenght"
    assert problem["matches"][0] == "context_length"


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/fits", "/v2/fit", "/v1/models/acme", "/v1/models/a/b/c", "/.env", "/v1/fit/x"],
)
def test_an_unknown_path_is_a_404(http, path):
    assert http.get(path).status_code == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "TRACE"])
def test_another_method_is_a_405_that_names_the_right_one(http, method):
    response = http.request(method, "/v1/fit")
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "limit=1&limit=2",
        "offset=-1",
        "offset=1e3",
        "limit=٣",
        "a=%ff",
    ],
)
def test_a_bad_query_is_a_422(http, query):
    problem = refused(http.get(f"/v1/gpus?{query}"), 422, "invalid-request")
    assert problem["field"]


def test_a_misspelt_query_parameter_is_not_ignored(http):
    problem = refused(http.get("/v1/gpus?ofset=3"), 422, "invalid-request")
    assert problem["matches"] == ["offset"]


def test_beyond_the_rate_a_request_is_a_429_and_health_is_not(stand_in):
    with (
        serving(stand_in, Settings(requests_per_second=2, log_level="warning")) as url,
        client(url) as http,
    ):
        responses = [http.get("/v1/gpus/rtx-4090") for _ in range(10)]
        refusals = [response for response in responses if response.status_code != 200]
        assert len(refusals) >= 6
        for response in refusals:
            refused(response, 429, "too-many-requests")
            assert int(response.headers["retry-after"]) >= 1
        assert all(
            http.get(path).status_code == 200
            for path in ("/health/live", "/health/ready", "/metrics")
            for _ in range(5)
        )


def test_without_the_hub_an_unknown_model_is_a_424_and_a_known_one_is_answered():
    with (
        HubStandIn(safetensors_repository("acme/tiny")) as hub,
        serving(hub, wait_seconds=0.3) as url,
        client(url) as http,
    ):
        hub.fault("acme/other", drop=True)
        refused(http.post("/v1/fit", json={**GOOD, "model": "acme/other"}), 424, "hub-unreachable")
        hub.fault(drop=True)
        answer = http.post("/v1/fit", json={**GOOD, "model": "Qwen/Qwen3-32B"}).json()
        assert answer["model"]["source"] == "snapshot"
        assert answer["warnings"][0]["code"] == "answered-from-snapshot"


def test_a_busy_hub_is_a_424_that_says_when_to_come_back():
    with HubStandIn() as hub, serving(hub, wait_seconds=0.3) as url, client(url) as http:
        hub.fault(status=429, headers={"Retry-After": "7"})
        response = http.post("/v1/fit", json={**GOOD, "model": "acme/other"})
        refused(response, 424, "hub-busy")
        assert int(response.headers["retry-after"]) >= 1


def test_every_error_raised_on_purpose_has_a_status():
    def leaves(kind):
        return [leaf for child in kind.__subclasses__() for leaf in leaves(child)] or [kind]

    assert set(STATUS) == {
        kind for kind in leaves(errors.FitgaugeError) if kind.__module__ == errors.__name__
    }


@pytest.mark.parametrize(
    ("field", "sent", "said"),
    [
        ("attention", "flash_attention_2", "Send eager, flash, flex or sdpa."),
        ("offload", "gpu", "Send cpu, none, nvme, optimizer or parameters."),
        ("zero_stage", 4, "Send a whole number from 0 to 3."),
        ("gpu_count", 2.5, "Send a whole number from 1 to 4096."),
        ("rollout_memory_utilization", 1.5, "Send a number above 0 to 1."),
    ],
)
def test_a_value_beyond_those_a_field_takes_is_a_422_that_holds_them(http, field, sent, said):
    response = http.post("/v1/training-fit", json={"model": "7b", "gpu": "H100", field: sent})
    problem = refused(response, 422, "invalid-request")
    assert problem["field"] == field
    assert problem["hint"].startswith(said)
