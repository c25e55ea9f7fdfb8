"""The service without a Hub: what it answers comes from the snapshot and the catalog."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from hub_stand_in import HubStandIn
from live import client, serving

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def service() -> Iterator[httpx.Client]:
    """Provide the running service."""
    with HubStandIn() as hub, serving(hub, offline=True) as url, client(url) as http:
        yield http


@pytest.fixture
def fit(service: httpx.Client) -> Ask:
    """POST /v1/fit with these fields, and the answer."""
    return lambda **question: answered(service, "/v1/fit", {"detail": "full", **question})


@pytest.fixture
def train(service: httpx.Client) -> Ask:
    """POST /v1/training-fit with these fields, and the answer. The examples train in full and
    checkpoint nothing, where they do not say otherwise."""
    usual = {"method": "full", "activation_checkpointing": "none", "detail": "full"}
    return lambda **question: answered(service, "/v1/training-fit", usual | question)


@pytest.fixture
def plan(service: httpx.Client) -> Ask:
    """POST /v1/training-plan with these fields, and the answer."""
    return lambda **question: answered(service, "/v1/training-plan", question)


def answered(service: httpx.Client, path: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question that has one."""
    response = service.post(path, json=question)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer
