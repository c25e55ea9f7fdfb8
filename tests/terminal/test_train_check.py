"""fitgauge train-check: the question of POST /v1/training-fit in a terminal."""

import json

import pytest
from click.testing import CliRunner

from fitgauge.cli import main
from fitgauge.services.training_fit.length_files import read_lengths
from fitgauge.services.training_fit.run_fields import MOST_LENGTHS


@pytest.fixture
def run():
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


@pytest.mark.parametrize(
    "text",
    [
        "512\n512\n2048\n",
        "[512, 512, 2048]",
        '{"512": 2, "2048": 1}',
        "length,count\n512,2\n2048,1\n",
        "512\t1\n2048\t1\n512\t1\n",
        "tokens\n512\n512\n2048\n",
    ],
    ids=str,
)
def test_lengths_are_read_from_a_file(run, tmp_path, text):
    file = tmp_path / "lengths"
    file.write_text(text)
    result = run("Qwen/Qwen3-0.6B", "A100 80GB", "--lengths", file, "--epochs", 2, "--json")
    answer = json.loads(result.output)
    assert answer["run"]["tokens"] == 2 * 3072
    assert answer["understood_as"]["sequence_length"] == 2048


@pytest.mark.parametrize(
    "text", ["", "a b", "tokens", "0,4", "512,0", "[0]", "[]", '{"512": 0}', "123456789", "[1.5]"]
)
def test_a_file_without_lengths_is_refused(run, tmp_path, text):
    file = tmp_path / "lengths"
    file.write_text(text)
    result = run("Qwen/Qwen3-0.6B", "A100 80GB", "--lengths", file)
    assert result.exit_code == 2
    assert "--lengths" in result.output


def test_many_different_lengths_are_rounded_up_to_fewer():
    samples = read_lengths(" ".join(map(str, range(1, 20_001))).encode())
    assert len(samples) <= MOST_LENGTHS
    assert sum(samples.values()) == 20_000
    assert max(map(int, samples)) == 20_000


def test_time_and_cost_of_a_run_are_printed(run):
    result = run("Qwen/Qwen3-0.6B", "A100 80GB", "--samples", "10k", "--epochs", 3)
    assert "The run of 61,440,000 tokens takes" in " ".join(result.output.split())
    assert "GPU hours" in result.output


def test_configuration_files_are_written_into_a_directory(run, tmp_path):
    place = tmp_path / "run"
    result = run("Qwen/Qwen3-0.6B", "A100 80GB", "--trainer", "axolotl", "--files", place)
    assert result.exit_code == 0
    assert place.joinpath("axolotl.yaml").read_text("utf-8").startswith("base_model:")
    assert f"cd {place} && axolotl train axolotl.yaml" in result.stderr


@pytest.mark.parametrize(
    ("settings", "why"),
    [(("--trainer", "torchtune"), "command line"), (("--method", "full"), "does not fit")],
)
def test_no_files_are_written_where_there_are_none(run, tmp_path, settings, why):
    gpu = "A100 80GB" if why == "command line" else "RTX 3050 8GB"
    model = "meta-llama/Llama-3.2-1B" if why == "command line" else "meta-llama/Llama-3.1-8B"
    result = run(model, gpu, *settings, "--files", tmp_path / "run")
    assert why in result.stderr
    assert not tmp_path.joinpath("run").exists()


def test_what_is_around_a_run_is_printed(run):
    result = run(
        "Qwen/Qwen3-0.6B", "2x A100 80GB", "--method", "lora", "--eval-batch-size", 8, "--merge",
        "--resume-gpu-count", 1,
    )  # fmt: skip
    output = " ".join(result.output.split())
    for words in (
        "Evaluation of 8 sequences",
        "Merging the adapters",
        "Resumed on one GPU it fits",
    ):
        assert words in output
