"""The wheel holds all that the command and the service need: `uvx fitgauge` starts."""

import os
import socket
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = (
    "import sys; from hatchling.build import build_sdist, build_wheel;"
    "build_sdist(sys.argv[1]); print(build_wheel(sys.argv[1]))"
)


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """Return a folder with the wheel and the sdist, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory) -> Path:
    """Return a fresh folder with the contents of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def environment(installed: Path) -> dict[str, str]:
    """Return an environment that takes the installed package before the checkout."""
    return {**os.environ, "PYTHONPATH": str(installed), "HF_HUB_OFFLINE": "1"}


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command from its folder."""
    return subprocess.run(
        [sys.executable, "-m", "fitgauge", *arguments],
        cwd=installed,
        env=environment(installed),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


def test_the_wheel_and_the_sdist_hold_every_file_of_both_packages(dist, installed) -> None:
    files = {
        path.relative_to(ROOT / folder).as_posix()
        for folder in ("service", "plugin")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so") and "__pycache__" not in path.parts
    }
    packages = {path for path in files if path.split("/")[0] in ("fitgauge", "fitgauge_plugin")}
    assert {
        "fitgauge/catalog/data/models.jsonl",
        "fitgauge/web/api.js",
        "fitgauge_plugin/bar.html",
    } <= packages
    assert packages <= {
        path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()
    }
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = {name.split("/", 1)[-1] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "service/fitgauge/web/api.js"} <= names


def test_the_wheel_names_the_command(installed) -> None:
    (points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "fitgauge = fitgauge.__main__:run" in points.read_text("utf-8")


def test_the_command_runs_from_the_wheel(installed) -> None:
    where = "import fitgauge; print(fitgauge.__file__)"
    printed = subprocess.run(
        [sys.executable, "-c", where],
        cwd=installed,
        env=environment(installed),
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert printed.startswith(str(installed))
    assert run(installed, "--version").returncode == 0
    result = run(installed, "check", "Qwen/Qwen3-8B", "RTX 4090")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_service_and_its_page_start_from_the_wheel(installed) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "fitgauge", "serve", "--port", str(port)]
    server = subprocess.Popen(
        command, cwd=installed, env=environment(installed), stderr=subprocess.DEVNULL
    )
    try:
        for path in ("/health/live", "/", "/schema/openapi.json"):
            assert answers(f"http://127.0.0.1:{port}{path}", server) == 200
    finally:
        server.terminate()
        assert server.wait(60) == 0


def answers(url: str, server: subprocess.Popen[bytes]) -> int:
    """Return the status of an address once the server listens."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.status
        except (ConnectionError, urllib.error.URLError):
            time.sleep(0.2)
    return 0
