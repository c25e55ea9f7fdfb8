"""A service for raw sockets."""

import pytest

from hub_stand_in import HubStandIn, safetensors_repository
from live import serving
from raw_http import exchange, good, statuses


@pytest.fixture(scope="module")
def port():
    """Serve, and give the port of a service whose Hub has acme/tiny."""
    with HubStandIn(safetensors_repository("acme/tiny")) as hub, serving(hub) as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture
def still_answers(port):
    """Ask a good question after the test, which must be answered."""
    yield
    assert statuses(exchange(port, good(close=True))) == [200]
