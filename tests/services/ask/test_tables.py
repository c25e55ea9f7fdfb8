"""Questions that several answers or a table answer."""

import asyncio

import msgspec
import pytest

from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest


def test_a_list_of_models_to_train_is_not_one_of_models_to_serve(ask, questions):
    answer = ask("What is the largest model I can qlora on a 4090 with 4k context?")
    assert answer.operation == "list_models_that_fit"
    request = ModelsForGpuRequest(
        gpu="4090",
        task="training",
        method="qlora",
        sequence_length=4096,
        objective="largest",
        limit=10,
    )
    listed = msgspec.to_builtins(asyncio.run(questions.list_models_that_fit(request)))
    assert answer.answer["items"] == listed["items"]
    assert answer.answer["items"]


def test_models_at_once_on_one_gpu_are_added(ask):
    text = "Can I run Qwen/Qwen3-Embedding-8B and Qwen/Qwen3-Reranker-4B together on one L4?"
    assert ask(text).answer["summary"].startswith("At once they do not fit on 1 x L4")


def test_several_models_are_all_answered(ask):
    answer = ask("llama 3.1 8b or qwen3 14b for qlora on a 4090?")
    assert answer.operation == "check_training_fit"
    assert answer.missing == []
    assert [one["model"]["id"] for one in answer.answers] == [
        "meta-llama/Llama-3.1-8B-Instruct",
        "Qwen/Qwen3-14B",
    ]
    assert answer.answer == answer.answers[0]


def test_one_model_has_one_answer(ask):
    assert ask("qwen3 14b qlora on a 4090?").answers is msgspec.UNSET


def test_which_format_to_take_is_a_table_of_formats_from_the_widest(ask):
    answer = ask("Which quant of qwen3-32b should I take for a 24GB card?")
    formats = [row["quantization"] for row in answer.answer["items"]]
    assert formats.index("q8_0") < formats.index("q4_k_m") < formats.index("q2_k")
    fitting = [row["quantization"] for row in answer.answer["items"] if row["verdict"] == "fits"]
    assert fitting[0] in answer.answer["summary"]
    assert answer.missing == []
    fit = ask(f"qwen3-32b {fitting[0]} on 24GB").answer
    assert answer.launch.command == fit["launch"]["command"]


@pytest.mark.parametrize("gpus", ["a 3090 and a 4090 together", "RTX 3090 + RTX 4090"])
def test_gpus_of_several_kinds_are_divided_over_by_the_engine_that_can(ask, gpus):
    answer = ask(f"will qwen3 32b fit on {gpus}?")
    assert answer.answer["understood_as"]["engine"] == "llama.cpp"
    assert [line.partition(":")[0] for line in answer.missing] == ["engine"]
    plain = ask(f"will qwen3 32b in q6 fit on {gpus}?")
    assert plain.answer["understood_as"]["engine"] == "llama.cpp"
    assert plain.missing == []


def test_a_table_in_which_nothing_fits_is_one_of_formats(ask):
    answer = ask("RTX 5070 Ti or RTX 3090 for Qwen3 32B?")
    fitting = [row for row in answer.answer["items"] if row["verdict"] == "fits"]
    assert {row["gpu"] for row in fitting} == {"RTX 5070 Ti", "RTX 3090"}
    assert [line.partition(":")[0] for line in answer.missing] == ["quantization"]
    named = ask("RTX 5070 Ti or RTX 3090 for Qwen3 32B in bf16?")
    assert {row["quantization"] for row in named.answer["items"]} == {"bf16"}


def test_models_on_one_gpu_are_added_up(ask):
    answer = ask("can I serve llama3 8b and qwen3 8b on the same 4090?").answer
    needs = sum(row["required_bytes"]["expected"] for row in answer["items"])
    assert answer["summary"].startswith("At once they do not fit on 1 x RTX 4090: ")
    assert f" = {needs / 2**30:.1f} of " in answer["summary"]
    small = ask("can I serve qwen3 0.6b and qwen3 1.7b on the same H100?").answer
    assert small["summary"].startswith("At once they fit on ")
    apart = ask("compare llama3 8b and qwen3 8b on a 4090").answer
    assert "At once" not in apart["summary"]


def test_engines_side_by_side_are_rows(ask):
    answer = ask("vllm vs llama.cpp for qwen3 14b on a 4080").answer
    assert [row["engine"] for row in answer["items"]] == ["vllm", "llama.cpp"]
    assert "llama.cpp" in answer["summary"]


