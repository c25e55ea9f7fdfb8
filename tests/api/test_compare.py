"""compare_fit over HTTP: pages as JSON, all rows as NDJSON."""

import json

import httpx
import pytest

from fitgauge.api.media_types import NDJSON


def ask(http, **fields):
    return http.post("/v1/compare", json={"models": "7b", "gpus": "RTX 4090", **fields})


def every_row(http, **fields):
    """Ask for all rows as lines."""
    body = {"models": "7b", "gpus": "RTX 4090", **fields}
    answer = http.post("/v1/compare", json=body, headers={"accept": NDJSON})
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.text.splitlines()]


MANY = {"context_lengths": list(range(100, 150)), "concurrencies": list(range(1, 22))}


def test_a_page_has_twenty_rows_and_says_where_the_next_begins(http):
    first = ask(http, **MANY).json()
    assert (len(first["items"]), first["total"], first["next_offset"]) == (20, 1050, 20)
    second = ask(http, **MANY, offset=20, limit=3).json()
    assert [row["number"] for row in second["items"]] == [21, 22, 23]
    last = ask(http, **MANY, offset=1040).json()
    assert ([row["number"] for row in last["items"]][-1], last["next_offset"]) == (1050, None)
    beyond = ask(http, **MANY, offset=5000).json()
    assert (beyond["items"], beyond["next_offset"]) == ([], None)


def test_a_page_that_is_too_long_is_cut_and_the_next_goes_on(http):
    rows, offset = [], 0
    while offset is not None:
        answer = ask(http, **MANY, limit=1000, offset=offset)
        assert len(answer.text) < 100_000
        rows += answer.json()["items"]
        offset = answer.json()["next_offset"]
    assert rows == every_row(http, **MANY)


def test_lines_say_how_far_they_are(http):
    rows = every_row(http, **MANY)
    assert [row["number"] for row in rows] == list(range(1, 1051))
    assert {row["of"] for row in rows} == {1050}
    assert [row["number"] for row in every_row(http, **MANY, offset=1048)] == [1049, 1050]
    assert every_row(http, **MANY, offset=1050) == []


def test_who_accepts_json_too_gets_json(http):
    body = {"models": "7b", "gpus": "RTX 4090"}
    accept = {"accept": f"{NDJSON}, application/json;q=0.9"}
    answer = http.post("/v1/compare", json=body, headers=accept)
    assert answer.headers["content-type"] == "application/json"


def test_rows_come_as_they_are_made(url):
    body = {
        "models": "7b",
        "gpus": "RTX 4090",
        "context_lengths": list(range(100, 150)),
        "concurrencies": list(range(1, 51)),
    }
    accept = {"accept": NDJSON}
    with httpx.stream("POST", f"{url}/v1/compare", json=body, headers=accept) as answer:
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


def test_a_row_says_which_model_is_unknown_and_the_others_are_answered(http):
    table = {"models": "7b, acme/nowhere, acme/tiny", "gpus": "RTX 4090, RTX 4909"}
    rows = ask(http, **table).json()["items"]
    assert [row["verdict"] is None for row in rows] == [False, True, True, True, False, True]
    assert [(row["error"] or {}).get("code") for row in rows] == [
        None,
        "unknown-gpu",
        "unknown-model",
        "unknown-model",
        None,
        "unknown-gpu",
    ]
    model, gpu = rows[2], rows[1]
    assert (model["model"], model["gpu"], model["error"]["field"]) == (
        "acme/nowhere",
        "RTX 4090",
        "models",
    )
    assert (gpu["gpu"], gpu["gpu_count"], gpu["error"]["field"]) == ("RTX 4909", None, "gpus")
    assert "RTX 4090" in gpu["error"]["matches"]
    again = ask(http, models="7b", **gpu["error"]["send"])
    assert again.json()["items"][0]["verdict"] == rows[0]["verdict"]
    assert rows == every_row(http, **table)


def test_a_row_whose_model_only_the_hub_knows_says_that_it_is_away(http):
    rows = ask(http, models="acme/gated, 7b").json()["items"]
    assert [(row["error"] or {}).get("code") for row in rows] == ["gated-model", None]


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"models": "acme/nowhere, acme/none"}, "unknown-model"),
        ({"gpus": "RTX 4909, foo"}, "unknown-gpu"),
    ],
)
def test_a_table_of_which_no_row_can_be_answered_is_an_error(http, fields, code):
    answer = ask(http, **fields)
    assert (answer.status_code, answer.json()["code"]) == (404, code)


def test_more_than_ten_thousand_cells_are_refused(http):
    answer = ask(
        http,
        models="7b, 13b, 70b, 8b, 3b",
        context_lengths=list(range(100, 150)),
        concurrencies=list(range(1, 51)),
    )
    assert answer.status_code == 422
    assert "12,500 cells" in answer.json()["detail"]
