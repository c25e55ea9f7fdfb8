"""HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and HF_HOME mean what they mean to huggingface_hub, and
the cache outlives a killed process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fitgauge
from hub_stand_in import HubStandIn, safetensors_repository
from hub_stand_in.server import TOKEN

ASK = """
import asyncio, os, signal, sys
from fitgauge.errors import FitgaugeError
from fitgauge.hub import Hub, parse_reference

async def main():
    hub = Hub()
    await hub.start()
    try:
        print((await hub.resolve(parse_reference("acme/tiny"))).spec.parameters)
    except FitgaugeError as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
    if sys.argv[1:]:
        os.kill(os.getpid(), signal.SIGKILL)
    await hub.close()

asyncio.run(main())
"""


def asked(*arguments: str, **environment: str) -> str:
    """Return what a fresh process says about acme/tiny."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_"))
    }
    path = str(Path(fitgauge.__file__).parents[1])
    process = subprocess.run(
        [sys.executable, "-c", ASK, *arguments],
        env={**kept, "PYTHONPATH": path, "NO_PROXY": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.stderr == ""
    return process.stdout


@pytest.fixture
def private_hub():
    with HubStandIn(safetensors_repository("acme/tiny", private=True)) as hub:
        yield hub


def test_endpoint_token_home_and_offline_are_taken_from_the_environment(private_hub, tmp_path):
    place = {"HF_ENDPOINT": private_hub.url + "/", "HF_HOME": str(tmp_path / "home")}
    assert asked(**place).startswith("UnknownModelError")
    assert asked(**place, HF_HUB_OFFLINE="1").startswith("HubUnreachableError Offline")
    assert asked("killed", **place, HF_TOKEN=TOKEN) == "1987840\n"
    assert private_hub.count() == 4
    assert [path.suffix for path in (tmp_path / "home" / "fitgauge").iterdir()] == [".msgpack"]
    assert asked(**place, HF_HUB_OFFLINE="1") == "1987840\n"
    assert private_hub.count() == 4


def test_the_token_may_lie_in_a_file(private_hub, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert (
        asked(
            HF_ENDPOINT=private_hub.url,
            HF_HOME=str(tmp_path),
            HF_TOKEN_PATH=str(tmp_path / "token"),
        )
        == "1987840\n"
    )