def test_the_cheaper_of_two_is_told_with_its_price(ask):
    answer = ask("which is cheaper for llama 3.3 70b: 2x A100 80GB or 4x L40S?")
    assert answer.operation == "recommend_gpus"
    assert answer.answer["objective"] == "cheapest"
    assert answer.answer["summary"].startswith("The cheapest ")


def test_both_halves_of_disaggregated_serving_are_answered(ask, questions):
    text = "qwen3 32b: prefill on 2x H100, decode on 4x H200, 32k context, 32 users"
    answer = ask(text)
    requests = [
        FitRequest(
            model="qwen3 32b", gpu="2x H100", context_length=32768, disaggregation="prefill"
        ),
        FitRequest(
            model="qwen3 32b",
            gpu="4x H200",
            context_length=32768,
            concurrency=32,
            disaggregation="decode",
        ),
    ]
    for one, request in zip(answer.answers, requests, strict=True):
        assert one == msgspec.to_builtins(asyncio.run(questions.check_fit(request))[1])
        assert f"({request.disaggregation})" in one["summary"]


def test_the_servers_of_a_half_share_its_requests(ask):
    answer = ask("1P3D with 8xH100 each for deepseek r1 in sglang, 90 requests")
    prefill, decode = (one["understood_as"] for one in answer.answers)
    assert (prefill["disaggregation"], decode["disaggregation"]) == ("prefill", "decode")
    assert (prefill["concurrency"], decode["concurrency"]) == (1, 30)
    assert any("3 decode servers" in line for line in answer.missing)


def test_the_largest_of_a_family_is_searched_for_in_the_list(ask):
    models = [row["model"] for row in ask("largest qwen for a 3090?").answer["items"]]
    assert models
    assert all("qwen" in model.lower() for model in models)


def test_formats_of_a_cache_side_by_side_have_an_answer_each(ask):
    answer = ask("Llama 3.3 70B AWQ on 2x A6000: fp8 or fp16 kv cache at 32k?")
    caches = [one["understood_as"]["kv_cache_dtype"] for one in answer.answers]
    assert [cache.split()[0] for cache in caches] == ["f8_e4m3", "f16"]
    assert answer.understood.quantization == "awq"


def test_of_several_gpus_each_is_told_the_widest_format_that_fits(ask):
    answer = ask("qwen3 14b on a 3060 12gb or a 4060 ti 16gb or a 3090").answer
    assert [(row["gpu"], row["quantization"]) for row in answer["items"]] == [
        ("RTX 3060 12GB", "q5_k_m"),
        ("RTX 4060 Ti 16GB", "q6_k"),
        ("RTX 3090", "fp8"),
    ]
    assert answer["total"] == 3
    assert (
        "3 of 3 fit in some format, the widest of each: RTX 3060 12GB in q5_k_m ("
        in (answer["summary"])
    )


def test_what_does_not_fit_as_published_beside_what_does_is_told_its_format(ask):
    answer = ask("T4 vs L4 for mistral 7b").answer
    assert [row["verdict"] for row in answer["items"]] == ["does_not_fit", "fits"]
    first, second = answer["summary"].split(". ")
    assert first.startswith("1 of 2 fit: L4 (")
    assert second.startswith("In other formats: T4 in fp8 (")


def test_a_model_that_nobody_knows_hides_no_format_of_the_others(ask):
    answer = ask("acme/unheard-of-7b or mistral 7b on a T4").answer
    assert answer["items"][0]["error"] is not None
    assert answer["summary"].startswith("1 of 2 fit in some format, the widest of each: ")
    of_two = ask("acme/unheard-of-7b or mistral 7b on a T4 or an L4").answer["summary"]
    assert of_two.startswith("1 of 4 fit: L4 (")
    assert "In other formats: T4 in fp8 (" in of_two


@pytest.mark.parametrize(
    "text", ["llama 3.1 8b on an L4: 1 user vs 16 users?", "llama 3.1 8b on L4, 1 or 16 users?"]
)
def test_numbers_of_users_side_by_side_are_rows(ask, text):
    answer = ask(text)
    assert answer.operation == "compare_fit"
    assert answer.understood.concurrencies == [1, 16]
    assert [row["verdict"] for row in answer.answer["items"]] == ["fits", "does_not_fit"]
