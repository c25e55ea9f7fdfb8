"""GET /v1/answers/{answer_id}: the same question, answered again by any replica."""

import zlib
from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.api.controllers.answers import EXAMPLE
from fitgauge.errors import UnknownAnswerError
from fitgauge.services.common.answer_ids import LONGEST_ID, answer_id, read_answer_id
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.requests import LINKED

QUESTIONS = {
    "/v1/fit": {"model": "acme/tiny", "gpu": "RTX 4090", "context_length": 4096},
    "/v1/training-fit": {"model": "acme/tiny", "gpu": "RTX 4090", "method": "lora"},
    "/v1/recommend": {"model": "acme/tiny", "gpus": ["RTX 4090", "H100"]},
    "/v1/models-for-gpu": {"gpu": "RTX 4090", "search": "qwen3", "quantizations": "awq"},
    "/v1/compare": {"models": "acme/tiny, 7b", "gpus": "RTX 4090"},
    "/v1/training-plan": {"model": "acme/tiny", "gpu": "RTX 4090", "max_gpu_count": 4},
    "/v1/utilization": {"gpu": "A100 80GB", "achieved_tflops": 100},
}


@pytest.mark.parametrize("path", QUESTIONS)
def test_the_link_of_an_answer_gives_the_answer_again(http, path):
    answer = http.post(path, json=QUESTIONS[path]).json()
    again = http.get(f"/v1/answers/{answer['answer_id']}")
    assert again.status_code == 200
    assert again.json()["answer"] == answer
    assert again.json()["request"] == QUESTIONS[path]


@pytest.mark.parametrize("path", QUESTIONS)
def test_an_answer_says_how_old_its_facts_are(http, path):
    dates = http.post(path, json=QUESTIONS[path]).json()["as_of"]
    assert dates["catalog"] >= "2026-"
    assert dates["snapshot"] >= "2026-11-21"
    serving = path in ("/v1/fit", "/v1/recommend", "/v1/models-for-gpu", "/v1/compare")
    assert bool(dates["engines"]) == serving


def test_an_answer_names_the_release_that_it_judged(http):
    body = {"model": "acme/tiny", "gpu": "H100", "engine": "vllm", "engine_version": "0.10.0"}
    assert http.post("/v1/fit", json=body).json()["as_of"]["engines"] == {"vllm": "0.10.0"}


def test_pages_of_facts_are_dated_too(http):
    for path in ("/v1/gpus", "/v1/gpus/rtx-4090", "/v1/models/acme/tiny", "/v1/catalog"):
        assert http.get(path).json()["as_of"]["catalog"] >= "2026-"


def test_the_same_question_has_the_same_link_whatever_it_leaves_out(http):
    bodies = [
        {"model": "acme/tiny", "gpu": "RTX 4090"},
        {"gpu": "RTX 4090", "model": "acme/tiny", "engine": None},
    ]
    assert len({http.post("/v1/fit", json=body).json()["answer_id"] for body in bodies}) == 1


def test_a_link_to_a_model_that_is_gone_is_the_error_of_its_question(http):
    gone = answer_id("check_fit", FitRequest(model="acme/nowhere", gpu="RTX 4090"))
    again = http.get(f"/v1/answers/{gone}")
    assert (again.status_code, again.json()["code"]) == (404, "unknown-model")


def test_a_log_and_a_question_in_words_have_no_link_of_their_own(http):
    asked = http.post("/v1/ask", json={"question": "does a 7b fit on a 4090?"}).json()
    assert "answer_id" not in asked
    assert read_answer_id(asked["answer"]["answer_id"], LINKED)[0] == "check_fit"
    log = {"log": "Model loading took 14.9889 GiB memory", "model": "7b", "gpu": "H100"}
    assert "answer_id" not in http.post("/v1/explain-log", json=log).json()


def test_the_links_of_this_version_are_read_for_ever():
    assert read_answer_id(EXAMPLE, LINKED) == (
        "check_fit",
        FitRequest(model="Qwen/Qwen3-32B", gpu="RTX 4090"),
    )


def packed(question: bytes) -> str:
    """Return an id of any bytes, without the dictionary."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    whole = deflate.compress(question) + deflate.flush()
    return "1" + urlsafe_b64encode(whole).decode().rstrip("=")


NONSENSE = [
    "1",
    "0iyZdH8gRtbEA",
    EXAMPLE[:-2],
    EXAMPLE + "AAAA",
    EXAMPLE + "=",
    "1" + "A" * LONGEST_ID,
    packed(b"[]"),
    packed(b'["check_fit",{"model":1}]'),
    packed(b'["check_fit",{"model":"7b","surprise":1}]'),
    packed(b'["explain_log",{"log":"x"}]'),
    packed(b'["check_fit",{"model":"7b"},1]'),
    packed(b"[" * 10_000),
    packed(b'["check_fit",{"model":"\xff"}]'),
    packed(b'["check_fit",{"model":"7b","gpu":"' + b" " * 1_000_000 + b'"}]'),
]


@pytest.mark.parametrize("text", NONSENSE, ids=range(len(NONSENSE)))
def test_what_is_no_link_is_not_found(http, text):
    answer = http.get(f"/v1/answers/{text}")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-answer")


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: packed(raw)))
def test_any_other_text_is_refused_cleanly(text):
    with suppress(UnknownAnswerError):
        operation, request = read_answer_id(text, LINKED)
        assert type(request) is LINKED[operation]


@pytest.mark.parametrize(
    "model", ["hf_" + "a1B2" * 8 + "/model", "https://ada:secret@huggingface.co/acme/tiny"]
)
def test_a_question_with_a_secret_has_no_link(model):
    assert answer_id("check_fit", FitRequest(model=model, gpu="RTX 4090")) is None


def test_a_question_too_long_for_a_link_has_none():
    names = [sha256(bytes([number])).hexdigest() for number in range(100)]
    assert answer_id("compare_fit", CompareRequest(models=names, gpus=["RTX 4090"])) is None


@given(
    st.text(min_size=1, max_size=200),
    st.none() | st.integers(1, 4096),
    st.none() | st.floats(0.1, 1),
)
def test_a_question_survives_its_link(model, count, share):
    request = FitRequest(model=model, gpu_count=count, gpu_memory_utilization=share)
    link = answer_id("check_fit", request)
    if link is not None:
        assert len(link) <= LONGEST_ID
        assert read_answer_id(link, LINKED) == ("check_fit", request)
