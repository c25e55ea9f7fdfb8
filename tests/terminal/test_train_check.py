"""fitgauge train-check: the question of POST /v1/training-fit in a terminal."""

import json

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return lambda *arguments: CliRunner().invoke(main, ["train-check", *map(str, arguments)])


def test_what_fits_is_drawn_with_its_phases_and_ends_with_0(run):
    result = run(
        "Qwen/Qwen3-0.6B",
        "A100 80GB",
        "--method",
        "lora",
        "--lora-rank",
        8,
        "--sequence-length",
        1024,
    )
    assert result.exit_code == 0, result.output
    for words in (
        "FITS",
        "optimizer_states",
        "backward",
        "allocated",
        "reserved",
        "largest micro-batch",
        "accelerate launch",
    ):
        assert words in result.output


def test_what_does_not_fit_ends_with_1_and_says_what_to_change(run):
    result = run("meta-llama/Llama-3.1-8B-Instruct", "RTX 4090", "--method", "full")
    assert result.exit_code == 1
    assert "fits:" in result.output


def test_json_is_the_answer_of_the_api(run):
    result = run("Qwen/Qwen3-0.6B", "A100 80GB", "--json")
    assert json.loads(result.output)["per_gpu"]["allocated_bytes"]["expected"] > 0


def test_a_setting_that_is_no_choice_is_refused(run):
    assert run("Qwen/Qwen3-0.6B", "A100 80GB", "--attention", "best").exit_code == 2


def test_a_switch_can_be_turned_off(run):
    result = run(
        "Qwen/Qwen3-0.6B",
        "A100 80GB",
        "--framework",
        "megatron",
        "--no-expandable-segments",
        "--json",
    )
    assert json.loads(result.output)["understood_as"]["expandable_segments"] is False


@pytest.mark.parametrize("columns", ["60", "80"])
def test_a_picture_keeps_its_numbers_in_a_narrow_terminal(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    picture = run("meta-llama/Llama-3.1-8B", "A100 80GB", "--method", "full").output.split(
        "forward"
    )[0]
    assert "optimizer_temporaries" in picture
    assert "…" not in picture
