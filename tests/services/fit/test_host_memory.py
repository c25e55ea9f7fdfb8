"""host_memory_gib: what is offloaded stays within the machine's memory."""

import asyncio

import pytest

from bundled_models import shared_questions
from fitgauge.engine.quantity import GIB
from fitgauge.services.common.host_memory import ROOM_GIB
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.smallest import first_step
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.training_fit.schemas import TrainingRequest


def served(**fields):
    request = FitRequest(**{"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090"} | fields)
    return asyncio.run(shared_questions().check_fit(request))[1]


def trained(**fields):
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "A100 80GB", "method": "full"}
    request = TrainingRequest(**asked | fields)
    return asyncio.run(shared_questions().check_training_fit(request))[1]


@pytest.mark.parametrize("answered", [served, trained])
def test_no_suggestion_needs_more_than_the_machine_holds(answered):
    offloading = [one.host_memory for one in answered().suggestions if one.host_memory]
    assert offloading
    least = min(host.total_bytes for host in offloading) / GIB
    for size in (least / 2, least + ROOM_GIB + 1):
        hosts = [one.host_memory for one in answered(host_memory_gib=size).suggestions]
        assert all(host.total_bytes <= (size - ROOM_GIB) * GIB for host in hosts if host)
        assert any(hosts) == (size > least)


@pytest.mark.parametrize(
    ("offload", "nothing"),
    [
        ({"cpu_offload_gib": 45}, {"cpu_offload_gib": 0}),
        ({"gpu": "H100 80GB", "kv_offload_gib": 64}, {"kv_offload_gib": 0}),
        (
            {"engine": "llama.cpp", "quantization": "q8_0", "n_gpu_layers": 10},
            {"n_gpu_layers": 1000},
        ),
        (
            {"model": "openai/gpt-oss-120b", "engine": "llama.cpp", "n_cpu_moe": 36},
            {"n_cpu_moe": 0},
        ),
    ],
)
def test_what_the_machine_does_not_hold_does_not_fit(offload, nothing):
    needed = served(**offload).host_memory.total_bytes / GIB
    answer = served(**offload, host_memory_gib=needed / 2)
    assert answer.verdict == "does_not_fit"
    assert answer.launch is None
    assert (answer.limits.max_context_length, answer.limits.min_gpu_count) == (0, None)
    assert "does not fit" in answer.summary.partition(". ")[0]
    assert f"the machine has {needed / 2:g} GiB" in answer.summary
    assert answer.suggestions
    for one in answer.suggestions:
        assert one.request.items() >= nothing.items()
        asked = offload | {"host_memory_gib": needed / 2} | one.request
        assert served(**asked).verdict == one.verdict
        assert one.host_memory is None or one.host_memory.total_bytes <= needed / 2 * GIB
    assert served(**offload, host_memory_gib=needed + 1).verdict != "does_not_fit"


def test_other_readings_of_a_gpu_do_not_help_a_small_machine():
    answer = served(gpu="H100", kv_offload_gib=64, host_memory_gib=32)
    assert "H100 NVL" in str(answer.read_as)
    assert "it fits" not in answer.summary


def test_room_is_left_for_the_system_and_the_engine():
    least = (
        min(one.host_memory.total_bytes for one in served().suggestions if one.host_memory) / GIB
    )
    assert not any(one.host_memory for one in served(host_memory_gib=least + 5).suggestions)
    assert any(one.host_memory for one in served(host_memory_gib=least + 7).suggestions)


def test_it_comes_first_where_the_machine_is_named_and_the_gpu_alone_does_not_do():
    """MiniMax-M2 takes other GPUs else; of Qwen3-32B there is a checkpoint for this one."""
    mixture = {"model": "MiniMaxAI/MiniMax-M2"}
    assert served(**mixture, host_memory_gib=192).suggestions[0].host_memory is not None
    assert served(**mixture).suggestions[0].host_memory is None
    small, partly, *others = served(host_memory_gib=128).suggestions
    assert small.request == {"model": "Qwen/Qwen3-32B-AWQ"}
    assert any(one.host_memory for one in (partly, *others))


def test_the_fastest_way_comes_first_and_says_how_fast():
    """Experts that the CPU multiplies, before weights that the GPU reads over PCIe."""
    answer = served(model="openai/gpt-oss-120b", host_memory_gib=128)
    by_cpu, over_link = answer.suggestions[:2]
    assert by_cpu.request["engine"] == "llama.cpp"
    speeds = [one.tokens_per_second_per_request for one in (by_cpu, over_link)]
    assert 15 < speeds[0].low < speeds[0].expected < speeds[0].high < 45
    assert speeds[1].expected < speeds[0].expected / 2
    for one, speed in zip((by_cpu, over_link), speeds, strict=True):
        assert f"about {speed.expected:.2g} tokens/s" in one.change
    assert first_step(answer.suggestions, offers_host=True) is by_cpu


def test_four_bits_partly_in_host_memory_come_before_two_on_the_gpu():
    question = {"model": "Qwen/Qwen3-235B-A22B", "gpu": "4x RTX 3090", "engine": "llama.cpp"}
    with_host, without = served(**question, host_memory_gib=256), served(**question)
    assert [one.request.get("quantization") for one in with_host.suggestions[:2]] == [None, "q2_k"]
    assert with_host.suggestions[0].host_memory is not None
    assert without.suggestions[0].request == {"quantization": "q2_k"}


