"""ETag, Cache-Control and compression of what is read by GET."""

import pytest

from fitgauge.settings import Settings
from hub_stand_in import HubStandIn
from live import client, serving

READ = [
    "/v1/gpus?limit=2",
    "/v1/gpus/H100",
    "/v1/models/acme/tiny",
    "/v1/catalog",
    "/v1/accuracy",
    "/schema/openapi.json",
    "/tools/openai-chat.json",
]


@pytest.mark.parametrize("path", READ)
def test_an_answer_that_the_caller_has_is_not_sent_again(http, path):
    first = http.get(path)
    tag = first.headers["etag"]
    http.event_hooks = {}  # 304 is no answer of the document
    again = http.get(path, headers={"If-None-Match": f'"other", {tag}'})
    changed = http.get(path, headers={"If-None-Match": '"other"'})
    assert (first.status_code, again.status_code, changed.status_code) == (200, 304, 200)
    assert (again.content, again.headers["etag"]) == (b"", tag)
    assert "content-length" not in again.headers
    assert first.headers["cache-control"] == again.headers["cache-control"] == "no-cache"
    assert changed.content == first.content


def test_answers_that_differ_have_tags_that_differ(http):
    assert http.get("/v1/gpus/H100").headers["etag"] != http.get("/v1/gpus/A100").headers["etag"]


def test_probes_and_metrics_are_never_stored(http):
    for path in ("/health/live", "/health/ready", "/metrics"):
        headers = http.get(path).headers
        assert (headers["cache-control"], headers.get("etag")) == ("no-store", None)


def test_questions_and_refusals_have_no_tag(http):
    for answer in (
        http.post("/v1/fit", json={"model": "acme/tiny", "gpu": "T4"}),
        http.get("/v1/gpus/none"),
    ):
        assert "etag" not in answer.headers


def test_a_head_has_the_headers_of_its_get(http):
    head, get = http.head("/v1/gpus/H100"), http.get("/v1/gpus/H100")
    assert head.headers["etag"] == get.headers["etag"]
    assert head.content == b""


def test_compression_is_a_setting_and_keeps_the_tag():
    sent = {"Accept-Encoding": "gzip"}
    with (
        HubStandIn() as hub,
        serving(hub) as plain,
        serving(hub, Settings(compression=True)) as compressing,
        client(plain) as one,
        client(compressing) as other,
    ):
        assert "content-encoding" not in one.get("/v1/gpus", headers=sent).headers
        packed = other.get("/v1/gpus", headers=sent)
        assert packed.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in packed.headers["vary"].lower()
        other.event_hooks = {}
        seen = sent | {"If-None-Match": packed.headers["etag"]}
        assert other.get("/v1/gpus", headers=seen).status_code == 304


def test_no_other_site_may_read_answers(http):
    http.event_hooks = {}
    sent = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    for answer in (http.get("/v1/gpus", headers=sent), http.options("/v1/fit", headers=sent)):
        assert not [name for name in answer.headers if name.startswith("access-control-")]
