"""Limits and suggestions hold when they are asked for."""

from collections.abc import Callable
from typing import Any

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.fit_schemas import FitAnswer
from notes import codes

Check = Callable[..., FitAnswer]
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_the_widest_tensor_parallelism_the_engine_accepts_is_taken(check_fit: Check) -> None:
    """Phi-4 has 40 heads and 10 KV heads: vLLM refuses 8 and 4 ranks."""
    understood = check_fit(model="microsoft/phi-4", gpu="8x T4").understood_as
    assert (understood["tensor_parallel"], understood["pipeline_parallel"]) == (2, 4)


@pytest.mark.parametrize("fields", [{"gpu": "RTX 4090"}, {"gpu": "A100 80GB", "concurrency": 8}])
def test_limits_of_transformers_count_the_activations_they_bring(
    check_fit: Check, fields: dict[str, Any]
) -> None:
    asked = {"model": LLAMA, "engine": "transformers", **fields}
    limits = check_fit(**asked).limits
    assert limits.max_context_length
    assert limits.max_concurrency
    for change in (
        {"context_length": limits.max_context_length},
        {"concurrency": limits.max_concurrency},
    ):
        assert check_fit(**{**asked, **change}).verdict == "fits"
        more = {name: value + 1 + value // 100 for name, value in change.items()}
        assert check_fit(**{**asked, **more}).verdict != "fits"


@pytest.mark.parametrize(
    "asked",
    [
        {
            "model": "Qwen/Qwen3-235B-A22B",
            "gpu": "8x H100",
            "data_parallel": 8,
            "expert_parallel": 8,
            "concurrency": 64,
        },
        {"model": LLAMA, "gpu": "RTX 4090", "context_length": 32768, "concurrency": 8},
        {
            "model": LLAMA,
            "gpu": "H100",
            "context_length": 1024,
            "concurrency": 2000,
            "max_num_seqs": 2048,
        },
        {"model": "openai/gpt-oss-20b", "gpu": "T4", "engine": "vllm"},
        {"model": LLAMA, "gpu": "M3 Max 64GB", "engine": "vllm"},
        {"model": "google/flan-t5-xxl", "gpu": "A100 80GB"},
        {"model": "meta-llama/Llama-3.1-405B-Instruct", "gpu": "H100"},
        {
            "model": "meta-llama/Llama-3.3-70B-Instruct",
            "gpu": "2x L40S",
            "context_length": 65536,
            "concurrency": 16,
        },
    ],
)
def test_every_suggestion_can_be_sent_and_gives_what_it_promises(
    check_fit: Check, asked: dict[str, Any]
) -> None:
    suggestions = check_fit(**asked).suggestions
    assert any(suggestion.verdict == "fits" for suggestion in suggestions)
    for suggestion in suggestions:
        again = check_fit(**{**asked, **suggestion.request})
        assert (again.verdict, again.per_gpu.required_bytes.expected) == (
            suggestion.verdict,
            suggestion.required_bytes,
        )


def test_asking_for_less_is_offered_where_it_surely_fits(check_fit: Check) -> None:
    suggestions = check_fit(
        model=LLAMA, gpu="H100", context_length=1024, concurrency=2000
    ).suggestions
    fewer = next(suggestion for suggestion in suggestions if "concurrency" in suggestion.request)
    assert fewer.verdict == "fits"


def test_two_changes_at_once_are_offered_where_one_does_not_suffice(check_fit: Check) -> None:
    suggestions = check_fit(model="meta-llama/Llama-3.1-405B-Instruct", gpu="H100").suggestions
    best = suggestions[0]
    assert best.verdict == "fits"
    assert best.request.keys() == {"model", "gpu_count"}


def test_no_more_weights_are_kept_in_host_memory_than_there_are(check_fit: Check) -> None:
    """The cache of 64 requests is far larger than the weights."""
    suggestions = check_fit(
        model="Qwen/Qwen3-32B", gpu="RTX 4090", context_length=32768, concurrency=64
    ).suggestions
    assert suggestions
    assert not any("cpu_offload_gib" in suggestion.request for suggestion in suggestions)


def test_of_a_mixture_its_experts_are_kept_in_host_memory(check_fit: Check) -> None:
    suggestions = check_fit(
        model="Qwen/Qwen3-30B-A3B", gpu="RTX 4090", engine="llama.cpp", quantization="q8_0"
    ).suggestions
    offload = next(
        suggestion for suggestion in suggestions if "cpu_offload_gib" in suggestion.request
    )
    assert "of experts to host memory" in offload.change


def test_a_mixture_is_offered_under_llama_cpp_with_experts_in_host_memory(check_fit: Check) -> None:
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "RTX 4070"}
    offered = [
        suggestion
        for suggestion in check_fit(**asked).suggestions
        if suggestion.request.get("engine") == "llama.cpp"
        and not {"gpu", "model"} & suggestion.request.keys()
    ]
    assert len(offered) == 1
    assert offered[0].request["cpu_offload_gib"] < 16
    again = check_fit(**{**asked, **offered[0].request})
    assert (again.verdict, again.per_gpu.required_bytes.expected) == (
        "fits",
        offered[0].required_bytes,
    )
    assert not any(
        "engine" in one.request and not {"gpu", "model"} & one.request.keys()
        for one in check_fit(model="Qwen/Qwen3-32B", gpu="RTX 4070").suggestions
    )


