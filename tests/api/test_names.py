"""Names while somebody types: the snapshot's at once, the Hub's where it answers in time."""

import pytest

from fitgauge.services.common.hub_names import _UNDER_WAY
from hub_stand_in import HubStandIn, safetensors_repository
from live import client, serving


@pytest.fixture
def hub():
    with HubStandIn(
        safetensors_repository("acme/qwen3-8b-tuned", downloads=3),
        safetensors_repository("other/Qwen3-8B-rare", downloads=9),
        safetensors_repository("Qwen/Qwen3-8B", downloads=99),
        safetensors_repository("acme/qwen3-8b-private", private=True),
    ) as stand_in:
        yield stand_in


@pytest.fixture
def search(hub):
    """Search names; keywords are query parameters."""
    with serving(hub) as url, client(url) as http:
        yield lambda text, **query: http.get("/v1/names", params={"search": text, **query})


def listings(hub):
    return sum(request.path == "/api/models" for request in hub.requests)


def test_the_hubs_names_follow_those_of_the_snapshot(search, hub):
    alone = search("qwen3 8b").json()
    assert alone["models"][0] == "Qwen/Qwen3-8B"
    assert (alone["hub"], listings(hub)) == ([], 0)
    names = search("qwen3 8b", hub=True).json()
    assert names["models"] == alone["models"]
    assert names["hub"] == ["other/Qwen3-8B-rare", "acme/qwen3-8b-tuned"]


def test_the_same_words_are_asked_of_the_hub_once(search, hub):
    first = search("qwen3  8b", hub=True).json()
    assert search(" qwen3 8b", hub=True).json() == first
    assert listings(hub) == 1


@pytest.mark.parametrize("text", ["", "q", "  q8 "])
def test_a_letter_or_two_are_not_searched(search, hub, text):
    assert search(text, hub=True).json()["hub"] == []
    assert listings(hub) == 0


@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"status": 429}, {"drop": True}, {"hang": True}, {"body": b"<html>"}],
    ids=["fails", "busy", "drops", "hangs", "no list"],
)
def test_a_hub_without_an_answer_has_no_names(search, hub, fault):
    hub.fault("/api/models", **fault)
    response = search("qwen3 8b", hub=True)
    assert response.status_code == 200
    assert response.json()["models"][0] == "Qwen/Qwen3-8B"
    assert response.json()["hub"] == []


def test_searches_that_hang_are_few(search, hub):
    hub.fault("/api/models", hang=True)
    for number in range(_UNDER_WAY + 2):
        assert search(f"qwen3 {number}", hub=True).json()["hub"] == []
    assert listings(hub) <= _UNDER_WAY


def test_offline_the_hub_is_not_asked(hub):
    with serving(hub, offline=True) as url, client(url) as http:
        names = http.get("/v1/names", params={"search": "qwen3 8b", "hub": True}).json()
    assert names["hub"] == []
    assert hub.requests == []


@pytest.mark.parametrize("value", ["AAA", "1", "True", ""])
def test_a_switch_is_true_or_false(hub, value):
    with serving(hub) as url, client(url) as http:
        refused = http.get("/v1/names", params={"hub": value})
    assert (refused.status_code, refused.json()["field"]) == (422, "hub")
