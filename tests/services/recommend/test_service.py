"""recommend_gpus: the order, the constraints, and those that leave nothing."""

import asyncio
import re
from math import inf

import pytest
from msgspec import structs

from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from made_up import vector


@pytest.mark.parametrize("concurrency", [8, 300])
def test_every_option_gives_the_same_bytes_when_it_is_asked_by_itself(
    recommend, check_fit, concurrency
):
    for item in recommend(limit=1000, concurrency=concurrency, context_length=2048).items[::7]:
        again = check_fit(**item.request)
        assert again.verdict == item.verdict
        assert again.gpu == item.gpu
        assert again.per_gpu.required_bytes == item.required_bytes
        assert again.per_gpu.headroom_bytes == item.headroom_bytes
        assert again.launch == item.launch


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
def test_options_for_text_alone_hold_no_encoders(questions, engine):
    def options(**fields):
        request = RecommendRequest(model="google/gemma-3-27b-it", gpus="L40S", **fields)
        return asyncio.run(questions.recommend_gpus(request)).options

    for item in (alone := options(language_model_only=True, engine=engine)):
        again = asyncio.run(questions.check_fit(FitRequest(**item.request)))[1]
        assert again.per_gpu.required_bytes == item.required_bytes
        assert again.launch == item.launch
    least = min(item.required_bytes.expected for item in alone)
    assert least < min(item.required_bytes.expected for item in options(engine=engine))
    with pytest.raises(InvalidRequestError, match="sglang serves no model without"):
        options(language_model_only=True, engine="sglang")


@pytest.mark.parametrize(
    "objective,best",
    [
        ("fewest cards", lambda item: item.gpu.count),
        ("smallest", lambda item: item.total_usable_bytes),
        ("Fastest", lambda item: -item.decode.tokens_per_second.expected if item.decode else 0),
        ("most-headroom", lambda item: -item.headroom_bytes),
        ("cheapest", lambda item: item.cost.usd_per_hour_low if item.cost else inf),
        ("cheapest per token", lambda item: usd_per_token(item)),
    ],
)
def test_the_objective_orders_the_answers(recommend, objective, best):
    items = recommend(objective=objective, limit=1000).items
    assert [best(item) for item in items] == sorted(map(best, items))


def usd_per_token(item):
    """From what is told of it."""
    return (
        item.cost.usd_per_hour_low / item.decode.tokens_per_second.expected
        if item.cost and item.decode
        else inf
    )


def test_pages_follow_each_other(recommend):
    whole = recommend(limit=1000)
    assert [*recommend(limit=3).items, *recommend(limit=1000, offset=3).items] == whole.items
    assert whole.total == len(whole.items)


def test_a_question_asked_twice_gets_the_same_bytes(recommend):
    assert recommend(concurrency=3) == recommend(concurrency=3)


def test_only_the_gpus_at_hand_are_used_and_no_more_than_there_are(recommend):
    items = recommend(gpus="2x L40S, RTX 4090", limit=1000).items
    assert {item.gpu.name for item in items} <= {"L40S", "RTX 4090"}
    assert max(item.gpu.count for item in items if item.gpu.name == "L40S") <= 2


def test_a_list_of_names_is_the_same_as_a_text_with_commas(recommend):
    answers = recommend(vendors=["AMD", "Intel"]), recommend(vendors="amd, intel")
    assert answers[0].options == answers[1].options


def test_slices_laptops_and_machines_with_one_gpu_are_used_alone(recommend):
    for item in recommend(limit=1000, max_gpu_count=4, include="all").items:
        if (
            item.gpu.id.startswith("mig-")
            or "Laptop" in item.gpu.name
            or item.gpu.name.startswith("Apple")
        ):
            assert item.gpu.count == 1


def test_a_card_that_is_only_a_size_can_be_asked_about_by_itself(recommend, check_fit):
    item = recommend(gpus="2x 80GB").options[0]
    assert check_fit(**item.request).per_gpu.required_bytes == item.required_bytes


def test_a_least_speed_leaves_out_what_is_slower_or_unknown(recommend):
    every, fast = recommend(limit=1000), recommend(min_tokens_per_second=100, limit=1000)
    speeds = [item.decode.tokens_per_second.expected for item in fast.items]
    assert min(speeds) >= 100
    assert {vector(item) for item in every.items if item.decode and vector(item)[2] >= 100} == set(
        map(vector, fast.items)
    )