def test_what_stays_tight_is_not_offered_again_with_more(check_fit: Check) -> None:
    tight = [
        one.request.items()
        for one in check_fit(model="Qwen/Qwen3-32B", gpu="RTX 4070").suggestions
        if one.verdict == "tight"
    ]
    assert len(tight) > 1
    assert not any(less < more for less in tight for more in tight)


def test_more_of_the_same_is_not_offered_beside_what_fits(check_fit: Check) -> None:
    suggestions = check_fit(
        model="meta-llama/Llama-3.3-70B-Instruct",
        gpu="2x L40S",
        context_length=65536,
        concurrency=16,
    ).suggestions
    changed = [
        frozenset(suggestion.request) for suggestion in suggestions if suggestion.verdict == "fits"
    ]
    assert len(set(changed)) == len(changed)


@pytest.mark.parametrize(
    ("fields", "degrees"),
    [
        ({"gpu": "8x H200"}, (4, 1, 2)),
        ({"gpu": "3x H200"}, (1, 1, 3)),
        ({"gpu": "8x H200", "tensor_parallel": 2}, (2, 1, 4)),
        ({"gpu": "8x H200", "engine": "sglang"}, (4, 2, 1)),
    ],
)
def test_replicas_take_the_place_of_stages_that_the_engine_has_not(
    check_fit: Check, fields: dict[str, Any], degrees: tuple[int, int, int]
) -> None:
    echo = check_fit(model="openai/whisper-large-v3", **fields).understood_as
    names = ("tensor_parallel", "pipeline_parallel", "data_parallel")
    assert tuple(echo.get(name) or 1 for name in names) == degrees


def test_stages_asked_for_are_refused_where_the_engine_has_none(check_fit: Check) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_fit(model="openai/whisper-large-v3", gpu="8x H200", pipeline_parallel=2)
    assert refused.value.field == "pipeline_parallel"


def test_a_size_is_no_name_to_launch(check_fit: Check) -> None:
    launch = check_fit(model="7b", gpu="H100").launch
    assert launch.placeholder == "<a 7b model>"
    assert launch.command.startswith("vllm serve '<a 7b model>' ")


def test_fused_columns_may_be_cut_through_a_block_of_fp8(check_fit: Check) -> None:
    """MiMo-V2-Flash has keys of 192 features: vLLM lets query, key and value, which are one
    layer, cut its blocks of 128."""
    answer = check_fit(model="XiaomiMiMo/MiMo-V2-Flash", gpu="8x H100", tensor_parallel=8)
    assert answer.verdict == "fits"


