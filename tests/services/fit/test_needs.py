"""A question without a GPU is answered with what the model needs, and the GPUs that hold it."""

import asyncio

import pytest

from fitgauge.engine.quantity import GIB
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.needs import _OF_A_GPU

MODEL = "Qwen/Qwen3-32B"


@pytest.fixture(scope="module")
def answer(check_fit):
    return check_fit(model=MODEL, settings="auto")


def test_it_has_no_verdict_and_nothing_of_a_gpu(answer):
    nothing = (answer.verdict, answer.gpu, answer.per_gpu, answer.terms, answer.limits)
    assert nothing == (None,) * 5
    assert (answer.launch, answer.fit_probability, answer.suggestions) == (None, None, [])
    assert {one.field for one in answer.assumed} >= {"engine", "context_length", "concurrency"}
    assert "gpu" not in answer.understood_as


def test_a_repository_of_gguf_files_is_named_by_the_type_of_its_file(check_fit):
    file = "bartowski/Qwen2.5-32B-Instruct-GGUF:Q4_K_M"
    assert check_fit(model=file, engine="llama.cpp").needs[0].name == "Q4_K_M"


def test_formats_as_published_are_those_of_no_format(check_fit, answer):
    assert check_fit(model=MODEL, quantization="as published", settings="auto").needs == (
        answer.needs
    )


def test_the_needs_shrink_with_the_format(answer):
    by_name = {need.name: need for need in answer.needs}
    assert next(iter(by_name)) == "bf16"
    assert {"fp8", "awq", "q4_k_m"} < by_name.keys()
    sizes = [by_name[name].required_bytes.expected for name in ("bf16", "fp8", "awq")]
    assert sizes == sorted(sizes, reverse=True)
    for need in answer.needs:
        assert need.weights_bytes + need.kv_cache_bytes < need.required_bytes.expected
    assert f"{by_name['bf16'].required_bytes.expected / GIB:.1f} GiB in bf16" in answer.summary


@pytest.mark.parametrize("model", [MODEL, "7b", "Qwen/Qwen3.5-27B", "openai/gpt-oss-20b"])
def test_a_need_is_the_least_that_a_gpu_without_room_is_told(check_fit, model):
    (first, *_) = check_fit(model=model, settings="auto").needs
    told = check_fit(model=model, gpu="1GiB", settings="auto", **first.request)
    assert told.verdict == "does_not_fit"
    assert told.per_gpu.required_bytes.expected == pytest.approx(
        first.required_bytes.expected, rel=0.02
    )


def test_the_cache_of_all_requests_counts(check_fit, answer):
    more = check_fit(model=MODEL, context_length=16384, concurrency=4, settings="auto")
    small, large = answer.needs[0], more.needs[0]
    assert large.kv_cache_bytes == pytest.approx(8 * small.kv_cache_bytes, rel=0.01)
    grown = large.required_bytes.expected - small.required_bytes.expected
    assert grown == pytest.approx(large.kv_cache_bytes - small.kv_cache_bytes, rel=0.05)


@pytest.mark.parametrize("model", [MODEL, "7b", "openai/gpt-oss-20b"])
def test_the_smallest_gpus_fit_when_they_are_asked_about(check_fit, model):
    smallest = check_fit(model=model, settings="auto").smallest
    reasons = [reason for one in smallest for reason in one.reasons]
    assert reasons[:3].count("fewest") == 1
    assert {"fewest", "cheapest", "fastest"} == set(reasons)
    for one in smallest:
        again = check_fit(**{"settings": "auto", **one.request})
        assert again.verdict == "fits", one
        assert (again.gpu.name, again.gpu.count) == (one.gpu, one.gpu_count)
        assert one.usd_per_hour is not None


def test_fewest_and_cheapest_are_what_they_say(answer):
    published = [one for one in answer.smallest if one.name == "bf16"]
    by_reason = {reason: one for one in published for reason in one.reasons}
    assert by_reason["fewest"].gpu_count == min(one.gpu_count for one in published)
    assert by_reason["fastest"].gpu_count == by_reason["fewest"].gpu_count
    assert by_reason["cheapest"].usd_per_hour == min(one.usd_per_hour for one in published)


