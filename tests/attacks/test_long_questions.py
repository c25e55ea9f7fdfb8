"""Long questions: abandoned, or more at once than are computed. Others are answered meanwhile,
or refused at once."""

import json
import re
import socket
import time
from itertools import count

import httpx
import pytest

from fitgauge.services.common.long_questions import MOST_QUESTIONS
from live.process import running

FORMATS = (
    "as published, awq, gptq, fp8, int8, int4, nf4, bf16, fp16, q4_k_m, q5_k_m, q6_k, q8_0, nvfp4"
)
FEW = "as published, awq, gptq, fp8"
SECONDS = 60
"""far more than the other questions take, far less than those that were abandoned would have"""
contexts = count(4096)


def largest():
    """Return a question over all bundled models that was not asked before."""
    return {
        "gpu": "RTX 3090",
        "quantizations": FORMATS,
        "limit": 5,
        "context_length": next(contexts),
    }


def send(port, path, question):
    """Return a connection on which the question was sent and no answer read."""
    body = json.dumps(question).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length:"
        f" {len(body)}\r\n\r\n"
    )
    link = socket.create_connection(("127.0.0.1", port), SECONDS)
    link.sendall(head.encode() + body)
    return link


def under_way(service):
    """Return how many long questions wait or are computed."""
    metrics = httpx.get(f"{service.url}/metrics", trust_env=False, timeout=SECONDS).text
    return int(float(re.search(r"^fitgauge_long_questions (\S+)$", metrics, re.M)[1]))


def wait_for(service, number):
    end = time.monotonic() + SECONDS
    while under_way(service) != number:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("/v1/models-for-gpu", largest()),
        ("/v1/training-plan", {"model": "deepseek-ai/DeepSeek-V3", "gpu": "H100", "method": "any"}),
        ("/v1/recommend", {"model": "Qwen/Qwen3-235B-A22B", "task": "training", "method": "full"}),
        ("/v1/training-fit", {"model": "google/gemma-2-9b", "gpu": "8x H100"}),
    ],
)
def test_work_of_abandoned_questions_ends_though_nothing_else_is_asked(service, path, question):
    links = [send(service.port, path, question) for _ in range(6)]
    for link in links:
        link.close()
    wait_for(service, 0)


def test_questions_behind_six_abandoned_ones_are_answered(service, http):
    links = [send(service.port, "/v1/models-for-gpu", largest()) for _ in range(6)]
    wait_for(service, 6)
    for link in links:
        link.close()
    assert (
        http.post("/v1/compare", json={"models": "Qwen/Qwen3-8B", "gpus": "H100"}).status_code
        == 200
    )
    assert http.post("/v1/recommend", json={"model": "Qwen/Qwen3-8B"}).status_code == 200
    wait_for(service, 0)


def test_short_questions_go_before_six_living_ones(service, http):
    links = [send(service.port, "/v1/models-for-gpu", largest()) for _ in range(6)]
    wait_for(service, 6)
    assert (
        http.post("/v1/compare", json={"models": "Qwen/Qwen3-8B", "gpus": "A10G"}).status_code
        == 200
    )
    assert http.post("/v1/recommend", json={"model": "Qwen/Qwen3-8B"}).status_code == 200
    assert under_way(service) > 0
    for link in links:
        link.close()
    wait_for(service, 0)


@pytest.fixture
def full_queue(service):
    """Fill the queue; give the connection of the question that is computed first, a short one.
    Afterwards the others are abandoned."""
    first = send(service.port, "/v1/models-for-gpu", {**largest(), "quantizations": FEW})
    wait_for(service, 1)
    links = [send(service.port, "/v1/models-for-gpu", largest()) for _ in range(MOST_QUESTIONS - 1)]
    wait_for(service, MOST_QUESTIONS)
    yield first
    for link in (first, *links):
        link.close()
    wait_for(service, 0)


@pytest.mark.usefixtures("full_queue")
def test_more_than_the_queue_holds_are_refused_with_the_seconds_to_wait(http):
    questions = (
        ("/v1/models-for-gpu", largest()),
        ("/v1/compare", {"models": "Qwen/Qwen3-8B", "gpus": "H100"}),
    )
    for path, question in questions:
        refused = http.post(path, json=question)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["type"] == "urn:fitgauge:problem:queue-full"


def test_what_the_queue_holds_and_other_questions_are_answered_while_it_is_full(full_queue, http):
    assert http.get("/v1/gpus").status_code == 200
    assert full_queue.recv(15) == b"HTTP/1.1 200 OK"


def test_a_question_past_its_time_is_refused_with_how_to_ask_for_less(hub, tmp_path):
    with running(hub.url, tmp_path, FITGAUGE_QUESTION_SECONDS="0.2") as service:
        answer = httpx.post(
            f"{service.url}/v1/models-for-gpu", json=largest(), trust_env=False, timeout=SECONDS
        )
    assert (answer.status_code, answer.json()["type"]) == (
        422,
        "urn:fitgauge:problem:question-too-large",
    )


def test_the_service_ends_in_order_while_long_questions_run(hub, tmp_path):
    with running(hub.url, tmp_path) as service:
        few = {**largest(), "quantizations": FEW}
        links = [send(service.port, "/v1/models-for-gpu", few)]
        wait_for(service, 1)
        links += [
            send(service.port, "/v1/models-for-gpu", largest()) for _ in range(MOST_QUESTIONS - 1)
        ]
        wait_for(service, MOST_QUESTIONS)
        for link in links[1:]:
            link.close()
        service.terminate(SECONDS)
        assert links[0].recv(15) == b"HTTP/1.1 200 OK"
        assert "Application shutdown complete." in service.log.read_text()
        links[0].close()
