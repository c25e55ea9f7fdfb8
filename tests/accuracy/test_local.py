"""Runs of one's own, from log to figure."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from accuracy.local import errors, local_runs, report
from bundled_models import shared_questions
from fitgauge.services.explain_log.schemas import ExplainLogRequest

LOGS = Path(__file__).parent.parent / "logs" / "data"


@pytest.fixture
def truth(tmp_path):
    """Provide a truth file of posted logs: one that can be scored, one that ran out of memory,
    one whose model is not known."""
    questions = shared_questions()
    asked = (
        ("vllm_0.11.2_deepseek_r1_tp8.log", {"gpu": "H200"}),
        ("torch_oom_old.log", {"model": "Qwen/Qwen2.5-7B-Instruct"}),
        ("vllm_kv_needed.log", {"model": "8b", "gpu": "RTX 4090"}),
    )
    path = tmp_path / "truth.jsonl"
    with path.open("wb") as file:
        for name, fields in asked:
            request = ExplainLogRequest(log=(LOGS / name).read_text(), **fields)
            file.write(
                msgspec.json.encode(asyncio.run(questions.explain_log(request)).case) + b"\n"
            )
    return path


def test_a_run_is_scored_for_what_it_shows(truth):
    scored = dict(errors(local_runs(truth)[0]))
    assert scored.keys() == {"weights", "kv_tokens", "planner"}
    assert abs(scored["planner"]) < 0.001
    assert abs(scored["weights"]) < 0.02


def test_every_run_has_its_line(truth):
    lines = list(report(local_runs(truth)))
    assert len(lines) == 3
    assert "planner" in lines[0]
    assert "where it ran out of memory" in lines[1]
    assert "not known" in lines[2]
