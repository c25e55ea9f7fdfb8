"""fitgauge recommend, models-for and compare: tables with bars, or the API's own answers."""

import json

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_recommend_tells_the_best_the_others_and_how_to_start_it(run):
    result = run(
        "recommend",
        "Qwen/Qwen3-32B",
        "--context-length",
        "8192",
        "--gpus",
        "2x L40S, RTX 4090",
        "--engine",
        "vllm",
    )
    assert result.exit_code == 0, result.output
    assert "The fewest GPUs" in result.output
    assert "1 x RTX 4090" in result.output
    assert "2 x L40S" in result.output
    assert "vllm serve Qwen/Qwen3-32B" in result.output


def test_recommend_tells_prices_as_numbers_and_bars(run):
    result = run(
        "recommend",
        "Qwen/Qwen3-32B",
        "--gpus",
        "L40S",
        "--objective",
        "cheapest",
        "--max-usd-per-hour",
        "20",
        "--limit",
        "3",
    )
    assert result.exit_code == 0, result.output
    assert "USD/h" in result.output
    lines = [line for line in result.output.splitlines() if " x L40S" in line and "█" in line]
    assert lines
    assert all(line.count("█") > 3 for line in lines)
    assert "USD/M tokens" in result.output


def test_recommend_tells_what_trains_the_model(run):
    result = run(
        "recommend",
        "Qwen/Qwen3-8B",
        "--task",
        "training",
        "--method",
        "lora",
        "--gpus",
        "2x RTX 4090",
        "--owned",
    )
    assert result.exit_code == 0, result.output
    assert "LoRA training of Qwen/Qwen3-8B fits on" in result.output
    assert "RTX 4090" in result.output
    assert "accelerate launch" in result.output


def test_recommend_gives_the_apis_own_answer(run):
    answer = json.loads(
        run("recommend", "7b", "--gpus", "RTX 4090", "--limit", "1000", "--json").output
    )
    assert answer["total"] == len(answer["items"])
    assert answer["items"][0]["request"]["gpu"] == "RTX 4090"


def test_what_leaves_nothing_is_told_with_what_to_send(run):
    result = run("recommend", "70b", "--gpus", "RTX 4090", "--vendors", "AMD")
    assert result.exit_code == 2
    assert "exclude each other" in result.output


def test_models_for_lists_what_runs(run):
    result = run("models-for", "RTX 3090", "--search", "qwen3-8b")
    assert result.exit_code == 0, result.output
    assert "Qwen/Qwen3-8B" in result.output
    assert "█" in result.output


def test_compare_has_a_line_a_cell_and_names_only_what_differs(run):
    result = run("compare", "7b, 70b", "2x L40S", "--context-lengths", "4096,65536")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if "2 x L40S" in line]
    assert len(lines) == 4
    assert "context length" in result.output
    assert "engine" not in result.output


def test_compare_gives_one_row_a_line(run):
    rows = [
        json.loads(line)
        for line in run("compare", "7b", "RTX 4090, H100", "--json").output.splitlines()
    ]
    assert [row["gpu"] for row in rows] == ["RTX 4090", "H100 SXM"]


def test_numbers_that_are_none_are_refused(run):
    assert run("compare", "7b", "H100", "--context-lengths", "4096,many").exit_code == 2


def test_a_narrow_terminal_shows_numbers_without_bars(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run("recommend", "Qwen/Qwen3-4B", "--gpus", "RTX 4090")
    assert result.exit_code == 0, result.output
    assert "█" not in result.output
    assert "USD/M tokens" in result.output


def test_a_narrow_list_of_models_names_the_engine(run):
    assert " mlx " in run("models-for", "M3 Max 64GB", "--search", "qwen3-8b").output


def test_what_the_contract_refuses_is_named_as_it_is_typed(run):
    result = run("recommend", "7b", "--max-gpu-count", "9999999")
    assert result.exit_code == 2
    assert "--max-gpu-count must be at most " in result.output
