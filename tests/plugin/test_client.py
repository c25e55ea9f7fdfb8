"""The client asks through the contract, over a socket or in the same process."""

import asyncio

import httpx
import pytest

from fitgauge_plugin.client import Client, ProblemError
from hub_stand_in import HubStandIn, safetensors_repository
from live import app_over, serving

QUESTION = {"model": "acme/tiny", "gpu": "RTX 4090"}


@pytest.fixture(scope="module")
def stand_in():
    with HubStandIn(safetensors_repository("acme/tiny")) as hub:
        yield hub


def over_a_socket(stand_in, ask):
    with serving(stand_in) as url:

        async def asked():
            async with Client(url) as client:
                return await ask(client)

        return asyncio.run(asked())


def in_process(stand_in, ask):
    async def asked():
        app = app_over(stand_in)
        async with (
            running(app),
            Client("http://fitgauge", transport=httpx.ASGITransport(app)) as client,
        ):
            return await ask(client)

    return asyncio.run(asked())


class running:
    """The application between its lifespan's start and stop, which a server would see to."""

    def __init__(self, app):
        self.app, self.inbox, self.outbox = app, asyncio.Queue(), asyncio.Queue()

    async def __aenter__(self):
        self.task = asyncio.create_task(
            self.app({"type": "lifespan", "asgi": {}}, self.inbox.get, self.outbox.put)
        )
        await self._step("startup")

    async def __aexit__(self, *_):
        await self._step("shutdown")
        await self.task

    async def _step(self, name):
        await self.inbox.put({"type": f"lifespan.{name}"})
        assert (await self.outbox.get())["type"] == f"lifespan.{name}.complete"


@pytest.fixture(params=[over_a_socket, in_process], ids=lambda way: way.__name__)
def asking(request, stand_in):
    return lambda ask: request.param(stand_in, ask)


def test_a_question_is_answered(asking):
    async def ask(client):
        return (
            await client.check_fit(QUESTION),
            await client.get_model("acme", "tiny"),
            await client.get_gpu("RTX 4090"),
        )

    fit, model, gpu = asking(ask)
    assert fit["verdict"] == "fits"
    assert model["parameters"] == 1_987_840
    assert gpu["name"] == "RTX 4090"


def test_a_refusal_is_a_problem_with_its_hint(asking):
    async def ask(client):
        with pytest.raises(ProblemError) as caught:
            await client.check_fit({**QUESTION, "gpu_count": "4"})
        return caught.value

    problem = asking(ask)
    assert problem.status == 422
    assert problem.field == "gpu_count"
    assert '"gpu_count": 4' in problem.hint
    assert problem.hint in str(problem)


def test_a_refusal_names_what_may_be_meant(asking):
    async def ask(client):
        with pytest.raises(ProblemError) as caught:
            await client.get_gpu("RTX 4095")
        return caught.value

    assert "RTX 4090" in asking(ask).matches


@pytest.mark.parametrize(
    "name", ["a/b", "../../health/live", "x?limit=1", "x#y", "%2e", "ü", "a b"]
)
def test_a_name_cannot_leave_its_place_in_the_path(asking, name):
    async def ask(client):
        with pytest.raises(ProblemError) as caught:
            await client.get_model("acme", name)
        return caught.value.status

    assert asking(ask) in (404, 422)


def test_an_answer_of_somebody_else_is_a_problem_too():
    async def ask():
        transport = httpx.MockTransport(
            lambda request: httpx.Response(502, text="<html>bad gateway</html>")
        )
        async with Client("http://gateway", transport=transport) as client:
            with pytest.raises(ProblemError) as caught:
                await client.check_fit(QUESTION)
        return caught.value

    assert asyncio.run(ask()).status == 502


def test_a_service_that_is_away_is_a_problem_too():
    def refuse(request):
        raise httpx.ConnectError("refused")

    async def ask():
        async with Client("http://nowhere", transport=httpx.MockTransport(refuse)) as client:
            with pytest.raises(ProblemError) as caught:
                await client.check_fit(QUESTION)
        return caught.value

    assert asyncio.run(ask()).status == 503