def test_the_summary_says_that_it_runs_partly_in_host_memory():
    answer = served(model="openai/gpt-oss-120b", host_memory_gib=128)
    first = answer.summary.partition(". ")[0]
    assert answer.verdict == "does_not_fit"
    assert "does not fit in the GPU's memory alone; with" in first
    assert "in host memory it does, in llama.cpp, about" in first
    for other in (served(host_memory_gib=128), served(model="openai/gpt-oss-120b")):
        assert "in host memory it does" not in other.summary


def test_a_launch_that_offloads_says_how_fast_it_is_and_what_is_assumed():
    by_cpu = served(cpu_offload_gib=10, engine="llama.cpp", quantization="q8_0").speed
    over_link = served(cpu_offload_gib=45).speed
    assert by_cpu.basis == over_link.basis == "modelled"
    assert "desktop" in by_cpu.assumed
    assert "over its link at 22 GB/s" in over_link.assumed
    assert by_cpu.runs == over_link.runs == []
    large = served(
        cpu_offload_gib=10, engine="llama.cpp", quantization="q8_0", host_memory_gib=512
    ).speed
    assert "servers" in large.assumed
    assert large.tokens_per_second.expected > 2 * by_cpu.tokens_per_second.expected


def test_a_cpu_that_serves_several_requests_is_given_no_speed():
    fields = {"cpu_offload_gib": 20, "engine": "llama.cpp", "quantization": "q4_k_m"}
    assert served(**fields).speed is not None
    assert served(**fields, concurrency=4, context_length=2048).speed is None
    assert served(cpu_offload_gib=50, concurrency=4, context_length=2048).speed is not None


def test_layers_stay_in_host_memory_where_it_is_offered():
    """A dense model's, which no format brings onto the GPU."""
    dense = {"model": "meta-llama/Llama-3.3-70B-Instruct"}
    by_cpu = served(**dense, host_memory_gib=64).suggestions[0]
    assert "-ngl" in by_cpu.launch.command
    assert by_cpu.request["engine"] == "llama.cpp"


def test_it_is_said_again():
    assert served(host_memory_gib=64).understood_as["host_memory_gib"] == 64
    assert trained(host_memory_gib=64).understood_as["host_memory_gib"] == 64


def test_where_experts_stay_on_the_host_layers_go_by_what_is_left(check_fit):
    """By layers alone the second GPU would hold its half with all experts."""
    asked = {
        "model": "openai/gpt-oss-120b", "gpu": "RTX 3090", "gpu_count": 2, "engine": "llama.cpp",
        "quantization": "q4_k_m", "cpu_offload_gib": 11.4,
    }  # fmt: skip
    answer = check_fit(**asked, detail="full")
    assert answer.verdict == "fits"
    first, second = (rank.required_bytes.expected for rank in answer.ranks)
    assert abs(first - second) < 2 * GIB
    words = answer.launch.command.split()
    assert words[words.index("--n-cpu-moe") + 1] == "15"
    assert words[words.index("--tensor-split") + 1] == "25,12"  # 36 layers and the output
    # Ollama's command divides no layers
    assert check_fit(**{**asked, "engine": "ollama"}).verdict == "does_not_fit"


def test_what_sglang_takes_in_whole_gib_is_judged_so(check_fit):
    asked = {"model": "Qwen/Qwen3-32B", "gpu": "L40S", "engine": "sglang"}
    answer, whole = (check_fit(**asked, cpu_offload_gib=amount) for amount in (29.1, 30))
    assert "--cpu-offload-gb 30" in answer.launch.command
    assert answer.launch.command == whole.launch.command
    assert answer.per_gpu.required_bytes == whole.per_gpu.required_bytes


def test_the_summary_of_a_training_names_the_hosts_memory_and_what_else_helps():
    """QLoRA of 70B on two RTX 3090 (PEFT's guide on FSDP); under Unsloth, which shards nothing."""
    asked = {"model": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "RTX 3090", "gpu_count": 2}
    by_host = trained(**asked, method="qlora").summary
    assert "; to fit, shard with FSDP, keep parameters in host memory" in by_host
    assert "GiB in all, or use " in by_host
    alone = trained(**asked, method="qlora", framework="unsloth").summary
    assert " To fit, use meta-llama/Llama-3.1-8B-Instruct, a smaller model" in alone


@pytest.mark.parametrize("option", [{"n_gpu_layers": 20}, {"n_cpu_moe": 30}])
def test_options_that_only_llama_cpp_has_are_answered_by_it(option):
    answer = served(model="Qwen/Qwen3-30B-A3B", gpu="RTX 3060", **option)
    (name,) = option
    (engine,) = [one.message for one in answer.assumed if one.field == "engine"]
    assert engine == f"`engine` not set: assuming llama.cpp, because it has {name}."
    assert answer.launch.command.startswith("llama-server ")
    asked = served(model="Qwen/Qwen3-30B-A3B", gpu="RTX 3060", engine="vllm", **option)
    assert asked.understood_as["engine"] == "vllm"


def test_stated_layers_that_do_not_suffice_are_tried_once(monkeypatch):
    """DeepSeek-V3 in a file, with all its experts in host memory, and too many requests."""
    tried = []

    def possible(estimator, query):
        tried.append(query)
        assert len(tried) < 100
        return estimate(estimator, query)

    estimate = Estimator.possible
    monkeypatch.setattr(Estimator, "possible", possible)
    for layers in (1, 484):
        asked = {"model": "deepseek-ai/DeepSeek-V3", "engine": "vllm", "n_cpu_moe": layers}
        assert served(**asked, concurrency=99_999 + layers).verdict == "does_not_fit"
    assert tried
