"""The bot as `fitgauge slack` runs it, between the real service and a stand-in for Slack."""

import pytest

from hub_stand_in import HubStandIn, safetensors_repository
from live import serving
from slack_stand_in import Sender, SlackStandIn
from slack_stand_in.running import running
from slack_stand_in.sender import SECRET


@pytest.fixture(scope="session")
def service():
    with HubStandIn(safetensors_repository("acme/tiny")) as hub, serving(hub, offline=True) as url:
        yield url


@pytest.fixture
def slack():
    with SlackStandIn() as stand_in:
        yield stand_in
    assert stand_in.wrong == []


@pytest.fixture
def bot(service, slack, tmp_path):
    """Provide the sender of a bot over HTTP."""
    with running(service, slack, tmp_path, signing_secret=SECRET) as address:
        yield Sender(address, slack.url)
