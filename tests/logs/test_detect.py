"""What stands between an engine's words and a number: colours, control characters, flags in
three spellings, names that are paths."""

import pytest

from fitgauge.engine.serving.start_log.arguments import argument, flag
from fitgauge.engine.serving.start_log.lines import MAX_CHARACTERS, clean_lines
from fitgauge.engine.serving.start_log.names import gpu_name, hub_id
from fitgauge.engine.serving.vllm.start_log import rank_of
from fitgauge.logs.detect import detect
from fitgauge.services.explain_log.comparison import Measured

LOADED = (
    "INFO 12-02 15:48:37 [gpu_model_runner.py:3338] Model loading took 14.9889 GiB memory and 3.03"
    " seconds"
)


def weights(text):
    return Measured(detect(text).readings).value("weights") / 2**30


@pytest.mark.parametrize(
    "text",
    [
        LOADED,
        "\x1b[1;36m(EngineCore_DP0 pid=279)\x1b[0;0m " + LOADED,
        "[1;36m(EngineCore_DP0 pid=279)[0;0m " + LOADED,
        "2026-04-19 13:05:50.078 | (EngineCore pid=196) " + LOADED,
        "│ " + LOADED + "          │",
        "Loading: 50%\rLoading: 100%\r" + LOADED,
        "\x00\ufffd\ufeff" + LOADED + "\x07",
        LOADED.replace("\n", "\r\n") + "\r\n",
        "vLLM STDOUT: " + LOADED,
    ],
)
def test_a_line_is_read_whatever_a_terminal_put_around_it(text):
    assert weights(text) == pytest.approx(14.9889)


def test_a_log_whose_newlines_were_lost_is_read():
    assert weights(
        " ".join(
            [LOADED.replace("Model loading took 14.9889 GiB", "Nothing of note")] * 60 + [LOADED]
        )
    ) == pytest.approx(14.9889)


def test_the_resolution_is_half_the_last_digit():
    (reading,) = detect(LOADED).readings
    assert reading.resolution == pytest.approx(0.00005 * 2**30)


def test_text_beyond_the_bound_is_not_read():
    assert detect("x" * MAX_CHARACTERS + "\n" + LOADED) is None


def test_text_without_a_measurement_is_nothing():
    assert detect("Initializing a V1 LLM engine (v0.11.2) with config: model='a/b'") is None
    assert detect("hello") is None
    assert detect("") is None


def test_lines_are_counted_as_an_editor_does():
    assert [line.number for line in clean_lines("a\n\n \nb\r\nc")] == [1, 4, 5]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tp_size=4, dp_size=1", "4"),
        ("model_path='Qwen/Qwen3-14B', tp_size='4'", "4"),
        ('{"tp_size": 4, "dp_size": 1}', "4"),
        ("{'tp_size': 4}", "4"),
        ("--tp-size 4 --dp-size 1", "4"),
        ("--tp_size=4", "4"),
        ("dp_tp_size=8", None),
        ("tp_size=None", None),
        ("", None),
    ],
)
def test_a_flag_is_read_in_every_spelling(text, value):
    assert argument(text, "tp_size") == value


