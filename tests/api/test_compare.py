"""compare_fit over HTTP: JSON up to 1,000 cells, NDJSON beyond."""

import json

import httpx

from fitgauge.api.media_types import NDJSON


def ask(http, **fields):
    return http.post("/v1/compare", json={"models": "7b", "gpus": "RTX 4090", **fields})


def test_a_thousand_cells_come_as_json(http):
    answer = ask(http, context_lengths=list(range(100, 150)), concurrencies=list(range(1, 21)))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["total"] == len(answer.json()["items"]) == 1000


def test_more_come_as_lines_that_say_how_far_they_are(http):
    answer = ask(http, context_lengths=list(range(100, 150)), concurrencies=list(range(1, 22)))
    assert answer.headers["content-type"] == NDJSON
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["number"] for row in rows] == list(range(1, 1051))
    assert {row["of"] for row in rows} == {1050}


def test_rows_come_as_they_are_made(url):
    body = {
        "models": "7b",
        "gpus": "RTX 4090",
        "context_lengths": list(range(100, 150)),
        "concurrencies": list(range(1, 51)),
    }
    with httpx.stream("POST", f"{url}/v1/compare", json=body) as answer:
        pieces = list(answer.iter_raw())
    assert len(pieces) > 5
    assert b"".join(pieces).count(b"\n") == 2500


def test_whole_numbers_in_a_list_may_be_written_with_a_point(http):
    body = b'{"models": "7b", "gpus": "RTX 4090", "context_lengths": [4096.0, 8192]}'
    answer = http.post("/v1/compare", content=body, headers={"content-type": "application/json"})
    assert [row["context_length"] for row in answer.json()["items"]] == [4096, 8192]


def test_a_number_in_a_list_that_is_none_is_told_by_its_field(http):
    answer = ask(http, concurrencies=[1, "many"])
    assert answer.status_code == 422
    assert answer.json()["field"] == "concurrencies"
    assert "number" in answer.json()["hint"]


def test_one_model_that_nobody_knows_is_told_with_its_name(http):
    answer = ask(http, models="7b, acme/nowhere")
    assert answer.status_code == 404
    assert "acme/nowhere" in answer.json()["detail"]


def test_more_than_ten_thousand_cells_are_refused(http):
    answer = ask(
        http,
        models="7b, 13b, 70b, 8b, 3b",
        context_lengths=list(range(100, 150)),
        concurrencies=list(range(1, 51)),
    )
    assert answer.status_code == 422
    assert "12,500 cells" in answer.json()["detail"]
