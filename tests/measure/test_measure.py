"""fitgauge measure: engines that are installed are started, read and ended; these print logs that
engines printed."""

import json
import os
import shlex
import stat
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from accuracy.local import local_runs, report
from checkpoints import write_folder
from fitgauge.cli import main
from fitgauge.measure import NotInstalledError, Start, process, run, start_of
from fitgauge.measure.probe import probed

LOGS = Path(__file__).parents[1] / "logs" / "data"
SECRET = "hf_" + "a" * 34


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Provide a way to install an engine on PATH that prints a log and then serves for ever."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(process, "QUIET_SECONDS", 0.5)

    def install(name, log, *, serves="sleep 600"):
        text = tmp_path / "engine.log"
        text.write_text(log)
        program = tmp_path / name
        program.write_text(
            f"#!/bin/sh\necho $$ $@ >> {tmp_path}/started\ncat {shlex.quote(str(text))}\n{serves}\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return install


def measure(*arguments):
    return CliRunner().invoke(main, ["measure", *arguments])


def posted(name):
    return (LOGS / name).read_text()


@pytest.mark.parametrize(
    "name, log, question",
    [
        ("vllm", "vllm_0.27_qwen3_06b_gb10.log", ("Qwen/Qwen3-0.6B", "GB10")),
        ("llama-server", "llamacpp_2026_cuda.log", ("Qwen/Qwen3-8B", "4090")),
    ],
)
def test_an_engine_is_started_read_and_ended(engine, tmp_path, name, log, question):
    engine(name, posted(log))
    chosen = {"vllm": "vllm", "llama-server": "llama.cpp"}[name]
    result = measure(*question, "--engine", chosen, "--json")
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    assert answer["row"]["question"]["engine"] == chosen
    assert answer["row"]["measured"]
    rows = {row["name"]: row for row in answer["comparison"]["rows"]}
    assert rows["kv_cache"]["estimated"]
    assert not is_running(tmp_path)


def is_running(folder):
    pid = int((folder / "started").read_text().split()[0])
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


def test_ollama_serves_and_a_client_loads_the_model(engine, tmp_path):
    log = posted("ollama_qwen25_coder_7b.log")
    engine("ollama", log, serves='test "$1" = run || exec sleep 600')
    result = measure("Qwen/Qwen2.5-Coder-7B", "RTX 3060", "--engine", "ollama", "--json",
                     "--command", "ollama run qwen2.5-coder:7b")  # fmt: skip
    assert json.loads(result.stdout)["row"]["question"]["engine"] == "ollama"
    started = [line.split()[1:] for line in (tmp_path / "started").read_text().splitlines()]
    assert started == [["serve"], ["run", "qwen2.5-coder:7b"]]


def test_a_row_is_written_once_and_scored(engine, tmp_path):
    engine("vllm", posted("vllm_0.27_qwen3_06b_gb10.log"))
    path = tmp_path / "rows.jsonl"
    for _ in range(2):
        measure("Qwen/Qwen3-0.6B", "GB10", "--engine", "vllm", "--write", str(path))
    runs = local_runs(path)
    assert len(runs) == 1
    assert runs[0].question["gpu"] == "gb10-dgx-spark-128gb"
    assert "where it served" in next(iter(report(runs)))


def test_nothing_of_this_machine_is_in_a_row_or_a_log(engine, tmp_path):
    log = f"token={SECRET}\nloading /home/somebody/secret-model\n"
    engine("vllm", log + posted("vllm_0.27_qwen3_06b_gb10.log"))
    folder = tmp_path / "secret-model"
    folder.mkdir()
    write_folder(folder)
    path, kept = tmp_path / "rows.jsonl", tmp_path / "kept.log"
    result = measure(str(folder), "GB10", "--engine", "vllm", "--write", str(path),
                     "--keep-log", str(kept))  # fmt: skip
    assert result.exit_code == 0
    row = path.read_text()
    assert "secret" not in row
    assert str(tmp_path) not in row
    assert json.loads(row)["scores"] == ["outcome"]
    assert SECRET not in kept.read_text()


def test_an_engine_that_runs_out_of_memory_is_read(engine):
    engine("vllm", posted("torch_oom_new.log"), serves="exit 1")
    result = measure("Qwen/Qwen3-8B", "4090", "--engine", "vllm", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["row"]["outcome"] == "oom"


def test_an_engine_that_is_not_there_or_says_nothing_is_no_measurement(engine):
    assert measure("Qwen/Qwen3-8B", "4090", "--engine", "tgi").exit_code == 2
    engine("vllm", f"error: {SECRET}", serves="exit 3")
    result = measure("Qwen/Qwen3-8B", "4090", "--engine", "vllm")
    assert result.exit_code == 2
    assert SECRET not in result.stderr


def test_what_does_not_fit_is_started_by_a_command_alone(engine):
    engine("vllm", "never")
    assert measure("Qwen/Qwen3-32B", "8GB", "--engine", "vllm").exit_code == 2


def test_a_python_is_looked_into(tmp_path):
    start = start_of("A_B=1 python -m json.tool x", Path(sys.executable))
    assert start.arguments == (sys.executable, "-m", "json.tool", "x")
    assert start.variables == {"A_B": "1"}
    for command in ("python -m no_such_engine.serve", "no-such-program serve", ""):
        with pytest.raises(NotInstalledError):
            start_of(command, Path(sys.executable))


def test_a_process_that_obeys_no_signal_is_killed(monkeypatch):
    signals = [(number, 0.3) for number, _ in process._SIGNALS]
    monkeypatch.setattr(process, "_SIGNALS", signals)
    script = "trap '' INT TERM; echo server is listening; while :; do sleep 0.1; done"
    began = time.monotonic()
    assert "listening" in run(Start(arguments=("sh", "-c", script)), 20)
    assert time.monotonic() - began < 15


def test_what_a_probe_prints_is_read_and_nothing_else():
    line = {"version": "5.23.0", "gpu": None, "measured": {"weights": 8, "kv_pool": 4}}
    text = f"warning\nfitgauge-measured {json.dumps(line)}\n"
    log = probed(text, 64, 2)
    assert [(one.name, one.value, one.line) for one in log.readings] == [
        ("weights", 8, 2),
        ("kv_pool", 4, 2),
    ]
    assert probed("Killed", 64, 2) is None


def test_a_run_without_a_gpu_is_told_as_one_of_the_machine(engine):
    engine("llama-server", posted("llamacpp_2026_cuda.log"))
    told = measure("Qwen/Qwen3-8B", "--engine", "llama.cpp", "--cpu", "--command", "llama-server")
    (first, *_) = told.stdout.splitlines()
    assert "in this machine's memory" in first
    assert "GPU" not in first
    assert "A GPU of" not in told.stdout
