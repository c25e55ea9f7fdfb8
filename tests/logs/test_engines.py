"""Posted logs of every engine, shortened to their lines on memory, read as their threads say.
Each row of the data names its source."""

import json
import re
from pathlib import Path

import pytest

from fitgauge.engine.serving.start_log.lines import Line
from fitgauge.engine.serving.start_log.measurements import find_readings, rule
from fitgauge.logs.detect import detect
from fitgauge.services.explain_log.comparison import Measured

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "expected.json").read_text())
SMALLEST = ("kv_pool", "kv_tokens", "kv_blocks")


def read(case):
    return detect((DATA / case["file"]).read_text())


@pytest.fixture(params=CASES, ids=lambda case: case["file"])
def case(request):
    return request.param


def test_every_log_has_its_row_and_its_source():
    assert {case["file"] for case in CASES} == {path.name for path in DATA.glob("*.log")}
    assert all(case["source"] for case in CASES)


def test_engine_version_model_and_outcome_are_recognised(case):
    log = read(case)
    assert (log.engine, log.version, log.model, log.outcome) == (
        case["engine"],
        case.get("version"),
        case.get("model"),
        case["outcome"],
    )
    assert set(case.get("remarks", ())) == set(log.remarks)
    if "called" in case:
        assert log.called == case["called"]


def test_the_gpu_is_recognised_where_it_is_printed(case):
    log = read(case)
    assert log.gpu == case.get("gpu")
    if "gpu_count" in case:
        assert log.gpu_count == case["gpu_count"]


def test_ollamas_model_is_what_it_was_asked_to_run_where_the_runner_names_only_a_blob():
    log = (DATA / "ollama_qwen25_coder_7b.log").read_text()
    assert detect(log).model is None
    assert detect(f"$ ollama run qwen2.5-coder:7b\n{log}").model == "qwen2.5-coder:7b"


@pytest.mark.parametrize(
    ("tag", "model"), [("qwen2.5-coder:7b", "qwen2.5-coder:7b"), ("qwen:latest", None)]
)
def test_ollamas_server_names_its_librarys_model_once_it_is_loaded(tag, model):
    """source=images.go, of Ollama 0.34; `latest` says no size."""
    log = (DATA / "ollama_qwen25_coder_7b.log").read_text()
    line = f'source=images.go:382 msg="template selection" model=registry.ollama.ai/library/{tag}'
    assert (
        detect(f"{log}\ntime=2026-09-23T13:11:07.743Z level=INFO {line} selected=x").model == model
    )


@pytest.mark.parametrize(
    ("lines", "called"),
    [
        ("general.name str = Hermes 3 Llama 3.1 8B", "Hermes 3 Llama 3.1 8B"),
        ("llama-server -m 'C:\\models\\Qwen3-4B-Q4_K_M.gguf' -c 8192", "Qwen3-4B"),
        ("llama-server --model=/m/x.gguf\ngeneral.name str = Glm-5.2", "Glm-5.2"),
        ("llama-server -m /m/Glm-5.2-UD-Q2_K_XL-00001-of-00006.gguf", "Glm-5.2"),
    ],
)
def test_a_model_is_called_what_says_its_size(lines, called):
    printed = "load_tensors:        CUDA0 model buffer size =  6096.65 MiB"
    log = detect(f"{lines}\n{printed}")
    assert log is not None
    assert log.called == called


def test_a_command_of_windows_and_slots_are_read():
    """public file 67326407303; of public file 67225578011 the draft that the model has itself."""
    log = detect(
        "llama-server.exe --model m.gguf --ctx-size 8192 --ubatch-size 2048\n"
        "load_tensors:      Vulkan0 model buffer size =  4854.94 MiB\n"
        "srv    load_model: creating MTP draft context against the target model 'm.gguf'\n"
        "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'"
    )
    assert log is not None
    assert {"n_ubatch": 2048, "n_parallel": 4, "context_length": 8192}.items() <= log.flags.items()
    assert "draft_model" in log.remarks


def test_flags_come_under_the_names_of_the_contract(case):
    log = read(case)
    wanted = case.get("flags", {})
    assert {name: log.flags.get(name) for name in wanted} == wanted


def test_every_printed_size_is_read(case):
    measured = Measured(read(case).readings)
    for unit, scale in (("gib", 2**30), ("mib", 2**20), ("counts", 1)):
        for name, value in case.get(unit, {}).items():
            reading = measured.pick(
                name, by=min if name in SMALLEST and case["engine"] == "vllm" else max
            )
            assert reading is not None, name
            assert reading.value == pytest.approx(value * scale), name


def test_every_reading_stands_in_the_line_it_names(case):
    lines = (DATA / case["file"]).read_text().splitlines()
    for reading in read(case).readings:
        assert any(digit.isdigit() for digit in lines[reading.line - 1]), reading
        assert reading.resolution >= 0


def test_the_pattern_of_a_line_is_compiled_when_a_log_first_holds_its_key(monkeypatch):
    compiled, compiles = [], re.compile
    sought = rule("KV cache", r"KV cache: (?P<kv_pool>NUM) GiB")
    monkeypatch.setattr(re, "compile", lambda text: compiled.append(text) or compiles(text))
    assert find_readings([Line(1, "weights: 3 GiB")], (sought,)) == []
    assert compiled == []
    for _ in range(2):
        assert find_readings([Line(2, "KV cache: 1.5 GiB")], (sought,))[0].value == 1.5 * 2**30
    assert len(compiled) == 1