def test_a_format_and_an_engine_are_taken_as_sent(check_fit):
    awq = check_fit(model=MODEL, quantization="awq")
    assert [need.name for need in awq.needs] == ["awq"]
    assert {one.name for one in awq.smallest} == {"awq"}
    gguf = check_fit(model=MODEL, engine="llama.cpp")
    assert {need.engine for need in gguf.needs} == {"llama.cpp"}
    assert "q4_k_m" in {need.name for need in gguf.needs}


def test_a_quantized_repository_is_needed_as_it_is(check_fit):
    assert [need.name for need in check_fit(model="openai/gpt-oss-20b").needs] == ["mxfp4"]


@pytest.mark.parametrize("field", sorted(_OF_A_GPU))
def test_fields_of_a_gpu_are_ignored_and_said(check_fit, answer, field):
    value = 0.5 if "utilization" in field or field.endswith("gib") else 2
    ignoring = check_fit(model=MODEL, settings="auto", **{field: value})
    assert ignoring.needs == answer.needs
    assert ("field-ignored", field) in {(one.code, one.field) for one in ignoring.warnings}
    assert field not in ignoring.understood_as


def test_what_only_macs_run_names_macs(check_fit):
    answer = check_fit(model=MODEL, engine="mlx", settings="auto")
    assert {one.gpu.split()[0] for one in answer.smallest} == {"Apple"}
    assert {one.usd_per_hour for one in answer.smallest} == {None}
    assert answer.smallest[0].reasons[0] == "fewest"
    assert not any("cheapest" in one.reasons for one in answer.smallest)


@pytest.mark.parametrize(
    ("fields", "engine", "why"),
    [
        ({"n_cpu_moe": 20}, "llama.cpp", "n_cpu_moe"),
        ({"n_gpu_layers": 20}, "llama.cpp", "n_gpu_layers"),
        ({"kv_cache_dtype": "q8_0"}, "llama.cpp", "a KV cache in q8_0"),
        ({"gpu": "RTX 4090", "kv_cache_dtype": "q8_0"}, "llama.cpp", "a KV cache in q8_0"),
    ],
)
def test_options_of_one_engine_imply_it_with_and_without_a_gpu(questions, fields, engine, why):
    request = FitRequest(model="Qwen/Qwen3-30B-A3B", **fields)
    answer = asyncio.run(questions.check_fit(request))[1]
    assert answer.understood_as["engine"] == engine
    assert f"assuming {engine}, because it has {why}" in answer.assumed[0].message


def test_what_lies_in_host_memory_is_named_and_no_gpus_are_searched_for_the_rest(questions):
    request = FitRequest(model="Qwen/Qwen3-30B-A3B", n_cpu_moe=20)
    answer = asyncio.run(questions.check_fit(request))[1]
    assert answer.host_memory.total_bytes > 6 * GIB
    assert answer.smallest == []
    assert f"{answer.host_memory.total_bytes / GIB:.2f} GiB of host memory" in answer.summary


def test_a_context_that_the_model_cannot_read_is_unsupported(check_fit):
    answer = check_fit(model=MODEL, context_length=10**6)
    assert answer.verdict == "unsupported"
    assert (answer.needs, answer.smallest) == ([], [])


@pytest.mark.parametrize("engine", ["ollama", "llama.cpp", "mlx", "vllm", "sglang", "tgi"])
@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-32B-AWQ", "BAAI/bge-m3"])
def test_every_engine_that_runs_it_has_a_need(check_fit, engine, model):
    answer = check_fit(model=model, engine=engine, settings="auto")
    assert bool(answer.needs) == (answer.verdict is None)
    assert answer.summary


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "tgi"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.3-70B-Instruct"])
def test_a_gpu_of_the_size_needed_holds_the_model_and_a_smaller_one_does_not(
    check_fit, engine, model
):
    """Engines that keep back a part of the GPU keep less of a small one."""
    (need, *_) = check_fit(model=model, engine=engine, settings="auto").needs
    size = need.required_bytes.expected / GIB
    held = check_fit(model=model, gpu=f"{1.05 * size:.2f}GiB", settings="auto", **need.request)
    short = check_fit(model=model, gpu=f"{0.95 * size:.2f}GiB", settings="auto", **need.request)
    assert held.verdict in ("fits", "tight")
    assert short.verdict == "does_not_fit"
