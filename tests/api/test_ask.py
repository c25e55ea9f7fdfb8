"""POST /v1/ask over HTTP."""

import pytest


def test_a_question_is_answered(http):
    response = http.post(
        "/v1/ask", json={"question": "Will acme/tiny-1b fit on 2x RTX 4090 with 8k context?"}
    )
    answer = response.json()
    assert response.status_code == 200
    assert answer["operation"] == "check_fit"
    assert answer["understood"] == {
        "model": "acme/tiny-1b",
        "gpu": "RTX 4090",
        "gpu_count": 2,
        "context_length": 8192,
    }
    assert answer["answer"] is None  # this Hub has no such repository
    assert answer["missing"]


@pytest.mark.parametrize("body", [{}, {"question": ""}, {"question": "a" * 2001}, {"question": 4}])
def test_a_body_without_a_question_is_refused(http, body):
    assert http.post("/v1/ask", json=body).status_code == 422


@pytest.mark.parametrize(
    "text", ["\u0000", "\ud7ff\u202e", "((((" * 500, "9" * 2000, "999x " * 400, "🦙" * 1000]
)
def test_nonsense_is_answered(http, text):
    response = http.post("/v1/ask", json={"question": text})
    assert response.status_code == 200
    assert response.json()["operation"] is None
