"""recommend_gpus for training: each option fits when it is asked by itself, and no fewer of its
card would do."""

import asyncio

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.choices import DEFAULT_GLOBAL_BATCH
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from whole_lists import whole_list

MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(scope="module")
def recommend(questions):
    return whole_list(
        lambda **fields: asyncio.run(
            questions.recommend_gpus(
                RecommendRequest(model=MODEL, **{"task": "training", **fields})
            )
        )
    )


@pytest.fixture(scope="module")
def train_check(questions):
    return lambda **fields: asyncio.run(
        questions.check_training_fit(TrainingRequest(**{"model": MODEL, **fields}))
    )[1]


def marks(item):
    """(cards, memory, tokens a second, dollars an hour), the smaller the better."""
    cost = item.cost.usd_per_hour_low if item.cost else float("inf")
    return item.gpu.count, item.total_usable_bytes, -(item.tokens_per_second_at_peak or -1.0), cost


def test_every_option_fits_when_it_is_asked_by_itself(recommend, questions):
    for item in recommend(limit=1000).training[::3]:
        _, answer = asyncio.run(questions.check_training_fit(TrainingRequest(**item.request)))
        assert answer.verdict == "fits"
        assert answer.gpu == item.gpu
        assert answer.per_gpu.required_bytes == item.required_bytes


