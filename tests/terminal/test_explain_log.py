"""fitgauge explain-log: a file or standard input in, a table out, a line for the truth file."""

import json
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from fitgauge.cli import main
from fitgauge.services.explain_log.schemas import ComparisonRow, LogAnswer, LogCase
from fitgauge.terminal.logs import show_ledger

ROOT = Path(__file__).parents[2]
LOG = """\
INFO 04-19 11:05:16 [core.py:107] Initializing a V1 LLM engine (v0.19.0) with config:\
 model='Qwen/Qwen3-8B', max_seq_len=4096
INFO 04-19 11:05:50 [gpu_model_runner.py:4837] Model loading took 15.27 GiB memory and 27.6 seconds
"""


@pytest.fixture
def run():
    def told(*arguments, **options):
        return CliRunner().invoke(main, ["explain-log", *map(str, arguments)], **options)

    return told


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    return path


def test_a_file_is_told_as_a_table(run, log):
    result = run(log, "--gpu", "H100")
    assert result.exit_code == 0, result.output
    assert "weights" in result.output
    assert "15.27 GiB" in result.output


def test_standard_input_is_read(run):
    assert run("-", "--gpu", "H100", input=LOG).exit_code == 0


def test_any_bytes_are_read(run, log):
    log.write_bytes(b"\xff\xfe\x00" + LOG.encode() + b"\xc3")
    assert run(log, "--gpu", "H100").exit_code == 0


def test_json_is_the_apis_own_answer(run, log):
    answer = json.loads(run(log, "--gpu", "H100", "--json").output)
    assert answer["rows"][0]["name"] == "weights"
    assert answer["readings"][0]["line"] == 2


def test_the_run_is_appended_once(run, log, tmp_path):
    truth = tmp_path / "truth.jsonl"
    for _ in range(2):
        assert run(log, "--gpu", "H100", "--append", truth).exit_code == 0
    (line,) = truth.read_text().splitlines()
    assert json.loads(line)["measured"] == {"weights_gib": 15.27}


def test_what_is_missing_is_told_with_exit_code_2(run, log):
    result = run(log)
    assert result.exit_code == 2
    assert "Use --gpu with the log" in result.output
    log.write_text("hello")
    assert run(log).exit_code == 2


def test_a_picture_fits_a_terminal_of_eighty_columns():
    row = ComparisonRow(
        name="kv_tokens_of_pool",
        unit="tokens",
        measured=10_000_000,
        estimated=9_999_000,
        low=9_000_000,
        high=11_000_000,
        difference=1000,
        within=True,
    )
    weights = ComparisonRow(
        name="weights",
        unit="bytes",
        measured=2**36,
        estimated=2**35,
        low=1,
        high=2,
        difference=2**35,
        within=False,
    )
    bare = ComparisonRow(name="cuda_graphs", unit="bytes", measured=-(2**28))
    case = LogCase(
        id="local-0", question={}, outcome=None, measured={}, scores=[], source="local:0"
    )
    answer = LogAnswer(
        summary="short", engine="vllm", engine_version=None, outcome=None, model=None, gpu=None,
        understood_as={},
        rows=[row, weights, bare], largest_difference=None, causes=[], warnings=[], case=case,
    )  # fmt: skip
    console = Console(width=80, record=True, file=StringIO())
    show_ledger(answer, console)
    lines = console.export_text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not any("…" in line for line in lines)
    assert any("+32.00 GiB" in line for line in lines)


@pytest.mark.parametrize(
    "name, gpu", [("out_of_memory.log", "RTX 4090"), ("vllm_qwen3_8b_h100.log", "H100")]
)
def test_a_log_to_try_is_explained(run, name, gpu):
    result = run(str(ROOT / "docs" / "logs" / name), "--gpu", gpu)
    assert result.exit_code == 0, result.output
    assert "weights" in result.output


def test_a_message_without_a_model_or_a_gpu_is_answered(run, log):
    log.write_text("CUDA out of memory")
    result = run(log)
    assert result.exit_code == 0, result.output
    assert "nvidia-smi" in result.output


def test_the_command_is_read_where_the_log_has_none(run, log):
    log.write_text("CUDA out of memory")
    command = "vllm serve Qwen/Qwen3-32B --max-model-len 4096"
    result = run(log, "--gpu", "RTX 4090", "--command", command, "--json")
    assert json.loads(result.output)["understood_as"]["context_length"] == 4096
