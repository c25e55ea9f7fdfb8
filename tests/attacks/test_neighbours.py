"""An attack on one question is none on the next: what every other class of attack is measured
against."""


def test_an_ordinary_question_is_answered(http):
    answer = http.post("/v1/fit", json={"model": "Qwen/Qwen3-8B", "gpu": "H100"})
    assert answer.status_code == 200
