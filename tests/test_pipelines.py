"""What runs in others' pipelines: the GitHub Action's own script, and the GitLab template."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
EXAMPLE = "docs/deployments/chat.yaml"
ACTION = yaml.safe_load(ROOT.joinpath("action.yml").read_text("utf-8"))
TEMPLATE = yaml.safe_load(ROOT.joinpath("templates/fitgauge.gitlab-ci.yml").read_text("utf-8"))


def run(script, folder, **variables):
    """Return what a script of bash ends with, run as a pipeline runs it."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        **variables,
    }
    command = [str(shutil.which("bash")), "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / EXAMPLE
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / EXAMPLE, path)
    return tmp_path


@pytest.mark.parametrize("replicas, code", [("2", 0), ("1", 1)])
def test_the_action_fails_where_a_server_does_not_fit(folder, replicas, code):
    path = folder / EXAMPLE
    path.write_text(path.read_text().replace("nvidia.com/gpu: 2", f"nvidia.com/gpu: {replicas}"))
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("name") == "Check manifests"]
    defaults = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
    variables = {
        name: {**defaults, "files": f"{EXAMPLE}\n"}[value.removeprefix("${{ inputs.")[:-3]]
        for name, value in step["env"].items()
    }
    summary = folder / "summary.md"
    ended = run(step["run"], folder, GITHUB_STEP_SUMMARY=str(summary), **variables)
    assert ended.returncode == code, ended.stderr
    assert summary.read_text("utf-8").startswith("### ")
    results = json.loads(folder.joinpath("fitgauge.sarif").read_text("utf-8"))["runs"][0]["results"]
    assert [one["level"] for one in results] == ["error"] * code


def test_every_input_of_the_action_is_read():
    used = {
        value
        for step in ACTION["runs"]["steps"]
        for value in step.get("env", {}).values()
        if "inputs." in value
    }
    assert used == {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}


def test_the_template_writes_its_artifacts(folder):
    job = TEMPLATE["fitgauge"]
    ended = run("\n".join(job["script"]), folder, FITGAUGE_FILES="docs")
    assert ended.returncode == 0, ended.stderr
    assert all(folder.joinpath(name).stat().st_size for name in job["artifacts"]["paths"])


def test_an_image_that_plans_a_fleet_has_the_solver_that_is_tested():
    """Its lock holds the lines of the development's, and what the extra asks for."""
    lock = ROOT.joinpath("requirements-fleet.txt").read_text("utf-8")
    assert set(lock.splitlines()) <= set(
        ROOT.joinpath("requirements-dev.txt").read_text("utf-8").splitlines()
    )
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    for wanted in project["project"]["optional-dependencies"]["fleet"]:
        assert f"\n{re.split('[<>=]', wanted)[0]}==" in f"\n{lock}"
    assert "${FLEET:+-r requirements-fleet.txt}" in ROOT.joinpath("Dockerfile").read_text("utf-8")
