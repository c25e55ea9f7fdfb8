"""fitgauge ask: what was understood, the answer as its own command prints it, the exit code."""

import json

import pytest
from click.testing import CliRunner

from fitgauge.cli import main


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: CliRunner().invoke(main, ["ask", *arguments])


@pytest.mark.parametrize(
    "question, code, text",
    [
        ("does Qwen3 8B fit on an H100?", 0, "FITS"),
        ("does a 70b in fp16 fit on a 4090?", 1, "DOES NOT FIT"),
        ("LoRA a 7b on an H100?", 0, "FITS"),
        ("which models run on a 3060 12GB?", 0, "RTX 3060"),
        ("which GPU for Qwen3 8B?", 0, "tokens/s"),
        ("compare Qwen3 8B and Qwen3 32B on a 4090", 0, "Qwen/Qwen3-32B"),
        ("which parallelism layout to train Qwen3 8B on 8 H100?", 0, "ZeRO-3"),
        ("does it fit on a 4090?", 2, "model"),
        ("who wrote the moonlight sonata?", 2, "GPU memory"),
    ],
)
def test_a_question_is_answered_as_its_command_does(run, question, code, text):
    result = run(question)
    assert result.exit_code == code, result.output
    assert text in result.output


def test_words_need_no_quotes(run):
    result = run("does", "Qwen3", "8B", "fit", "on", "an", "H100")
    assert result.exit_code == 0, result.output
    assert "model Qwen3 8B" in result.output


def test_json_is_the_answer_of_the_api(run):
    result = run("does Qwen3 8B fit on an H100?", "--json")
    answer = json.loads(result.output)
    assert answer["operation"] == "check_fit"
    assert answer["understood"] == {"model": "Qwen3 8B", "gpu": "H100"}
    assert answer["answer"]["verdict"] == "fits"