def test_understood_as_can_be_sent_back(recommend):
    first = recommend(
        gpus="2x L40S, RTX 4090",
        vendors="nvidia",
        concurrency=2,
        min_weight_bits=4.5,
        objective="Smallest",
        max_nodes=2,
        prompt_tokens=99,
    )
    known = {name: value for name, value in first.understood_as.items() if name != "model"}
    again = recommend(**known)
    again.answer_id = first.answer_id
    assert again == first


@pytest.mark.parametrize(
    "fields", [{"engine": "mlx", "vendors": "NVIDIA"}, {"engine": "tensorrt-llm", "vendors": "AMD"}]
)
def test_an_engine_that_runs_on_none_of_the_cards_is_told_from_one_that_is_too_small(
    recommend, fields
):
    with pytest.raises(InvalidRequestError, match=r"No option .* satisfies `engine`"):
        recommend(**fields)


def test_a_card_of_unknown_bandwidth_has_no_speed(recommend):
    assert all(item.decode is None for item in recommend(gpus="80GB").options)


@pytest.mark.parametrize(
    "gpu,concurrency,is_known",
    [("M3 Ultra 256GB", 1, True), ("M3 Ultra 256GB", 4, False), ("P40", 1, False)],
)
def test_a_speed_is_said_only_where_arithmetic_is_known_or_reading_decides(
    recommend, check_fit, gpu, concurrency, is_known
):
    items = recommend(gpus=gpu, concurrency=concurrency, context_length=2048, limit=1000).items
    assert items
    assert {item.decode is not None for item in items} == {is_known}
    assert {check_fit(**item.request).speed is not None for item in items} == {is_known}


@pytest.mark.parametrize(
    "fields,field,said",
    [
        ({"gpus": "RTX 4090", "vendors": "AMD"}, "vendors", "exclude each other"),
        ({"quantization": "awq", "no_quantization": True}, "no_quantization", "exclude each other"),
        ({"min_weight_bits": 20}, "min_weight_bits", "16 bits"),
        (
            {"gpus": "RTX 4090", "max_gpu_count": 1, "no_quantization": True},
            "max_gpu_count",
            "No option",
        ),
        ({"gpus": "RTX 4060 Laptop"}, "gpus", "No option"),
        ({"gpus": "RTX 4090", "min_tokens_per_second": 1e6}, "min_tokens_per_second", "No option"),
        ({"vendors": "Nvidea"}, "vendors", "Unknown vendor"),
        ({"objective": "prettiest"}, "objective", "Unknown objective"),
        ({"max_usd_per_hour": 0.01}, "max_usd_per_hour", "No option"),
        (
            {"gpus": "RTX 4060 Laptop", "max_usd_per_hour": 0.01},
            "max_usd_per_hour",
            "satisfies `max_usd_per_hour` .* and `gpus`",
        ),
        ({"max_seconds_to_first_token": 1e-6}, "max_seconds_to_first_token", "No option"),
        ({"max_watts": 1}, "max_watts", "No option"),
        (
            {"quantization": "nvfp4", "min_quality": 99},
            "min_quality",
            "at least 89.45 % was recovered",
        ),
        ({"quantization": "nf4", "min_quality": 99}, "min_quality", "no quality was measured"),
        ({"owned": True}, "owned", "`owned` requires `gpus`"),
        ({"owned": True, "gpus": "2x L40S", "clouds": "aws"}, "clouds", "exclude each other"),
        ({"clouds": "atlantis"}, "clouds", "Unknown cloud"),
        ({"clouds": "aws", "gpus": "RTX 4090"}, "clouds", "rents? none of"),
        ({"concurrency": 1_000_000}, "context_length", "workload"),
    ],
)
def test_what_leaves_nothing_is_named(recommend, fields, field, said):
    with pytest.raises(InvalidRequestError, match=said) as caught:
        recommend(**fields)
    assert caught.value.field == field
    assert caught.value.hint


def test_a_quantized_repository_is_offered_as_it_is(questions):
    answer = asyncio.run(
        questions.recommend_gpus(RecommendRequest(model="openai/gpt-oss-20b", limit=1000))
    )
    assert {item.quantization for item in answer.items} == {"as published"}


