"""Tables in terminals of 80 and 60 columns: every column, none wider; ASCII where there is no
more."""

import json

import pytest
from click.testing import CliRunner, Result

from fitgauge.cli import main

PAIR = "Qwen/Qwen3-30B-A3B-Instruct-2507, openai/gpt-oss-20b"
TABLES = {
    "compare": (
        (PAIR, "RTX PRO 6000 Blackwell Workstation, 4090", "--context-lengths", "8192,32768"),
        ("model", "GPUs", "context", "length", "verdict", "GiB"),
    ),
    "recommend": (
        ("Qwen/Qwen3-32B", "--gpus", "L40S, RTX 4090", "--engine", "vllm", "--limit", "3"),
        ("GPUs", "engine", "GiB", "tokens/s", "1st", "USD/h", "USD/M", "tokens"),
    ),
    "models-for": (
        ("RTX PRO 6000 Blackwell Workstation", "--limit", "4"),
        ("model", "10^9", "engine", "weights", "verdict", "GiB"),
    ),
    "gpus": (("rtx pro",), ("id", "name", "usable", "GB/s", "USD/h")),
}
"""Arguments of each command, and the words of its table's heads."""


def run(*arguments: str, charset: str = "utf-8", **environment: str) -> Result:
    """Run the command in a terminal of this character set."""
    return CliRunner(charset).invoke(main, arguments, env=environment)


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("name", TABLES)
def test_a_narrow_terminal_has_every_column(name: str, columns: int) -> None:
    arguments, heads = TABLES[name]
    result = run(name, *arguments, charset="ascii", COLUMNS=str(columns))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.isascii()
    assert "..." not in result.stdout
    lines = result.stdout.splitlines()
    last = heads[-1]
    end = next(at for at, line in enumerate(lines) if line.endswith(last))
    words = " ".join(lines[end - 2 if end > 1 else 0 : end + 1]).replace(",", "").split()
    assert set(heads) <= set(words)
    if name in ("compare", "gpus"):  # the others print commands and notes, which are not wrapped
        assert max(map(len, lines[end:])) <= columns


@pytest.mark.parametrize("name", ["check", "compare", "recommend", "models-for"])
def test_errors_are_json_under_json(name: str) -> None:
    arguments = {"models-for": ("no such thing",), "recommend": ("no/such", "--gpus", "nothing")}
    result = run(name, *arguments.get(name, ("Qwen/Qwen3-8B", "no such thing")), "--json")
    if result.exit_code:
        assert {"code", "detail", "hint"} <= json.loads(result.stdout).keys()
    else:  # compare says it in the row
        assert json.loads(result.stdout.splitlines()[0])["error"]["code"]


def test_a_limit_of_zero_is_left_out() -> None:
    text = run("check", "Qwen/Qwen3-32B", "RTX 4090").stdout
    assert "longest context" not in text
    assert "fewest GPUs" in text