def test_two_counts_that_differ_are_told(check_fit: Check) -> None:
    conflict = ("gpu-count-conflict", "gpu_count")
    for gpu, gpu_count in (("2x4090", 4), ("4x4090", 1)):
        answer = check_fit(model=LLAMA, gpu=gpu, gpu_count=gpu_count)
        assert conflict in codes(answer.warnings)
        assert answer.gpu.count == 4
    assert conflict not in codes(check_fit(model=LLAMA, gpu="4x4090", gpu_count=4).warnings)


@pytest.mark.parametrize(
    ("written", "same"), [("4-bit", "int4"), ("8 bit", "int8"), ("null", None)]
)
def test_quantizations_are_understood_as_people_write_them(
    check_fit: Check, written: str, same: str | None
) -> None:
    asked = {"model": LLAMA, "gpu": "RTX 4090"}
    assert (
        check_fit(**asked, quantization=written).per_gpu
        == check_fit(**asked, quantization=same).per_gpu
    )


@pytest.mark.parametrize("gpu", ["M2 16GB", "TPU v5e"])
def test_weights_stay_in_host_memory_only_where_a_card_can_read_it(
    check_fit: Check, gpu: str
) -> None:
    for suggestion in check_fit(model="Qwen/Qwen3-30B-A3B", gpu=gpu).suggestions:
        assert "cpu_offload_gib" not in suggestion.request


def test_more_of_what_is_part_of_a_machine_is_never_advised(check_fit: Check) -> None:
    answer = check_fit(model="Qwen/Qwen3-30B-A3B", gpu="M2 16GB")
    assert answer.verdict == "does_not_fit"
    assert answer.limits.min_gpu_count is None
    assert all(
        "gpu" in suggestion.request or "gpu_count" not in suggestion.request
        for suggestion in answer.suggestions
    )


@pytest.mark.parametrize(
    ("fields", "early"),
    [
        ({"model": "openai/gpt-oss-120b"}, ["llama.cpp"]),
        ({"model": "openai/gpt-oss-120b", "engine": "vllm"}, []),
        ({"model": "MiniMaxAI/MiniMax-M2"}, []),
        ({"model": "Qwen/Qwen3-32B", "context_length": 32768}, ["llama.cpp"]),
        ({"model": "Qwen/Qwen2.5-72B-Instruct"}, []),
    ],
    ids=[
        "experts",
        "another engine than asked for",
        "more than desktops hold",
        "a few layers",
        "most layers",
    ],
)
def test_host_memory_is_advised_before_more_gpus_only_where_people_can_read_along(
    check_fit: Check, fields: dict[str, Any], early: list[str]
) -> None:
    fitting = [
        one.request
        for one in check_fit(gpu="RTX 4090", **fields).suggestions
        if one.verdict == "fits"
    ]
    more = next(number for number, one in enumerate(fitting) if "gpu_count" in one)
    offloaded = [one for one in fitting if "cpu_offload_gib" in one]
    assert offloaded
    assert [one["engine"] for one in fitting[:more] if one in offloaded] == early


def test_some_layers_of_a_file_that_nearly_fits_are_kept_in_a_desktops_memory(
    check_fit: Check,
) -> None:
    """Its weights and cache are 5.67 of 5.78 GiB, so that all of it on the GPU is not sure."""
    first, *_ = check_fit(
        model="meta-llama/Llama-3.1-8B-Instruct", gpu="RTX 2060", settings="auto"
    ).suggestions
    assert first.verdict == "fits"
    assert first.request.keys() == {"engine", "quantization", "cpu_offload_gib"}
    assert first.launch is not None
    assert "-ngl 29 " in first.launch.command


def test_where_only_more_gpus_help_two_changes_at_once_are_told_too(check_fit: Check) -> None:
    suggestions = check_fit(
        model="Qwen/Qwen3-14B", gpu="L4", context_length=40960, concurrency=8
    ).suggestions
    assert any(one.verdict == "fits" and "gpu_count" not in one.request for one in suggestions)


