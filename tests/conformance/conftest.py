"""The service without a Hub: what it answers comes from the snapshot and the catalog."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from fitgauge.app import create_app
from fitgauge.hub import Hub, HubSettings
from fitgauge.settings import Settings
from live import running

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def service() -> Iterator[httpx.Client]:
    """The running service."""
    hub = Hub(HubSettings(offline=True, cache_dir=None, token=False))
    with running(create_app(Settings(log_level="warning"), hub=hub)) as client:
        yield client


@pytest.fixture
def fit(service: httpx.Client) -> Ask:
    """POST /v1/fit with these fields, and the answer."""

    def ask(**question: Any) -> dict[str, Any]:
        response = service.post("/v1/fit", json={"detail": "full", **question})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    return ask
