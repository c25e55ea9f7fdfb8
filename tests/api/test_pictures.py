"""Pictures over HTTP: by a link or by a request, cached, and problems where there is no answer."""

import httpx
import pytest

FIT = {"model": "acme/tiny", "gpu": "RTX 4090"}
QUESTIONS = {
    "/v1/fit": FIT,
    "/v1/training-fit": FIT,
    "/v1/compare": {"models": "acme/tiny, 7b", "gpus": "RTX 4090, H100"},
    "/v1/recommend": {"model": "acme/tiny", "gpus": "RTX 4090, H100"},
}
PATHS = [f"{path}.{kind}" for path in QUESTIONS for kind in ("svg", "png")]


def asked(http, method, path, **more):
    return httpx.request(method, f"{str(http.base_url).rstrip('/')}{path}", **more)


@pytest.mark.parametrize("path", PATHS)
def test_a_link_and_a_request_give_the_same_picture(http, path):
    question = QUESTIONS[path.partition(".")[0]]
    link = asked(http, "GET", path, params=question)
    assert link.status_code == 200, link.text
    assert link.headers["Content-Type"].startswith(
        "image/png" if path.endswith("png") else "image/svg+xml"
    )
    assert asked(http, "POST", path, json=question).content == link.content
    seen = {"If-None-Match": link.headers["ETag"]}
    again = asked(http, "GET", path, params=question, headers=seen)
    assert (again.status_code, again.content) == (304, b"")


def test_the_style_is_chosen_in_the_query(http):
    pictures = {
        asked(http, "GET", "/v1/fit.svg", params=FIT | style).text
        for style in ({}, {"theme": "dark"}, {"language": "zh"})
    }
    assert len(pictures) == 3


@pytest.mark.parametrize(
    "query,status",
    [
        ({}, 422),
        (FIT | {"gpu_count": "many"}, 422),
        (FIT | {"theme": "pink"}, 422),
        (FIT | {"nothing": "1"}, 422),
        (FIT | {"gpu": "no such gpu at all"}, 404),
    ],
)
def test_a_question_without_an_answer_is_a_problem(http, query, status):
    response = asked(http, "GET", "/v1/fit.svg", params=query)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
