"""Rows of the bot leave the house without names."""

import json
import re

import pytest
from click.testing import CliRunner

from accuracy.local import local_runs, report
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.cli import main
from fitgauge.services.truth_export import exported

ROW = {
    "date": "2026-11-23",
    "operation": "check_fit",
    "question": {
        "model": "qwen3-8b",
        "gpu": "4090",
        "gpu_count": 2,
        "context_length": 8192,
        "engine": "vllm",
        "enforce_eager": True,
        "draft_model": "acme/secret-draft",
    },
    "model": "Qwen/Qwen3-8B",
    "parameters": 8_190_735_360,
    "gpu": "rtx-4090-24gb",
    "verdict": "fits",
    "fit_probability": 0.95,
    "required_bytes": 10,
    "available_bytes": 20,
    "outcome": "served",
}


def export(**changes):
    return next(exported([json.dumps(ROW | changes)], Snapshot(), bundled()))


def test_a_public_model_and_a_gpu_of_the_catalog_are_named():
    row = export()
    assert row["question"] == {
        "model": "Qwen/Qwen3-8B",
        "gpu": "rtx-4090-24gb",
        "gpu_count": 2,
        "context_length": 8192,
        "engine": "vllm",
        "enforce_eager": True,
    }
    answered = row["answered"]
    assert (answered["verdict"], row["outcome"], answered["required_bytes"]) == (
        "fits",
        "served",
        10,
    )


def test_a_model_that_is_not_public_is_its_size():
    row = export(model="acme/secret", question={"model": "acme/secret", "gpu": "4090"})
    assert row["question"]["model"] == "8.19b"
    assert "acme" not in json.dumps(row)


def test_a_gpu_of_a_catalog_of_ones_own_is_left_out():
    assert "gpu" not in export(gpu="acme-gpu")["question"]


def test_the_command_prints_a_line_for_each_row(tmp_path):
    (tmp_path / "truth.jsonl").write_text(f"{json.dumps(ROW)}\n\n{json.dumps(ROW)}\n", "utf-8")
    result = CliRunner().invoke(main, ["truth", "export", "--data", str(tmp_path)])
    assert result.exit_code == 0
    assert [json.loads(line)["outcome"] for line in result.stdout.splitlines()] == ["served"] * 2


def test_rows_are_those_that_make_accuracy_takes(tmp_path):
    failed = ROW | {"outcome": "failed"}
    unknown = ROW | {"model": "acme/secret", "question": {"model": "acme/secret", "gpu": "4090"}}
    trained = ROW | {
        "operation": "check_training_fit",
        "question": {"model": "qwen3-8b", "gpu": "4090", "method": "qlora"},
    }
    rows = [ROW, ROW, failed, unknown, trained]
    path = tmp_path / "rows.jsonl"
    lines = exported(map(json.dumps, rows), Snapshot(), bundled())
    path.write_text("".join(f"{json.dumps(row)}\n" for row in lines), "utf-8")
    runs = local_runs(path)
    assert len({run.id for run in runs}) == len(rows)
    assert [run.outcome for run in runs] == ["served", "served", "failed", "served", "served"]
    judged = [line.rpartition(": ")[2] for line in report(runs)]
    assert all(re.fullmatch(r"(fits|tight|does_not_fit) where it .+", line) for line in judged)
    assert judged[2].endswith("did not run")


@pytest.mark.parametrize("content", [None, "nonsense\n", '{"date": 7}\n'])
def test_a_file_that_holds_no_rows_is_said(tmp_path, content):
    if content is not None:
        (tmp_path / "truth.jsonl").write_text(content, "utf-8")
    result = CliRunner().invoke(main, ["truth", "export", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr


def test_the_bot_says_which_tokens_it_needs(monkeypatch):
    for name in ("SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_APP_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(main, ["slack"])
    assert result.exit_code == 2
    assert "SLACK_BOT_TOKEN" in result.stderr
