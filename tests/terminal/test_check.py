"""`fitgauge check` and `train-check` without a GPU."""

import json

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


def run(*arguments):
    return CliRunner().invoke(main, arguments, env={"HF_HUB_OFFLINE": "1"})


@pytest.mark.parametrize(
    "command, names",
    [("check", ("bf16", "fp8", "awq")), ("train-check", ("lora", "qlora", "full"))],
)
def test_without_a_gpu_the_needs_are_printed(command, names):
    result = run(command, "Qwen/Qwen3-8B")
    assert result.exit_code == 0
    lines = [line.split()[0] for line in result.output.splitlines() if line.strip()]
    assert set(names) <= set(lines)
    answer = json.loads(run(command, "Qwen/Qwen3-8B", "--json").output)
    assert answer["verdict"] is answer["gpu"] is None
    for one in answer["smallest"]:
        assert one["gpu"] in result.output


@pytest.mark.parametrize("command", ["check", "train-check"])
def test_an_empty_gpu_is_none(command):
    result = run(command, "Qwen/Qwen3-8B", "")
    assert result.exit_code == 0
    assert result.output == run(command, "Qwen/Qwen3-8B").output


def test_each_gpu_of_several_kinds_is_printed():
    result = run("check", "Qwen/Qwen3-32B", "1x4090 1x3060", "--engine", "llama.cpp")
    assert result.exit_code == 0
    assert "RTX 4090: 44 layers" in result.output
    assert "RTX 3060 12GB: 20 layers" in result.output


def test_a_gpu_is_no_option():
    assert run("check", "Qwen/Qwen3-8B", "--gpu", "4090").exit_code == 2