def test_a_flag_of_another_kind_is_no_flag():
    assert flag("tp_size=many", "tp_size", int) is None
    assert flag("enforce_eager=False", "enforce_eager", bool) is False
    assert flag("--enforce-eager --port 1", "enforce_eager", bool) is True
    assert flag("--enforce-eagerly", "enforce_eager", bool) is None


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ("Qwen/Qwen3-32B@main", "Qwen/Qwen3-32B@main"),
        (
            "/root/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e/",
            "meta-llama/Llama-3.1-8B",
        ),
        ("/home/anna/models/llama", None),
        ("models/llama3.1-8B-INT8", None),
        ("./checkpoints/run-7", None),
        ("C:\\Users\\anna\\llama", None),
        ("~/llama/8b", None),
        ("llama", None),
        ("", None),
        (None, None),
    ],
)
def test_a_path_is_no_model(text, model):
    assert hub_id(text) == model


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "  Device 0: NVIDIA GeForce RTX 3060, compute capability 8.6, VMM: yes",
            "NVIDIA GeForce RTX 3060",
        ),
        (
            "using device CUDA0 (NVIDIA GeForce RTX 4090) - 23306 MiB free",
            "NVIDIA GeForce RTX 4090",
        ),
        ("GPU 0: NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
        ("GPU 0-7: NVIDIA B200 (x8)", "NVIDIA B200"),
        ("configs/E=64,N=1024,device_name=NVIDIA_H100_80GB_HBM3.json", "NVIDIA H100 80GB HBM3"),
        ('name=CUDA0 description="NVIDIA GeForce RTX 3060" libdirs=x', "NVIDIA GeForce RTX 3060"),
        ("no card here", None),
    ],
)
def test_a_card_is_recognised_by_the_tool_that_prints_it(line, name):
    assert gpu_name(clean_lines(line)) == name


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("(Worker_TP0 pid=415)", "TP0"),
        ("(Worker_PP1_TP3 pid=415)", "PP1_TP3"),
        ("(VllmWorker rank=1 pid=11)", "rank=1"),
        ("(VllmWorker TP0 pid=11)", "TP0"),
        ("(EngineCore_DP1 pid=11)", "DP1"),
        ("(EngineCore pid=11)", ""),
        ("(VllmWorkerProcess pid=972)", "process 972"),
        ("(APIServer pid=1)", ""),
        ("", ""),
    ],
)
def test_a_worker_is_known_by_its_prefix(prefix, rank):
    assert rank_of(prefix + " INFO Model loading took 1.0 GiB") == rank


def test_the_configuration_may_be_wrapped_by_a_terminal():
    log = detect(
        "INFO 12-21 15:59:39 [core.py:93] Initializing a V1 LLM engine (v0.12.0) with config:"
        " model='acme/tiny', speculative_config=None,\n dtype=torch.bfloat16, max_seq_len=16384,"
        " tensor_parallel_size=2,\nINFO 12-21 16:00:00 [gpu_worker.py:359] Available KV cache"
        " memory: 52.36 GiB"
    )
    assert (log.model, log.flags["context_length"], log.flags["tensor_parallel"]) == (
        "acme/tiny",
        16384,
        2,
    )


def start(share, *more):
    return (
        "\n".join(
            [
                f"non-default args: {{'model': 'acme/tiny', 'gpu_memory_utilization': {share}}}",
                *more,
            ]
        )
        + "\n"
    )


def test_of_several_starts_the_last_that_measured_counts():
    failed = start(
        0.95, "Model loading took 14.0 GiB", "torch.OutOfMemoryError: CUDA out of memory."
    )
    served = start(
        0.8,
        "Model loading took 15.0 GiB",
        "Available KV cache memory: 4.0 GiB",
        "Application startup complete.",
    )
    begun = start(0.7, "Starting to load model acme/tiny...")
    log = detect(failed + served + begun)
    assert (log.flags["gpu_memory_utilization"], log.outcome) == (0.8, "served")
    assert Measured(log.readings).value("weights") == 15 * 2**30
    assert detect(failed).outcome == "oom"
    assert detect(begun) is None


def test_two_caches_of_one_device_are_one_pool():
    log = detect(
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells\nllama_kv_cache:     "
        " CUDA0 KV buffer size =   100.00 MiB\nllama_kv_cache_iswa: creating     SWA KV cache, size"
        " = 1024 cells\nllama_kv_cache:      CUDA0 KV buffer size =    20.00 MiB\n"
    )
    assert Measured(log.readings).value("kv_pool") == 120 * 2**20


def test_what_is_read_of_a_broken_message_is_the_first():
    message = (
        "CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 23.5 GiB of"
        " which 1.00 GiB is free."
    )
    readings = detect("\n".join(message.format(size) for size in ("2.00", "3.00"))).readings
    assert [reading.value / 2**30 for reading in readings if reading.name == "requested"] == [2.0]
