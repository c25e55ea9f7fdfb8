"""README and the other pages: what they print can be typed, and what they count is there."""

import re
import shlex
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from accuracy.run import in_readme
from fitgauge.catalog import instances
from fitgauge.catalog.accuracy import accuracy
from fitgauge.cli import main
from fitgauge.settings import Settings, variable
from live.conformance import OPERATIONS

ROOT = Path(__file__).parents[1]
README = ROOT.joinpath("README.md").read_text("utf-8")
PAGES = {
    path.name: path.read_text("utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
}
COMMANDS = sorted(
    {
        found
        for text in PAGES.values()
        for found in re.findall(r"^(?:\$ )?(?:\.venv/bin/)?(fitgauge .*)$", text, re.MULTILINE)
    }
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_pages_is_one_that_the_command_line_takes(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line, comments=True)[1:]
    for word in words:
        if word.endswith((".log", ".toml")):
            tmp_path.joinpath(word).parent.mkdir(parents=True, exist_ok=True)
            tmp_path.joinpath(word).touch()
    command: click.Command = main
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    assert command.make_context(command.name, words)


def test_a_target_of_the_pages_is_one_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", ROOT.joinpath("Makefile").read_text(), re.MULTILINE))
    named = {
        found
        for text in PAGES.values()
        for found in re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)
    }
    assert {"serve", "test", "ask", "accuracy"} <= named <= targets


def test_every_operation_is_in_the_readme():
    assert [operation.path for operation in OPERATIONS if operation.path not in README] == []


def test_every_variable_is_in_the_readme_with_its_default():
    for field, default in msgspec.structs.asdict(Settings()).items():
        row = next(
            line
            for line in README.splitlines()
            if line.startswith("|") and f"`{variable(field)}`" in line
        )
        value = f"{default:g}" if isinstance(default, float) else str(default)
        assert (value.lower() if isinstance(default, bool) else value) in row, field


def test_the_machines_are_as_many_as_the_readme_says():
    machines = instances.load().all()
    priced = [machine for machine in machines if machine.usd_per_hour_low is not None]
    said = re.search(
        r"(\d+) machines of (\d+) clouds map to their cards, (\d+) with a dated", README
    )
    assert [int(number) for number in said.groups()] == [
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
