"""The client has every operation of the contract, batches and recorded answers."""

import asyncio
import inspect
import json
from pathlib import Path

import httpx
import pytest

from fitgauge_plugin.client import Client, ProblemError
from fitgauge_plugin.recordings import Recorder
from hub_stand_in import HubStandIn, safetensors_repository
from live import serving

CONTRACT = json.loads((Path(__file__).parents[2] / "openapi/openapi.json").read_text("utf-8"))
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in CONTRACT["paths"].items()
    for method, operation in methods.items()
}
QUESTION = {"model": "acme/tiny", "gpu": "RTX 4090"}
TOO_MANY = 3


@pytest.fixture(scope="module")
def url():
    with HubStandIn(safetensors_repository("acme/tiny")) as hub, serving(hub) as address:
        yield address


def ask_over(transport, ask, base_url="http://service"):
    async def run():
        async with Client(base_url, transport=transport) as client:
            return await ask(client)

    return asyncio.run(run())


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_sends_the_request_of_the_contract(name):
    method, path, operation = OPERATIONS[name]
    requests = []

    def answer(request):
        requests.append(request)
        return httpx.Response(200, json={"answered": name})

    parameters = operation.get("parameters", [])
    in_path = {one["name"]: one["name"] for one in parameters if one["in"] == "path"}
    query = {one["name"]: one["example"] for one in parameters if one["in"] == "query"}
    question = (QUESTION,) if "requestBody" in operation else ()
    ask = lambda client: getattr(client, name)(*question, *in_path.values(), **query)  # noqa: E731
    assert ask_over(httpx.MockTransport(answer), ask) == {"answered": name}
    (request,) = requests
    assert (request.method, request.url.path) == (method, path.format(**in_path))
    assert request.url.params == httpx.QueryParams(query)
    assert request.content == b"" if not question else json.loads(request.content) == QUESTION


def test_the_client_has_no_operation_but_those_of_the_contract():
    methods = {
        name
        for name, _ in inspect.getmembers(Client, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert methods == {*OPERATIONS, "batch"}


def test_every_operation_that_takes_a_question_may_be_asked_in_batches():
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={}))
    for name, (_, _, operation) in OPERATIONS.items():
        ask = lambda client, name=name: client.batch(name, [QUESTION])  # noqa: E731
        if "requestBody" in operation:
            assert ask_over(transport, ask) == [{}]
        else:
            with pytest.raises(ValueError, match="check_fit"):
                ask_over(transport, ask)


def test_a_batch_answers_every_question_in_its_place(url):
    questions = [QUESTION, {"model": "acme/tiny", "gpu": "RTX 4095"}, {**QUESTION, "gpu_count": 2}]
    first, refused, last = ask_over(None, lambda client: client.batch("check_fit", questions), url)
    assert first["verdict"] == last["verdict"] == "fits"
    assert (refused.code, refused.status) == ("unknown-gpu", 404)
    assert "RTX 4090" in refused.matches


def test_a_batch_keeps_no_more_requests_in_flight_than_it_may():
    now, most = 0, 0

    async def answer(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return httpx.Response(200, json=json.loads(request.content))

    questions = [{"model": str(index)} for index in range(20)]
    ask = lambda client: client.batch("check_fit", questions, at_once=TOO_MANY)  # noqa: E731
    assert ask_over(httpx.MockTransport(answer), ask) == questions
    assert 1 < most <= TOO_MANY


def test_a_refusal_says_when_to_ask_again():
    problem = {"code": "rate-limited", "detail": "Too many.", "send": {"gpu": "RTX 4090"}}
    transport = httpx.MockTransport(
        lambda request: httpx.Response(429, json=problem, headers={"Retry-After": "7"})
    )
    with pytest.raises(ProblemError) as refused:
        ask_over(transport, lambda client: client.check_fit(QUESTION))
    assert refused.value.retry_after_seconds == 7
    assert refused.value.code == "rate-limited"
    assert refused.value.send == {"gpu": "RTX 4090"}


def test_a_trace_is_sent_as_it_is():
    bodies = []

    def answer(request):
        bodies.append((request.headers["Content-Type"], request.content))
        return httpx.Response(200, json={})

    ask_over(httpx.MockTransport(answer), lambda client: client.explain_utilization(b"\x1f\x8b"))
    assert bodies == [("application/octet-stream", b"\x1f\x8b")]


def test_recorded_answers_are_given_without_a_service(url, tmp_path):
    recording = tmp_path / "answers.jsonl"

    async def ask(client):
        return [
            await client.check_fit(QUESTION),
            await client.list_gpus(limit=2),
            *await client.batch("check_fit", [{"model": "acme/tiny", "gpu": "no such gpu"}]),
        ]

    first = ask_over(Recorder(recording), ask, url)

    async def ask_offline():
        async with Client.replaying(recording) as client:
            answers = await ask(client)
            reordered = await client.check_fit(dict(reversed(QUESTION.items())))
            with pytest.raises(ProblemError) as missing:
                await client.list_gpus(limit=3)
            return answers, reordered, missing.value

    answers, reordered, missing = asyncio.run(ask_offline())
    assert answers[:2] == first[:2]
    assert reordered == first[0]
    assert (answers[2].code, answers[2].status) == (first[2].code, first[2].status)
    assert missing.code == "not-recorded"


def test_a_recording_holds_no_headers_of_the_request(url, tmp_path):
    recording = tmp_path / "answers.jsonl"

    async def ask():
        headers = {"Authorization": "Bearer secret-token"}
        async with Client(url, transport=Recorder(recording), headers=headers) as client:
            await client.check_fit(QUESTION)

    asyncio.run(ask())
    assert "secret-token" not in recording.read_text("utf-8")
