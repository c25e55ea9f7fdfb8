"""One service as an operator starts it, over a Hub that lies on demand. A file of this folder is
one class of attack."""

import pytest

from hub_stand_in import HubStandIn
from live import client
from live.process import running


@pytest.fixture(scope="module")
def hub():
    """Provide a Hub to which a test adds the repositories that it attacks with."""
    with HubStandIn() as stand_in:
        yield stand_in


@pytest.fixture(scope="module")
def service(hub, tmp_path_factory):
    """Provide the service as a process: `.url`, `.port`, `.pss_mib()`, `.terminate()`."""
    with running(hub.url, tmp_path_factory.mktemp("service")) as process:
        yield process


@pytest.fixture
def http(service):
    """Provide a client that holds every response to the OpenAPI document, so that a 500 fails
    the test."""
    with client(service.url) as opened:
        yield opened
