"""README and the first page of the documentation: they are short, and what they count is there."""

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from accuracy.run import in_readme
from fitgauge.catalog import instances
from fitgauge.catalog.accuracy import accuracy
from fitgauge.cli import main
from live.conformance import OPERATIONS

ROOT = Path(__file__).parents[1]
README = ROOT.joinpath("README.md").read_text("utf-8")
FRONT = ROOT.joinpath("docs", "README.md").read_text("utf-8")
LONGEST, FIRST_SCREEN = 120, 20
"""lines"""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def test_the_answer_is_in_the_first_screen_and_the_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= LONGEST
    first = "\n".join(lines[:FIRST_SCREEN])
    assert "docs/answer.svg" in first
    assert "make serve" in first
    assert first.count("<!-- accuracy") == 2


def test_every_operation_is_on_the_first_page_of_the_documentation():
    assert [operation.path for operation in OPERATIONS if operation.path not in FRONT] == []


def test_the_machines_are_as_many_as_the_documentation_says():
    machines = instances.load().all()
    priced = [machine for machine in machines if machine.usd_per_hour_low is not None]
    numbers = re.search(
        r"(\d+) machines of (\d+) clouds map to their GPUs, (\d+) with a dated", FRONT
    )
    assert [int(number) for number in numbers.groups()] == [
        len(machines),
        len({machine.cloud for machine in machines}),
        len(priced),
    ]


def test_the_readme_prints_what_the_command_prints(monkeypatch):
    """But for the warnings, and for numbers within a twentieth."""
    monkeypatch.setenv("COLUMNS", "130")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    block = re.search(r"^\$ \.venv/bin/(fitgauge check .*)\n((?:.*\n)+?)```", README, re.MULTILINE)
    told = CliRunner().invoke(main, shlex.split(block[1])[1:]).output
    printed, now = (" ".join(re.sub("[█▉▊▋▌▍▎▏]", "", text).split()) for text in (block[2], told))
    assert _NUMBER.sub("#", now).startswith(_NUMBER.sub("#", printed))
    numbers = [
        [float(number.replace(",", "")) for number in _NUMBER.findall(text)]
        for text in (printed, now)
    ]
    assert numbers[0] == pytest.approx(numbers[1][: len(numbers[0])], rel=0.05, abs=0.2)


def test_the_lines_on_accuracy_are_the_figures_that_the_service_answers():
    figures = [msgspec.to_builtins(figure) for figure in accuracy()]
    assert in_readme(README, figures) == README, "run: make accuracy"
