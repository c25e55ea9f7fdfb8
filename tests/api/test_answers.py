"""What a good question gets."""

import json
import time

import pytest

from fitgauge.api.controllers.answers import EXAMPLE
from hub_stand_in import HubStandIn, llama_config, safetensors_repository
from live import client, every_gpu, serving
from live.conformance import OPERATIONS


def test_a_fit_answers_with_a_verdict_and_terms_that_add_up(ask):
    answer = ask().json()
    assert answer["verdict"] == "fits"
    assert (
        sum(term["bytes"] for term in answer["terms"])
        == answer["per_gpu"]["required_bytes"]["expected"]
    )
    assert answer["model"] == {
        "id": "acme/tiny",
        "parameters": 1_987_840,
        "source": "hub",
        "revision": answer["model"]["revision"],
        "max_context_length": 4096,
    }


def test_null_means_left_out(ask):
    assert ask(gpu_count=None, engine=None, detail=None).content == ask().content


def test_whole_numbers_of_a_histogram_may_be_written_with_a_point(http):
    body = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "lengths": {"512": 8.0, "1024": 2e1}}
    answer = http.post("/v1/training-fit", json=body)
    assert answer.status_code == 200
    assert answer.json()["run"]["tokens"] == 512 * 8 + 1024 * 20


def test_a_whole_number_may_be_written_with_a_point(http, ask):
    body = b'{"model": "acme/tiny", "gpu": "RTX 4090", "gpu_count": 2.0}'
    answer = http.post("/v1/fit", content=body, headers={"content-type": "application/json"})
    assert answer.json() == ask(gpu_count=2).json()


def test_the_last_of_duplicate_keys_counts(http):
    body = b'{"model": "acme/tiny", "gpu": "H100", "gpu": "RTX 4090"}'
    answer = http.post("/v1/fit", content=body, headers={"content-type": "application/json"}).json()
    assert answer["gpu"]["name"] == "RTX 4090"


@pytest.mark.parametrize(
    "declared",
    ["application/json", "Application/JSON; charset=utf-8", "application/x-www-form-urlencoded"],
)
def test_json_is_read_as_curl_declares_it(http, declared):
    body = json.dumps({"model": "acme/tiny", "gpu": "RTX 4090"})
    assert http.post("/v1/fit", content=body, headers={"content-type": declared}).status_code == 200


def test_a_context_beyond_the_models_maximum_is_unsupported_and_has_no_command(ask):
    answer = ask(context_length=1_000_000)
    assert answer.status_code == 200
    body = answer.json()
    assert body["verdict"] == "unsupported"
    assert "4,096" in body["summary"]
    assert (body["fit_probability"], body["launch"]) == (None, None)


def test_full_detail_adds_formulas_sources_and_stages(ask):
    brief = ask(gpu_count=2, pipeline_parallel=2).json()
    full = ask(gpu_count=2, pipeline_parallel=2, detail="full").json()
    assert "ranks" not in brief
    assert not any("formula" in term for term in brief["terms"])
    assert len(full["ranks"]) == 2
    assert all(term["formula"] and term["source"] for term in full["terms"])


def test_a_size_needs_no_hub(ask, stand_in):
    before = stand_in.count()
    assert ask(model="7b").json()["model"]["source"] == "size"
    assert stand_in.count() == before


def test_a_suggestion_can_be_sent_and_gives_what_it_says(ask):
    question = {"model": "70b", "gpu": "RTX 4090", "gpu_count": 2}
    suggestions = ask(**question).json()["suggestions"]
    assert suggestions
    for suggestion in suggestions:
        again = ask(**{**question, **suggestion["request"]}).json()
        assert again["verdict"] == suggestion["verdict"]
        assert again["per_gpu"]["required_bytes"]["expected"] == suggestion["required_bytes"]


def test_understood_as_can_be_sent_back(ask):
    first = ask(gpu="2x4090", concurrency=3).json()
    known = {**first["understood_as"], "quantization": None}
    assert ask(**known).json()["per_gpu"] == first["per_gpu"]


def test_a_model_counts_its_parameters_in_two_ways(http):
    answer = http.get("/v1/models/acme/tiny").json()
    assert answer["parameters"] == answer["computed_parameters"] == 1_987_840


def test_the_catalog_comes_in_pages(http):
    first = http.get("/v1/gpus").json()
    assert (len(first["items"]), first["next_offset"]) == (20, 20)
    rows = every_gpu(http)
    assert rows[:20] == first["items"]
    assert first["total"] == len({row["id"] for row in rows}) == len(rows)
    beyond = http.get("/v1/gpus?offset=1000000").json()
    assert (beyond["items"], beyond["next_offset"]) == ([], None)


@pytest.mark.parametrize("name", ["RTX 4090", "rtx%204090", "rtx-4090", "4090"])
def test_a_gpu_is_found_by_its_id_and_by_what_people_call_it(http, name):
    assert http.get(f"/v1/gpus/{name}").json()["name"] == "RTX 4090"


GET_GPU_ALONE = {
    "as_of",
    "availability",
    "total_bytes",
    "usable_windows_bytes",
    "unified_memory",
    "nvlink",
    "flash_attention",
    "flash_attention_2",
}


def test_every_gpu_that_is_listed_is_found_by_its_id(http):
    for row in every_gpu(http):
        found = http.get(f"/v1/gpus/{row['id']}").json()
        assert {offer["cloud"] for offer in found.pop("offers")} >= set(
            (row["card_hour"] or {"clouds": ()})["clouds"]
        )
        sources = found.pop("sources")
        assert set(sources) >= set(row.pop("sources"))
        assert found.items() >= row.items()
        assert found.keys() - row.keys() == GET_GPU_ALONE


def test_a_gpu_is_answered_with_where_it_is_rented_and_when_the_prices_were_taken(http):
    found = http.get("/v1/gpus/p5.48xlarge").json()
    machines = {offer["instance"]: offer for offer in found["offers"]}
    assert (found["id"], machines["p5.48xlarge"]["count"], machines["p5.48xlarge"]["cloud"]) == (
        "h100-sxm-80gb",
        8,
        "aws",
    )
    assert found["card_hour"]["usd_per_hour_low"] < found["card_hour"]["usd_per_hour_high"]
    assert found["card_hour"]["as_of"] <= machines["p5.48xlarge"]["as_of"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_head_tells_what_get_would_and_options_tells_the_methods(http, operation):
    path = operation.path.format(owner="acme", name="tiny", id="rtx-4090", answer_id=EXAMPLE)
    options = http.options(path)
    assert (options.status_code, options.content) == (204, b"")
    assert operation.method in options.headers["allow"]
    head = http.head(path)
    if operation.method == "GET":
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == http.get(path).headers["content-length"]
    else:
        assert head.status_code == 405


def test_the_same_question_gives_the_same_bytes(ask):
    assert len({ask(gpu_count=4, context_length=2048).content for _ in range(3)}) == 1


def test_a_changed_model_gets_a_new_answer():
    with (
        HubStandIn(safetensors_repository("acme/changing")) as hub,
        serving(hub, fresh_seconds=0) as url,
        client(url) as http,
    ):
        question = {"model": "acme/changing", "gpu": "RTX 4090"}
        old = http.post("/v1/fit", json=question).json()
        hub.add(safetensors_repository("acme/changing", llama_config(num_hidden_layers=4)))
        end = time.monotonic() + 5
        while (new := http.post("/v1/fit", json=question).json())["model"] == old["model"]:
            assert time.monotonic() < end
        assert new["model"]["parameters"] > old["model"]["parameters"]
        assert new["model"]["revision"] != old["model"]["revision"]