def test_fewer_of_the_card_do_not_suffice(recommend, questions):
    item = next(
        item
        for item in recommend(gpus="A100 80GB, L40S", limit=1000).training
        if item.gpu.count > 1
    )
    request = TrainingPlanRequest(model=MODEL, gpu=item.gpu.name, gpu_count=item.gpu.count // 2)
    _, answer = asyncio.run(questions.plan_training(request))
    assert not [plan for plan in answer.plans if plan.verdict == "fits"]


@pytest.mark.parametrize(
    "gpu,method,framework",
    [
        ("A10G", "full", "axolotl"),  # between powers of two
        ("A100 40GB", "full", None),
        ("A10G", "full", "deepspeed"),
        ("RTX 4090", "lora", "trl"),  # on one GPU as the tool starts it there
        ("L40S", "qlora", "llama-factory"),
    ],
)
def test_the_fewest_are_those_of_a_plan(recommend, questions, gpu, method, framework):
    item = recommend(gpus=gpu, method=method, framework=framework, limit=1).training[0]
    request = TrainingPlanRequest(model=MODEL, gpu=gpu, method=method, framework=framework)
    first = asyncio.run(questions.plan_training(request))[1].plans[0]
    assert (item.gpu.count, item.framework) == (first.gpu_count, first.settings["framework"])


def test_fewer_than_a_power_of_two_are_taken_within_a_budget(recommend):
    unbound = recommend(gpus="A100 40GB", method="full", framework="fsdp", limit=1).training[0]
    most = unbound.cost.usd_per_hour_low
    bound = recommend(
        gpus="A100 40GB", method="full", framework="fsdp", max_usd_per_hour=most, limit=1
    ).training[0]
    assert bound.gpu.count == unbound.gpu.count
    assert unbound.gpu.count & (unbound.gpu.count - 1)


@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
def test_no_option_is_beaten(recommend, method):
    vectors = [marks(item) for item in recommend(limit=1000, method=method).training]
    assert not any(
        one != other and all(a <= b for a, b in zip(one, other, strict=True))
        for one in vectors
        for other in vectors
    )


@pytest.mark.parametrize(
    "objective,place", [("fewest cards", 0), ("smallest", 1), ("fastest", 2), ("cheapest", 3)]
)
def test_the_objective_orders_the_options(recommend, objective, place):
    values = [marks(item)[place] for item in recommend(objective=objective, limit=1000).training]
    assert values == sorted(values)


def test_adapters_need_less(recommend):
    full = recommend(limit=1, method="full")
    adapted = recommend(limit=1, method="qlora", objective="smallest")
    assert adapted.training[0].total_usable_bytes < full.training[0].total_usable_bytes / 4


def test_only_the_gpus_at_hand_are_used(recommend):
    answer = recommend(gpus="8x A100 80GB", owned=True, limit=1000)
    assert {(item.gpu.name, item.cost.usd_per_hour_low) for item in answer.training} == {
        ("A100 80GB SXM", 0.0)
    }
    assert answer.training[0].gpu.count <= 8


def test_understood_as_can_be_sent_back(recommend):
    first = recommend(sequence_length=4096, method="LoRA", vendors="amd")
    known = {
        name: value for name, value in first.understood_as.items() if name not in ("model", "task")
    }
    again = recommend(**known)
    again.answer_id = first.answer_id
    assert again == first


@pytest.mark.parametrize(
    "fields,field,said",
    [
        ({"context_length": 4096}, "context_length", "a field of serving"),
        ({"task": None, "method": "lora"}, "method", "a field of training"),
        ({"task": None, "max_gpu_count": 64}, "max_gpu_count", "exceeds the limit of 16"),
        ({"gpus": "RTX 4060 Laptop"}, "gpus", "No option"),
        ({"max_usd_per_hour": 0.01}, "max_usd_per_hour", "No option"),
        ({"max_gpu_count": 1, "gpus": "RTX 3090", "method": "full"}, "max_gpu_count", "No option"),
    ],
)
def test_what_leaves_nothing_is_named(recommend, fields, field, said):
    with pytest.raises(InvalidRequestError, match=said) as caught:
        recommend(**fields)
    assert caught.value.field == field
    assert caught.value.hint


def test_a_budget_that_nobody_meets_names_the_cheapest_that_would(recommend):
    with pytest.raises(InvalidRequestError, match="max_usd_per_hour") as caught:
        recommend(max_usd_per_hour=0.01)
    cheapest = recommend(objective="cheapest", limit=1).training[0]
    assert f"{cheapest.cost.usd_per_hour_low:.2f} USD an hour" in caught.value.hint


def test_one_gpu_is_recommended_where_train_check_fits_it_on_one(recommend, train_check):
    for method in ("lora", "qlora", "full"):
        for gpu in ("RTX 4090", "L40S", "H200"):
            asked = {"gpu": gpu, "method": method, "micro_batches": DEFAULT_GLOBAL_BATCH}
            if train_check(**asked).verdict == "fits":
                (option,) = recommend(gpus=gpu, method=method).training_options
                assert (option.gpu.count, option.method) == (1, method)


def test_the_methods_stand_side_by_side_where_none_is_named(recommend):
    options = recommend().training_options
    assert 3 <= len(options) <= 5
    assert [option.method for option in options[:3]] == ["lora", "qlora", "full"]
    assert all(option.roles and option.reason and option.cost for option in options)


def test_options_are_items_of_the_whole_list(recommend):
    answer = recommend(detail="full", limit=1000)
    assert len(answer.training) == answer.total
    requests = [item.request for item in answer.training]
    assert all(option.request in requests for option in answer.training_options)
    assert recommend().training == []


def test_more_gpus_than_64_are_searched_where_no_fewer_hold_the_model(questions):
    asked = RecommendRequest(
        model="deepseek-ai/DeepSeek-V3", task="training", method="full", gpus="H200"
    )
    answer = asyncio.run(questions.recommend_gpus(asked))
    assert [one.gpu.count for one in answer.training_options] == [128]
    assert answer.understood_as["max_gpu_count"] == 128


def test_an_option_of_a_tool_is_started_and_asked_again_by_it(recommend, train_check):
    trained = recommend(
        gpus="RTX 4090, H100", framework="axolotl", method="full", limit=1000
    ).training
    assert max(item.gpu.count for item in trained) > 1
    for item in trained:
        assert item.framework in ("fsdp", "deepspeed", "transformers")
        assert "axolotl" in item.launch.command
        answer = train_check(**item.request)
        assert (answer.verdict, answer.per_gpu.required_bytes) == ("fits", item.required_bytes)
