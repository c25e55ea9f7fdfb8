"""What a command imports: only what its answer needs, since imports take longer than the answer."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from fitgauge.cli import COMMANDS, main

WIDTH = 80
SCRIPT = """
import sys
from fitgauge.__main__ import run
sys.argv = ["fitgauge", *sys.argv[1:]]
try:
    run()
except SystemExit as ended:
    print(f"exit code {ended.code}", file=sys.stderr)
print("\\n".join(sys.modules), file=sys.stderr)
"""
SERVERS = ("litestar", "uvicorn", "fitgauge.app", "mcp")
TRANSPORT = ("httpx2", "httpcore2", "fitgauge.hub.client")
OTHER_SERVICES = (
    "lark",
    "rapidfuzz",
    "fitgauge.services.ask",
    "fitgauge.services.fleet",
    "fitgauge.services.manifests",
    "fitgauge.services.recommend.service",
    "fitgauge.services.training_fit.service",
    "fitgauge.engine.training.autograd",
    "fitgauge.engine.training.estimate",
)


@pytest.mark.parametrize(
    ("arguments", "needless"),
    [
        (("--help",), (*SERVERS, "rich", "msgspec", "fitgauge.services", "fitgauge.catalog")),
        (("gpus", "H100"), (*SERVERS, *TRANSPORT, "fitgauge.hub", "fitgauge.engine.serving")),
        (("check", "Qwen/Qwen3-8B", "RTX 4090"), (*SERVERS, *TRANSPORT, *OTHER_SERVICES)),
        (("check", "Qwen/Qwen3-8B", "RTX 4090", "--json"), (*SERVERS, *TRANSPORT, *OTHER_SERVICES)),
        (("train-check", "Qwen/Qwen3-8B", "H100"), (*SERVERS, *TRANSPORT, "lark", "rapidfuzz")),
        (("recommend", "Qwen/Qwen3-8B"), (*SERVERS, *TRANSPORT, "lark", "rapidfuzz")),
    ],
    ids=" ".join,
)
def test_a_command_imports_no_more_than_its_answer_needs(arguments, needless):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"HF_HUB_OFFLINE": "1"},
    )
    code, *modules = done.stderr.splitlines()
    assert code == "exit code 0"
    assert "fitgauge.cli" in modules
    assert [name for name in modules if name.startswith(needless)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_list_is_there(name):
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


def test_the_list_of_commands_has_a_whole_line_each():
    lines = CliRunner().invoke(main, ["--help"], terminal_width=WIDTH).output.splitlines()
    listed = lines[lines.index("Commands:") + 1 :]
    rows = listed[: listed.index("")]
    assert [row.split()[0] for row in rows] == sorted(COMMANDS)
    assert all(row.endswith((".", "?")) for row in rows)


def test_the_examples_are_commands_that_exist():
    lines = CliRunner().invoke(main, ["--help"], terminal_width=WIDTH).output.splitlines()
    examples = [line.split() for line in lines[lines.index("  Examples:") + 1 :] if line.strip()]
    assert len(examples) > 2
    assert {words[0] for words in examples} == {"fitgauge"}
    assert {words[1] for words in examples} <= set(COMMANDS)


def test_a_misspelt_command_is_named_as_it_is_written():
    result = CliRunner().invoke(main, ["chek", "qwen3-8b", "4090"])
    assert result.exit_code == 2
    assert "Did you mean 'check'?" in result.output
