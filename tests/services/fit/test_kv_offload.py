"""kv_offload_gib: KV cache that leaves the GPU, in the machine's memory."""

import asyncio

import pytest

from bundled_models import shared_questions
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.lines import clean_lines
from fitgauge.services.common.launch_fields import launch_fields
from fitgauge.services.common.schemas import FitRequest

TOKEN = 36 * 2 * 8 * 128 * 2
"""Bytes of a token of Qwen3-8B's KV cache: layers, keys and values, heads, features, 16 bit."""


def served(**fields):
    request = FitRequest(**{"model": "Qwen/Qwen3-8B", "gpu": "H100"} | fields)
    return asyncio.run(shared_questions().check_fit(request))[1]


def codes(answer):
    return {warning.code for warning in answer.warnings}


@pytest.mark.parametrize(
    "engine, flag",
    [
        ("vllm", "--kv-offloading-size 128"),
        ("sglang", "--enable-hierarchical-cache --hicache-size 68"),
        ("tensorrt-llm", f'"host_cache_size":{64 * GIB}'),
    ],
)
def test_the_command_sets_it(engine, flag):
    """64 GiB a GPU: vLLM counts those of both ranks, SGLang 10^9 bytes of one."""
    answer = served(gpu="2x H100", engine=engine, kv_offload_gib=64)
    assert flag in answer.launch.command
    assert flag.split()[0] not in served(gpu="2x H100", engine=engine).launch.command
    assert answer.understood_as["kv_offload_gib"] == 64


def test_llama_cpp_counts_that_of_all_gpus():
    answer = served(gpu="2x RTX 4090", engine="llama.cpp", kv_offload_gib=16)
    assert "--cache-ram 32768" in answer.launch.command


def test_it_changes_nothing_on_the_gpu_of_vllm():
    plain, offloading = served(), served(kv_offload_gib=64)
    assert offloading.per_gpu == plain.per_gpu
    assert offloading.limits == plain.limits
    assert plain.host_memory is None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_the_host_memory_and_its_tokens_are_said(engine):
    answer = served(engine=engine, quantization="bf16", kv_offload_gib=36)
    host = answer.host_memory
    assert host.per_gpu_bytes == host.total_bytes == 36 * GIB
    assert host.kv_cache_tokens == pytest.approx(36 * GIB / TOKEN, rel=0.001)
    assert f"{host.kv_cache_tokens:,} tokens" in answer.summary


def test_it_is_divided_like_the_cache():
    host = served(gpu="2x H100", kv_offload_gib=18).host_memory
    assert (host.per_gpu_bytes, host.total_bytes) == (18 * GIB, 36 * GIB)
    assert host.kv_cache_tokens == pytest.approx(36 * GIB / TOKEN, rel=0.001)


def test_tensor_ranks_store_latents_once():
    fields = {"model": "deepseek-ai/DeepSeek-V3", "gpu": "8x H200", "engine": "vllm"}
    layout = {"tensor_parallel": 8, "data_parallel": 1, "kv_offload_gib": 10}
    new = served(**fields, **layout).host_memory
    old = served(**fields, **layout, engine_version="0.30.0").host_memory
    assert new.total_bytes == old.total_bytes == 80 * GIB
    assert new.kv_cache_tokens == pytest.approx(8 * old.kv_cache_tokens, rel=0.001)


def test_weights_and_cache_add_up():
    fields = {"model": "Qwen/Qwen3-32B", "gpu": "RTX 4090", "cpu_offload_gib": 45}
    weights = served(**fields).host_memory.total_bytes
    assert served(**fields, kv_offload_gib=8).host_memory.total_bytes == weights + 8 * GIB


def test_the_machine_must_hold_it():
    assert served(kv_offload_gib=64, host_memory_gib=32).verdict == "does_not_fit"
    assert served(kv_offload_gib=64, host_memory_gib=128).host_memory.total_bytes == 64 * GIB


def test_vllm_keeps_it_in_shared_memory():
    answer = served(kv_offload_gib=64, detail="full")
    assert "kv-offload-in-shared-memory" in codes(answer)
    assert 'sizeLimit: "64Gi"' in answer.launch.kubernetes
    assert "kv-offload-in-shared-memory" not in codes(served(engine="sglang", kv_offload_gib=64))


def test_pods_ask_for_the_memory():
    asked = [
        served(gpu="2x H100", detail="full", kv_offload_gib=size).launch.kubernetes
        for size in (None, 50)
    ]
    memory = [int(text.partition("memory: ")[2].split()[0].strip('"G')) for text in asked]
    assert memory[1] - memory[0] == -(-100 * GIB // 10**9)


@pytest.mark.parametrize(
    "gpu, page", [("H100", 1), ("B200", 64)], ids=["FlashAttention 3", "trtllm_mha"]
)
def test_sglang_stages_pages_on_the_gpu(gpu, page):
    plain, offloading = (
        {term.name: term.bytes for term in served(gpu=gpu, engine="sglang", **fields).terms}
        for fields in ({}, {"kv_offload_gib": 64})
    )
    assert offloading["workspace"] == 64 * page * TOKEN
    assert plain["reserve"] - offloading["reserve"] == offloading["workspace"]


@pytest.mark.parametrize("engine", ["ollama", "transformers", "tgi", "mlx"])
def test_other_engines_say_that_they_ignore_it(engine):
    gpu = "M3 Ultra 96GB" if engine == "mlx" else "H100"
    answer = served(gpu=gpu, engine=engine, kv_offload_gib=64)
    ignored = [one.field for one in answer.warnings if one.code == "engine-ignores-field"]
    assert "kv_offload_gib" in ignored
    assert answer.host_memory is None
    assert "kv_offload_gib" not in answer.understood_as


@pytest.mark.parametrize(
    "fields",
    [
        {"engine_version": "0.11.0"},
        {"engine_version": "0.19.0", "model": "openai/gpt-oss-20b"},
        {"gpu": "DGX Spark"},
        {"engine": "llama.cpp", "gpu": "M3 Ultra 96GB"},
        {"engine": "sglang", "engine_version": "0.4.8"},
    ],
    ids=["before the flag", "hybrid manager off", "unified memory", "Apple", "older SGLang"],
)
def test_what_cannot_offload_is_refused(fields):
    fields = {"engine": "vllm"} | fields
    assert served(**fields).verdict != "unsupported"
    assert served(**fields, kv_offload_gib=8).verdict == "unsupported"


def test_a_newer_release_offloads_hybrids():
    fields = {"model": "openai/gpt-oss-20b", "engine_version": "0.21.0", "kv_offload_gib": 8}
    assert served(**fields).verdict == "fits"


def test_the_printed_command_is_read_back():
    for engine, size in (("vllm", 64), ("sglang", 68e9 / GIB)):
        command = served(gpu="2x H100", engine=engine, kv_offload_gib=64).launch.command
        fields = launch_fields(ENGINES[engine].log_parser.read(clean_lines(command)))
        assert fields["kv_offload_gib"] == pytest.approx(size)


def test_nothing_is_off():
    answer = served(kv_offload_gib=0)
    assert answer.host_memory is None
    assert "kv_offload_gib" not in answer.understood_as
