"""A stand-in for the Hub, and a resolver that asks it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fitgauge.hub import Hub, HubSettings
from hub_stand_in import HubStandIn, safetensors_repository

OpenHub = Callable[..., AbstractAsyncContextManager[Hub]]


@pytest.fixture
def stand_in() -> Iterator[HubStandIn]:
    """Provide a Hub with one repository, acme/tiny."""
    with HubStandIn(safetensors_repository("acme/tiny")) as hub:
        yield hub


@pytest.fixture
def open_hub(stand_in: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenHub:
    """Open a resolver on the stand-in; keywords are HubSettings, `clock` and `monotonic`."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    @asynccontextmanager
    async def opened(
        *, clock: Any = None, monotonic: Any = None, **changes: Any
    ) -> AsyncIterator[Hub]:
        usual: dict[str, Any] = {
            "endpoint": stand_in.url,
            "offline": False,
            "token": False,
            "cache_dir": tmp_path / "hub",
        }
        times = {
            name: value for name, value in (("clock", clock), ("monotonic", monotonic)) if value
        }
        hub = Hub(HubSettings(**{**usual, "first_delay_seconds": 0.01, **changes}), **times)
        await hub.start()
        try:
            yield hub
        finally:
            await hub.close()

    return opened
