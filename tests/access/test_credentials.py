"""Who gets in: with a key, a token or a gateway's word, and nobody else."""

import json
import re

import pytest

from identity_provider import asked, bearer

CLOSED = [
    ("GET", "/v1/gpus"),
    ("GET", "/v1/models/acme/tiny"),
    ("POST", "/v1/fit"),
    ("POST", "/v1/fit.svg"),
    ("GET", "/v1/fit.svg?model=7b&gpu=H100"),
    ("POST", "/v1/compare"),
    ("POST", "/tools/check_fit"),
    ("GET", "/tools/openapi.json"),
    ("GET", "/schema/openapi.json"),
    ("GET", "/metrics"),
    ("POST", "/mcp"),
    ("GET", "/"),
    ("GET", "/web/state.js"),
    ("OPTIONS", "/v1/fit"),
]


@pytest.mark.parametrize("method, path", CLOSED)
def test_without_credentials_nothing_is_answered(everything, method, path):
    everything.event_hooks = {}
    refused = everything.request(method, path, json={} if method == "POST" else None)
    assert (refused.status_code, refused.json()["code"]) == (401, "missing-credentials")
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["www-authenticate"].startswith('Bearer realm="fitgauge"')


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
def test_probes_need_no_credentials(everything, path):
    assert everything.get(path).status_code == 200


def test_metrics_are_open_where_that_is_set(guarded, keys_file):
    with guarded(api_keys=str(keys_file[0]), open_metrics=True) as http:
        assert http.get("/metrics").status_code == 200
        assert asked(http).status_code == 401


@pytest.mark.parametrize("name", ["ci", "slack"])
def test_a_key_lets_in_by_either_header(everything, keys_file, name):
    key = keys_file[1][name]
    for headers in (bearer(key), {"X-API-Key": key}, {"Authorization": f"bearer {key}"}):
        assert asked(everything, headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "fg_wrong"},
        {"X-API-Key": ""},
        {"X-API-Key": "x" * 5000},
        bearer("fg_" + "A" * 43),
        bearer("nonsense"),
        bearer("a.b.c"),
        {"Authorization": "Bearer"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "fg_bare"},
    ],
)
def test_invalid_credentials_are_refused_without_being_repeated(everything, headers):
    refused = asked(everything, headers)
    assert (refused.status_code, refused.json()["code"]) == (401, "invalid-credentials")
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    sent = next(iter(headers.values())).rpartition(" ")[2]
    assert len(sent) < 9 or sent not in refused.text


def test_credentials_that_are_sent_twice_are_refused(everything, keys_file):
    key = keys_file[1]["ci"]
    for name in ("Authorization", "X-API-Key"):
        value = f"Bearer {key}" if name == "Authorization" else key
        refused = everything.get("/v1/gpus", headers=[(name, value), (name, value)])
        assert refused.status_code == 401


def test_a_key_that_is_valid_does_not_excuse_a_wrong_one_where_anybody_may_ask(guarded, keys_file):
    with guarded(api_keys=str(keys_file[0]), anonymous=True) as http:
        assert asked(http).status_code == 200
        assert asked(http, bearer("fg_wrong")).status_code == 401


def test_a_gateways_header_is_ignored_from_anybody_else(everything):
    # this machine is 127.0.0.1, the trusted gateway 127.0.0.2
    for headers in (
        {"X-Auth-User": "root"},
        {"X-Auth-User": "root", "X-Forwarded-For": "127.0.0.2"},
        {"X-Auth-User": "root", "Forwarded": "for=127.0.0.2", "X-Real-IP": "127.0.0.2"},
        {"X_Auth_User": "root"},
    ):
        assert asked(everything, headers).json()["code"] == "missing-credentials"


def test_a_trusted_gateway_names_the_caller(guarded, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    with guarded(caller_header="X-Auth-User") as http:
        assert asked(http, {"X-Auth-User": "alice@example.com"}).status_code == 200
        assert asked(http).status_code == 401
        for wrong in ("", "two words", "x" * 201, "ümlaut".encode()):
            assert asked(http, {"X-Auth-User": wrong}).status_code == 401
        twice = [("X-Auth-User", "alice"), ("X-Auth-User", "root")]
        assert http.get("/v1/gpus", headers=twice).status_code == 401
    assert 'caller="gateway:alice@example.com"' in caplog.text
    assert "root" not in caplog.text


def test_every_decision_is_one_line_that_holds_no_credentials(everything, keys_file, caplog):
    caplog.set_level("INFO", "fitgauge.audit")
    key = keys_file[1]["ci"]
    asked(everything, bearer(key) | {"X-Request-ID": "edge-1"})
    asked(everything, bearer("fg_planted") | {"X-Request-ID": "edge-2"})
    asked(everything, {"X-Request-ID": "edge-3"})
    everything.get("/health/live")
    lines = [one.getMessage() for one in caplog.records if one.name == "fitgauge.audit"]
    passed = "peer=127.0.0.1 method=POST route=/v1/fit request_id="
    assert lines == [
        f'decision=allowed caller="api-key:ci" {passed}edge-1',
        f'decision=refused caller="unknown" {passed}edge-2 status=401 code=invalid-credentials',
        f'decision=refused caller="unknown" {passed}edge-3 status=401 code=missing-credentials',
    ]
    assert not re.search(f"{key}|planted", caplog.text)


def test_answers_are_stored_by_no_cache_that_callers_share(everything, keys_file):
    answer = everything.get("/v1/gpus", headers=bearer(keys_file[1]["ci"]))
    assert answer.headers["cache-control"] == "private, no-cache"


def test_the_line_of_a_request_names_its_caller(guarded, keys_file, capfd):
    ci = bearer(keys_file[1]["ci"])
    settings = {"api_keys": str(keys_file[0]), "log_level": "info", "log_format": "json"}
    with guarded(**settings, mcp=False) as http:
        asked(http, ci)
        asked(http)
        http.get("/health/live")
    err = capfd.readouterr().err
    lines = [json.loads(line) for line in err.splitlines() if '"fitgauge.access"' in line]
    assert [line.get("caller") for line in lines] == ["api-key:ci", None, None]
    assert keys_file[1]["ci"] not in err