def test_where_nothing_else_runs_an_engine_of_the_card_is_offered_with_smaller_weights(
    check_fit: Check,
) -> None:
    """16-bit weights of 8B do not fit on a TPU v5e, and TensorRT-LLM is no engine for it."""
    offered = check_fit(model="Qwen/Qwen3-8B", gpu="TPU v5e", engine="tensorrt-llm").suggestions
    assert offered[0].request == {"engine": "vllm", "quantization": "fp8"}
    assert offered[0].verdict == "fits"


def test_beyond_a_node_whole_nodes_are_suggested(check_fit: Check) -> None:
    answer = check_fit(model="deepseek-ai/DeepSeek-V3", gpu="8x H100 SXM")
    assert answer.limits.min_gpu_count not in (None, 8, 16)
    counts = [one.request["gpu_count"] for one in answer.suggestions if "gpu_count" in one.request]
    assert counts == [16]


def test_a_file_in_fewer_bits_is_suggested_where_the_usual_one_is_too_large(
    check_fit: Check,
) -> None:
    answer = check_fit(model="moonshotai/Kimi-K2-Instruct", gpu="M3 Ultra 512GB")
    assert answer.verdict == "does_not_fit"
    assert {"quantization": "q2_k"} in [
        one.request for one in answer.suggestions if one.verdict == "fits"
    ]


def test_another_engine_is_suggested_where_this_one_needs_more_gpus(check_fit: Check) -> None:
    suggestions = check_fit(model="Qwen/Qwen3-14B", gpu="Arc B580").suggestions
    on_one = [one for one in suggestions if "gpu_count" not in one.request]
    assert any(one.request.get("engine") == "llama.cpp" for one in on_one if one.verdict == "fits")
    commands = [one.launch.command for one in suggestions if one.launch]
    assert len(commands) == len(set(commands))


def test_a_model_published_in_a_format_of_files_is_served_from_its_own(check_fit: Check) -> None:
    answer = check_fit(model="openai/gpt-oss-20b", gpu="RTX 3060 12GB")
    by_cpu = next(
        one for one in answer.suggestions if {"engine", "cpu_offload_gib"} <= one.request.keys()
    )
    assert "quantization" not in by_cpu.request
    assert by_cpu.launch is not None
    assert "-hf ggml-org/gpt-oss-20b-GGUF " in by_cpu.launch.command
    assert not any("as published" in one.change for one in answer.suggestions)


def test_another_file_of_a_repository_is_suggested_and_started(check_fit: Check) -> None:
    repository = "bartowski/Qwen2.5-32B-Instruct-GGUF"
    answer = check_fit(model=f"{repository}:Q6_K", gpu="RTX A5000", engine="llama.cpp")
    first = answer.suggestions[0]
    assert (first.change, first.verdict) == ("take a Q4_K_M file", "fits")
    assert first.launch is not None
    assert f"-hf {repository}:Q4_K_M " in first.launch.command
    other = check_fit(
        model=f"{repository}:Q6_K", gpu="RTX A5000", engine="llama.cpp", quantization="q4_k_m"
    )
    assert other.per_gpu is not None
    assert first.required_bytes == other.per_gpu.required_bytes.expected


def test_where_little_is_lacking_host_memory_is_enough_to_fit(check_fit: Check) -> None:
    answer = check_fit(model="openai/gpt-oss-20b", gpu="RTX 3060 12GB", engine="llama.cpp")
    offloads = [one for one in answer.suggestions if "cpu_offload_gib" in one.request]
    assert [one.verdict for one in offloads] == ["fits"]


def test_what_serves_all_that_is_asked_on_this_card_comes_before_more_cards(
    check_fit: Check,
) -> None:
    first, *others = check_fit(model="google/gemma-3-12b-it", gpu="RTX 3060 12GB").suggestions
    assert (first.verdict, first.request) == (
        "fits",
        {"engine": "llama.cpp", "quantization": "q4_k_m"},
    )
    assert any("gpu_count" in one.request for one in others)
