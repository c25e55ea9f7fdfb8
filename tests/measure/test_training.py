"""fitgauge train-measure: what a step printed is put beside its estimate; a program here prints
what transformers 5.23 printed of the tiny model on a CPU. The system tests run it itself."""

import json
import shlex
import stat

import msgspec
import pytest
from click.testing import CliRunner

from accuracy.local import local_runs, report
from checkpoints import write_folder
from fitgauge.cli import main
from fitgauge.engine.quantity import GIB
from fitgauge.measure.training import Printed, step_row

SECRET = "hf_" + "a" * 34
PRINTED = (
    "Loading weights: 100%\n"
    'fitgauge-measured {"version": "5.23.0", "torch": "2.13.0+cpu", "gpu": null, "measured":'
    ' {"weights": 427264, "forward": 3030956, "backward": 4459164, "gradients": 427264,'
    ' "optimizer_step": 2136468, "optimizer_states": 854528}}\n'
)
"""Of the tiny model in fp32, 2 samples of 256 tokens, with checkpointing."""
STEP = ("--sequence-length", "256", "--micro-batch-size", "2", "--precision", "fp32")


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Provide a way to measure with a program that prints a text, and what it was started with."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    folder, started = tmp_path / "secret-model", tmp_path / "started"
    folder.mkdir()
    write_folder(folder)

    def measure(text, *arguments):
        program, printed = tmp_path / "python", tmp_path / "printed"
        printed.write_text(text)
        program.write_text(
            f'#!/bin/sh\ntest "$1" = -c && exit 0\necho "$2" > {shlex.quote(str(started))}\n'
            f"cat {shlex.quote(str(printed))}\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        result = CliRunner().invoke(
            main,
            ["train-measure", str(folder), "--cpu", "--python", str(program), *STEP, *arguments],
        )
        return result, json.loads(started.read_text()) if started.exists() else None

    return measure


def test_a_step_is_put_beside_its_estimate(trained):
    result, settings = trained(PRINTED, "--json")
    assert result.exit_code == 0, result.output
    assert settings["sequence_length"] == 256
    assert settings["precision"] == "fp32"
    assert settings["checkpointing"]
    assert settings["implementation"] == "foreach"
    terms = {term["name"]: term for term in json.loads(result.stdout)["terms"]}
    assert set(terms) == {
        "weights", "forward", "backward", "optimizer_step", "optimizer_states"
    }  # fmt: skip
    for name in ("weights", "optimizer_states"):
        assert terms[name]["measured"] == terms[name]["estimated"]
    for name in ("forward", "backward", "optimizer_step"):
        assert terms[name]["measured"] == pytest.approx(terms[name]["estimated"], rel=0.01)


def test_a_person_sees_bars_and_the_row(trained):
    result, _ = trained(PRINTED)
    assert result.stdout.count("estimated") == result.stdout.count("measured ") == 5
    assert "+0.3%" in result.stdout
    assert '"operation":"check_training_fit"' in result.stdout


def test_nothing_of_this_machine_is_in_the_row(trained, tmp_path):
    path = tmp_path / "rows.jsonl"
    for _ in range(2):
        trained(PRINTED, "--write", str(path))
    assert "secret" not in path.read_text()
    (run,) = local_runs(path)
    assert run.scores == ["outcome"]
    assert run.operation == "check_training_fit"
    assert "out of range" in next(iter(report((run,))))  # of 107,000 parameters


def test_a_row_of_a_bundled_model_is_scored_phase_by_phase(tmp_path):
    question = {"model": "Qwen/Qwen3-0.6B", "gpu": "rtx-4090-24gb", "method": "full",
                "framework": "transformers", "precision": "bf16", "sequence_length": 512,
                "micro_batch_size": 1}  # fmt: skip
    row = step_row(printed_of(GIB), question, question)
    assert row.scores == ["training", "outcome"]
    (line,) = report_of(tmp_path, row)
    assert "transformers" in line
    for name in ("forward", "backward", "optimizer_step"):
        assert f"{name} " in line


@pytest.mark.parametrize("changed", [{"lora_targets": ["q_proj"]}, {"model": "somebody/else"}])
def test_what_the_row_may_not_tell_is_not_scored(changed):
    question = {"model": "Qwen/Qwen3-0.6B", "gpu": "rtx-4090-24gb", "method": "lora"}
    assert step_row(printed_of(GIB), question | changed, question).scores == ["outcome"]


def printed_of(size):
    names = ("weights", "forward", "backward", "gradients", "optimizer_step", "optimizer_states")
    return Printed(version="5.23.0", torch="2.13.0", gpu="a GPU",
                   measured=dict.fromkeys(names, size))  # fmt: skip


def report_of(folder, row):
    path = folder / "rows.jsonl"
    path.write_bytes(msgspec.json.encode(row) + b"\n")
    return list(report(local_runs(path)))


@pytest.mark.parametrize(
    "arguments, word",
    [
        (("--method", "qlora"), "full or lora"),
        (("--optimizer", "adafactor"), "adamw"),
        (("--gpu-count", "2"), "--gpu-count 1"),
    ],
)
def test_what_cannot_be_measured_is_said_and_not_started(trained, arguments, word):
    result, started = trained(PRINTED, *arguments)
    assert result.exit_code == 2
    assert word in result.stderr
    assert started is None


def test_a_step_that_did_not_end_is_no_measurement(trained):
    result, _ = trained(f"CUDA out of memory, token={SECRET}\n")
    assert result.exit_code == 2
    assert "out of memory" in result.stderr
    assert SECRET not in result.stderr
