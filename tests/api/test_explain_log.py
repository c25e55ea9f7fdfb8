"""explain_log over the wire: a body of its own size, a ledger, refusals that name the field."""

import pytest

from fitgauge.services.explain_log.schemas import LONGEST_LOG

LOG = """\
INFO 04-19 11:05:16 [core.py:107] Initializing a V1 LLM engine (v0.19.0) with config:\
 model='acme/tiny', max_seq_len=4096
INFO 04-19 11:05:50 [gpu_model_runner.py:4837] Model loading took 0.01 GiB memory and 27.6 seconds
INFO 04-19 11:07:19 [gpu_worker.py:436] Available KV cache memory: 20.5 GiB
INFO 04-19 11:07:19 [kv_cache_utils.py:1319] GPU KV cache size: 10,747,904 tokens
"""


@pytest.fixture
def explain(http):
    """Ask explain_log; keywords are further fields."""
    return lambda log=LOG, **fields: http.post(
        "/v1/explain-log", json={"log": log, "gpu": "RTX 4090", **fields}
    )


def test_a_ledger_is_answered(explain):
    answer = explain().json()
    assert (answer["engine"], answer["engine_version"], answer["outcome"]) == (
        "vllm",
        "0.19.0",
        "served",
    )
    assert answer["model"]["id"] == "acme/tiny"
    assert [row["name"] for row in answer["rows"]] == [
        "weights",
        "kv_cache",
        "kv_tokens",
        "kv_tokens_of_pool",
    ]
    assert "readings" not in answer


def test_every_number_comes_with_detail_full(explain):
    readings = explain(detail="full").json()["readings"]
    assert [(reading["name"], reading["line"]) for reading in readings] == [
        ("weights", 2),
        ("kv_pool", 3),
        ("kv_tokens", 4),
    ]


def test_a_long_log_is_read(explain):
    noise = "Loading safetensors checkpoint shards\n" * 10_000
    answer = explain(noise + LOG)
    assert answer.status_code == 200
    assert answer.json()["rows"][0]["lines"] == [10_002]


def test_colours_cost_no_body(explain):
    """An escape takes six bytes of JSON: the longest log of nothing else still comes in."""
    assert explain("\x1b" * (2**18) + "\n" + LOG).status_code == 200


@pytest.mark.parametrize(
    ("log", "fields", "status", "field"),
    [
        ("x" * (LONGEST_LOG + 1), {}, 422, "log"),
        ("", {}, 422, "log"),
        ("hello", {}, 422, "log"),
        (LOG.replace("acme/tiny", "/models/tiny"), {}, 422, "model"),
        (LOG, {"gpu": None}, 422, "gpu"),
        (LOG, {"gpu": "abacus"}, 404, None),
        (LOG, {"model": "acme/none"}, 404, None),
        (LOG, {"gpu_count": 0}, 422, "gpu_count"),
        (LOG, {"prompt": "x"}, 422, "prompt"),
    ],
)
def test_a_refusal_names_the_field_and_what_to_send(explain, log, fields, status, field):
    problem = explain(log, **fields)
    assert problem.status_code == status, problem.text
    assert problem.json()["hint"]
    if field:
        assert problem.json()["field"] == field


def test_a_body_beyond_its_bound_is_413(explain):
    assert explain("x" * (2 * 1024 * 1024)).status_code == 413


def test_other_questions_keep_the_services_bound(http):
    assert http.post("/v1/fit", json={"model": "x" * 100_000, "gpu": "RTX 4090"}).status_code == 413