@pytest.mark.parametrize(
    "fields, told",
    [
        ({"min_tokens_per_second": 1e6}, "the fastest, at "),
        ({"max_seconds_to_first_token": 1e-6}, "the shortest wait, "),
        ({"max_watts": 1}, "it draws the least, "),
        ({"owned": True, "gpus": "RTX 3060 12GB", "max_gpu_count": 1}, " fits."),
    ],
)
def test_what_is_named_instead_comes_nearest_to_what_was_asked(recommend, fields, told):
    with pytest.raises(InvalidRequestError) as caught:
        recommend(**fields)
    assert told in caught.value.hint


def test_of_gpus_that_are_too_small_the_workload_that_is_left_is_told(recommend):
    with pytest.raises(InvalidRequestError) as caught:
        recommend(gpus="RTX 3090", max_gpu_count=1, concurrency=8, context_length=16384)
    concurrency, context = map(
        int,
        re.search(r"concurrency (\d+) at context_length (\d+) fits", caught.value.hint).groups(),
    )
    assert recommend(
        gpus="RTX 3090", max_gpu_count=1, concurrency=concurrency, context_length=context
    ).options


def test_of_as_many_cards_the_cheapest_and_at_one_price_the_fastest_comes_first(recommend):
    def price(item):
        return item.cost.usd_per_hour_low if item.cost else inf

    fewest = [(item.gpu.count, price(item)) for item in recommend(limit=1000).items]
    assert fewest == sorted(fewest)
    cheapest = [
        (price(item), -item.decode.tokens_per_second.expected if item.decode else 1)
        for item in recommend(objective="cost", limit=20).items
    ]
    assert cheapest == sorted(cheapest)


def test_the_summary_names_speed_price_and_the_best_of_other_orders(recommend):
    summary = recommend(objective="cheapest", concurrency=4).summary
    assert re.search(
        r", about [\d,.]+ tokens a second \([\d,.]+ a request\), from [\d.]+ USD an hour \(",
        summary,
    )
    assert "The fewest GPUs" in summary
    assert "The fastest: " in summary


def test_a_list_that_names_nothing_is_refused(recommend):
    with pytest.raises(InvalidRequestError, match="`gpus` is empty"):
        recommend(gpus=", ,")


def test_a_command_that_loads_another_format_says_what_to_load(recommend):
    items = recommend(gpus="H100", limit=1000).items
    unknown = [item for item in items if item.launch.placeholder]
    assert unknown
    assert all(item.quantization in item.launch.placeholder.lower() for item in unknown)
    assert all(f"'{item.launch.placeholder}'" in item.launch.command for item in unknown)
    awq = next(item for item in items if item.quantization == "awq")
    assert "Qwen/Qwen3-32B-AWQ" in awq.launch.command


def test_more_requests_than_an_engine_runs_by_itself_are_told_to_it(recommend):
    item = recommend(engine="vllm", concurrency=300, context_length=2048, limit=1).items[0]
    assert "--max-num-seqs 300" in item.launch.command
    assert (
        "--max-num-seqs"
        not in recommend(engine="vllm", concurrency=200, context_length=2048, limit=1)
        .items[0]
        .launch.command
    )


def test_a_longest_wait_leaves_out_what_is_slower_or_unknown(recommend):
    items = recommend(max_seconds_to_first_token=0.5, prompt_tokens=4096, limit=1000).items
    assert items
    assert all(
        item.prefill.seconds_to_first_token.expected <= 0.5 and item.prefill.prompt_tokens == 4096
        for item in items
    )


def test_a_format_tells_what_it_was_measured_on(recommend):
    answer = recommend(quantization="awq", limit=1000)
    quality = next(item for item in answer.items if item.engine == "vllm").quality
    rows = answer.measurements["awq"]
    assert all(row.source for row in rows)
    assert (quality.measurements, quality.low) == (
        len(rows),
        min(row.recovered_percent for row in rows),
    )
    assert recommend(no_quantization=True).measurements == {}


def test_within_one_node_no_more_gpus_are_used_than_it_holds(recommend):
    assert all(
        item.gpu.count <= 2 for item in recommend(max_nodes=1, gpus_per_node=2, limit=1000).items
    )


