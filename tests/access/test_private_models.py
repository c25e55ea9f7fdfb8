"""What a private model tells one caller is never another's, through no cache."""

import httpx
import pytest

from fitgauge.settings import Settings
from hub_stand_in import HubStandIn, llama_config, safetensors_repository
from hub_stand_in.server import TOKEN
from live import PATIENCE, serving

MINE, NOBODYS, STRANGERS = {"X-HF-Token": TOKEN}, {}, {"X-HF-Token": "hf_stranger"}
PRIVATE = "acme/private"
LAYERS = 3
"""of the private model, as nothing else has"""
FP8 = llama_config(quantization_config={"quant_method": "fp8"})


@pytest.fixture(scope="module")
def stand_in():
    with HubStandIn(
        safetensors_repository(PRIVATE, llama_config(num_hidden_layers=LAYERS), private=True),
        safetensors_repository("acme/tiny"),
        safetensors_repository("acme/tiny-FP8", FP8, quantizes="acme/tiny", private=True),
        safetensors_repository("meta-llama/Llama-3.1-8B", llama_config(), gated=True),
    ) as hub:
        yield hub


@pytest.fixture
def http(stand_in):
    """Provide a service without memory of earlier tests."""
    settings = Settings(
        log_level="warning", question_seconds=PATIENCE, caller_hub_tokens=True, mcp=False
    )
    with serving(stand_in, settings) as url, httpx.Client(base_url=url, timeout=PATIENCE) as opened:
        yield opened


WAYS = {
    "fit": ("POST", "/v1/fit", {"model": PRIVATE, "gpu": "RTX 4090"}),
    "fit without a GPU": ("POST", "/v1/fit", {"model": PRIVATE}),
    "draft": (
        "POST",
        "/v1/fit",
        {"model": "acme/tiny", "gpu": "T4", "draft_model": PRIVATE, "speculative_tokens": 3},
    ),
    "picture": ("POST", "/v1/fit.svg", {"model": PRIVATE, "gpu": "RTX 4090"}),
    "picture by link": ("GET", f"/v1/fit.svg?model={PRIVATE}&gpu=H100", None),
    "model": ("GET", f"/v1/models/{PRIVATE}", None),
    "training": ("POST", "/v1/training-fit", {"model": PRIVATE, "gpu": "RTX 4090"}),
    "plan": ("POST", "/v1/training-plan", {"model": PRIVATE, "gpu": "H100", "gpu_count": 8}),
    "recommend": ("POST", "/v1/recommend", {"model": PRIVATE}),
    "compare": ("POST", "/v1/compare", {"models": [PRIVATE], "gpus": ["RTX 4090"]}),
    "tool": ("POST", "/tools/check_fit", {"model": PRIVATE, "gpu": "RTX 4090"}),
}


def answered(response):
    """Return whether the answer is one about the private model."""
    return response.status_code == 200 and '"answer":null' not in response.text


@pytest.mark.parametrize("way", WAYS)
def test_a_private_model_is_answered_with_its_token_alone(http, way):
    method, path, body = WAYS[way]
    order = [NOBODYS, MINE, NOBODYS, STRANGERS, MINE, NOBODYS]
    answers = [http.request(method, path, json=body, headers=who) for who in order]
    assert [answered(one) for one in answers] == [who is MINE for who in order]
    theirs = [one.text for one, who in zip(answers, order, strict=True) if who is not MINE]
    assert len({*theirs}) <= 2  # with a token and without: the hints differ


def test_a_permalink_is_answered_for_the_caller_who_follows_it(http):
    question = {"model": PRIVATE, "gpu": "RTX 4090"}
    answer_id = http.post("/v1/fit", json=question, headers=MINE).json()["answer_id"]
    statuses = [
        http.get(f"/v1/answers/{answer_id}", headers=who).status_code
        for who in (NOBODYS, MINE, STRANGERS)
    ]
    assert statuses == [404, 200, 404]


def test_a_gated_model_is_answered_from_the_snapshot_for_others(http):
    question = {"model": "meta-llama/Llama-3.1-8B", "gpu": "RTX 4090"}
    order = [NOBODYS, MINE, STRANGERS, NOBODYS, MINE]
    sources = [
        http.post("/v1/fit", json=question, headers=who).json()["model"]["source"] for who in order
    ]
    assert sources == ["snapshot", "hub", "snapshot", "snapshot", "hub"]


def test_a_private_checkpoint_is_suggested_to_nobody_else(http, stand_in):
    question = {"model": "acme/tiny", "gpu": "RTX 4090", "quantization": "fp8"}
    texts = [
        http.post("/v1/fit", json=question, headers=who).text
        for who in (MINE, NOBODYS, STRANGERS, NOBODYS)
    ]
    assert not [text for text in texts[1:] if "acme/tiny-FP8" in text]


def test_an_answer_to_a_caller_with_a_token_is_stored_by_no_shared_cache(http):
    for path in (f"/v1/models/{PRIVATE}", f"/v1/fit.svg?model={PRIVATE}&gpu=H100"):
        answer = http.get(path, headers=MINE)
        assert answer.headers["cache-control"].startswith("private")
        tag = answer.headers["etag"]
        assert http.get(path, headers={**MINE, "If-None-Match": tag}).status_code == 304
        assert http.get(path, headers={"If-None-Match": tag}).status_code == 404


def test_the_header_is_ignored_where_callers_may_send_no_token(stand_in):
    with (
        serving(stand_in, Settings(log_level="warning", mcp=False)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as http,
    ):
        assert http.get(f"/v1/models/{PRIVATE}", headers=MINE).status_code == 404


@pytest.mark.parametrize("token", ["", "two words", "x" * 201])
def test_what_is_no_token_is_refused_or_none(http, token):
    answer = http.get("/v1/models/acme/tiny", headers={"X-HF-Token": token})
    assert answer.status_code == (401 if token else 200)


def test_the_callers_token_is_in_no_answer_and_no_log(http, caplog, capfd):
    caplog.set_level("DEBUG")
    answers = [
        http.request(method, path, json=body, headers=who)
        for method, path, body in WAYS.values()
        for who in (MINE, STRANGERS)
    ]
    out = capfd.readouterr()
    texts = [answer.text for answer in answers] + [out.out, out.err]
    texts += [
        record.getMessage() for record in caplog.records if not record.name.startswith("http")
    ]
    assert not [text for text in texts if TOKEN in text or "hf_stranger" in text]
