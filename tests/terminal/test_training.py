"""fitgauge train-plan, utilization and explain-trace: the other questions of training in a
terminal."""

import gzip
import json

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: CliRunner().invoke(main, [*map(str, arguments)])


def test_a_plan_has_a_line_a_layout_and_the_command_and_files_of_the_first(run):
    result = run("train-plan", "Qwen/Qwen3-8B", "H100", "--framework", "fsdp", "--gpu-count", 8)
    assert result.exit_code == 0, result.output
    for words in (
        "trains by full fine-tuning on 8 x H100 SXM",
        "fsdp, data 8, ZeRO-3",
        "█",
        "--config_file fsdp.yaml",
        "num_processes: 8",
    ):
        assert words in result.output


def test_no_plan_is_exit_code_1_and_none_that_can_be_is_2(run):
    nothing = run("train-plan", "70b", "24GB", "--max-gpu-count", 2)
    assert (nothing.exit_code, "QLoRA" in nothing.output) == (1, True)
    assert (
        run(
            "train-plan",
            "70b",
            "24GB",
            "--gpu-count",
            7,
            "--global-batch-size",
            64,
            "--framework",
            "fsdp",
        ).exit_code
        == 2
    )


def test_a_plan_is_the_answer_of_the_api(run):
    plans = json.loads(
        run("train-plan", "Qwen/Qwen3-8B", "H100", "--gpu-count", 8, "--json").output
    )["plans"]
    assert all(plan["headroom_bytes"] > 0 for plan in plans)


def test_utilization_is_drawn_as_bars_with_what_to_change(run):
    result = run("utilization", "8xH100", "--model", "7b", "--tokens-per-second", 20000)
    assert result.exit_code == 0, result.output
    assert "MFU 11.24%" in result.output
    assert "█" in result.output
    assert "is low" in result.output
    assert run("utilization", "H100").exit_code == 2


def test_a_trace_is_read_from_a_file_and_from_standard_input(run, tmp_path):
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "nvjet_hsh",
        "ts": 0,
        "dur": 7,
        "args": {"device": 0},
    }
    data = gzip.compress(
        json.dumps(
            {
                "traceEvents": [
                    kernel,
                    {**kernel, "name": "ncclDevKernel_AllReduce", "ts": 7, "dur": 3},
                ]
            }
        ).encode()
    )
    (tmp_path / "trace.json.gz").write_bytes(data)
    result = run("explain-trace", tmp_path / "trace.json.gz")
    assert result.exit_code == 0, result.output
    assert "70.0%" in result.output
    assert CliRunner().invoke(main, ["explain-trace", "-"], input=data).output == result.output
    (tmp_path / "none.json").write_text("{}")
    assert run("explain-trace", tmp_path / "none.json").exit_code == 2