def test_a_pod_asks_for_the_gpus_of_its_node(recommend):
    item = next(
        item
        for item in recommend(gpus="4x L40S", engine="vllm", limit=1000).items
        if item.gpu.count == 4
    )
    pod = item.kubernetes
    assert (pod.kind, pod.pods, pod.limits) == ("Deployment", 1, {"nvidia.com/gpu": 4})
    assert pod.node_selector == {"nvidia.com/gpu.product": "NVIDIA-L40S"}
    assert pod.shared_memory.size_limit == "2Gi"
    halves = next(
        item
        for item in recommend(gpus="4x L40S", engine="vllm", gpus_per_node=2, limit=1000).items
        if item.gpu.count == 4
    )
    assert (halves.kubernetes.kind, halves.kubernetes.pods, halves.kubernetes.limits) == (
        "LeaderWorkerSet",
        2,
        {"nvidia.com/gpu": 2},
    )


def test_a_gpu_that_nobody_named_runs_what_an_engine_installs(recommend, check_fit):
    for item in recommend(limit=1000, objective="cheapest").items:
        codes = [one.code for one in check_fit(**item.request).warnings]
        assert "wheels-for-newer-gpus" not in codes


def test_an_old_gpu_that_is_named_is_answered_with_the_engine_that_can_be_built(recommend):
    engines = {item.engine for item in recommend(gpus=["V100 32GB"], limit=1000).items}
    assert "vllm" in engines


def test_a_format_that_nobody_published_hides_none_that_somebody_did(questions):
    """AWQ would be as good on paper; Qwen published GPTQ. Twenty users are not llama.cpp's."""
    asked = RecommendRequest(
        model="Qwen/Qwen3-30B-A3B",
        gpus="A100 80GB",
        context_length=16384,
        concurrency=20,
        objective="cheapest",
    )
    answer = asyncio.run(questions.recommend_gpus(asked))
    best = answer.options[0]
    assert (best.engine, best.quantization) == ("vllm", "gptq")
    assert "Qwen/Qwen3-30B-A3B-GPTQ-Int4" in best.launch.command
    assert "awq" not in {item.quantization for item in answer.items}


def test_an_engine_of_macs_alone_is_recommended_macs(recommend):
    answer = recommend(engine="mlx", limit=9)
    assert answer.understood_as["include"] == "all"
    assert {item.gpu.name.split()[0] for item in answer.items} == {"Apple"}
    assert "include" not in recommend(engine="vllm").understood_as


@pytest.mark.parametrize(
    ("concurrency", "gpus", "of_layers"),
    [(1, "RTX 4090", "80 to 120"), (16, "RTX 4090", "120"), (1, "H100", "120")],
)
def test_the_time_of_layers_is_that_of_what_is_recommended(recommend, concurrency, gpus, of_layers):
    """llama.cpp's own is of one request on desktops' chips."""
    answer = recommend(gpus=gpus, concurrency=concurrency, limit=50)
    (said,) = [note for note in answer.warnings if note.code == "speeds-estimated"]
    assert "llama.cpp" in {item.engine for item in answer.items}
    assert f" plus {of_layers} us per layer " in said.message


def test_kinds_choose_the_gpus(recommend):
    names = {item.gpu.name for item in recommend(kinds="consumer, Blackwell", limit=50).items}
    assert names
    assert all(name.startswith("RTX 50") for name in names)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kinds": "quantum"}, "unknown-value"),
        ({"kinds": "jetson", "vendors": "AMD"}, "no-option"),
        ({"kinds": "consumer", "gpus": "RTX 4090"}, "conflicting-fields"),
        ({"kinds": ","}, "invalid-value"),
    ],
)
def test_kinds_that_leave_nothing_are_refused(recommend, fields, code):
    with pytest.raises(InvalidRequestError) as refused:
        recommend(**fields)
    assert (refused.value.field, refused.value.code) == ("kinds", code)


def test_of_a_quantized_model_4_bits_are_recommended_where_it_fits_nothing_as_published(questions):
    request = RecommendRequest(model="deepseek-ai/DeepSeek-R1", vendors="apple", limit=5)
    answer = asyncio.run(questions.recommend_gpus(request))
    assert answer.understood_as["quantization"] == "int4"
    assert {item.gpu.name for item in answer.items} == {"Apple M3 Ultra 512GB"}
    wide = structs.replace(request, min_weight_bits=8)
    with pytest.raises(InvalidRequestError):
        asyncio.run(questions.recommend_gpus(wide))
    rented = structs.replace(request, vendors=None, gpus="MI300X")
    assert "quantization" not in asyncio.run(questions.recommend_gpus(rented)).understood_as
