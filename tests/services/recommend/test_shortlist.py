"""recommend_gpus: the few options that are shown first."""

import asyncio

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.errors import InvalidRequestError
from fitgauge.services.recommend.schemas import RecommendRequest
from whole_lists import whole_list

MODELS = (
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3.5-27B",
)


@pytest.fixture(scope="module")
def recommend(questions):
    ask = whole_list(
        lambda model, **fields: asyncio.run(
            questions.recommend_gpus(RecommendRequest(model=model, **fields))
        )
    )
    return lambda model=MODELS[0], **fields: ask(model=model, **fields)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("load", [{}, {"context_length": 32768, "concurrency": 16}])
def test_three_to_five_options_are_sold_priced_and_start_as_printed(
    recommend, check_fit, model, load
):
    answer = recommend(model, **load)
    assert 3 <= len(answer.options) <= 5
    assert answer.items == []
    for option in answer.options:
        assert bundled().find(option.gpu.name).accelerator.availability == "sold"
        assert option.cost.usd_per_hour_low > 0
        assert option.cost.priced_at.concurrency == load.get("concurrency", 1)
        assert option.launch.placeholder in (None, "HEAD_NODE_IP")
        assert (option.launch.placeholder is None) == (option.launch.nodes == 1)
        assert option.roles
        assert option.reason
        again = check_fit(**option.request)
        assert (again.verdict, again.launch) == ("fits", option.launch)
        assert again.per_gpu.required_bytes == option.required_bytes
        assert {one.setting: one.value for one in again.chosen} == option.chosen


@pytest.mark.parametrize("asked", [{}, {"gpus": "A100 40GB", "concurrency": 8}])
def test_each_role_is_taken_by_the_best_of_the_options(recommend, asked):
    options = recommend(**asked).options
    by_role = {role: option for option in options for role in option.roles}
    assert {"fewest_gpus", "cheapest", "fastest", "headroom", "as_published"} <= set(by_role)
    assert by_role["fewest_gpus"].gpu.count == min(option.gpu.count for option in options)
    price = min(option.cost.usd_per_hour_low for option in options)
    assert by_role["cheapest"].cost.usd_per_hour_low == price
    speeds = [option.decode.tokens_per_second.expected for option in options]
    assert by_role["fastest"].decode.tokens_per_second.expected == max(speeds)
    roomy = by_role["headroom"]
    assert roomy.headroom_bytes >= 0.25 * roomy.budget_bytes
    assert by_role["as_published"].quantization == "as published"


def test_the_option_of_the_objective_comes_first(recommend):
    for objective, role in (("cheapest", "cheapest"), ("most headroom", "headroom")):
        assert role in recommend(objective=objective).options[0].roles


def test_what_is_not_sold_is_used_where_it_is_named_or_included(recommend):
    def kinds(**fields):
        items = recommend(detail="full", limit=1000, **fields).items
        return {bundled().find(item.gpu.name).accelerator.availability for item in items}

    assert kinds() == {"sold"}
    assert "integrated" in kinds(include="integrated, announced")
    assert "retired" not in kinds(include="integrated, announced")
    assert kinds(vendors="Apple") == {"integrated"}
    assert kinds(gpus="RTX 5090 Laptop") == {"laptop"}
    with pytest.raises(InvalidRequestError) as caught:
        recommend(include="cheap")
    assert (caught.value.field, caught.value.code) == ("include", "unknown-value")


def test_the_speed_of_one_user_is_a_constraint(recommend):
    answer = recommend(
        concurrency=8, min_tokens_per_second_per_request=60, detail="full", limit=1000
    )
    assert min(one.decode.tokens_per_second_per_request for one in answer.items) >= 60
    with pytest.raises(InvalidRequestError) as caught:
        recommend(min_tokens_per_second_per_request=1e6)
    assert caught.value.field == "min_tokens_per_second_per_request"


def test_the_wait_for_the_first_token_is_a_constraint(recommend):
    for option in recommend(max_seconds_to_first_token=1.0).options:
        assert option.prefill.seconds_to_first_token.expected <= 1.0


def test_speeds_asked_for_are_those_of_a_fit_at_the_load(recommend, check_fit):
    asked = {
        "concurrency": 50,
        "max_seconds_to_first_token": 4.0,
        "min_tokens_per_second_per_request": 10.0,
    }
    for option in recommend(**asked).options:
        speed = check_fit(**{**option.request, **asked}).speed
        assert {one.reached for one in speed.targets} <= {"yes", "likely"}
        if speed.first_token_basis == "modelled":
            assert speed.seconds_to_first_token == option.prefill.seconds_to_first_token


def test_settings_other_than_the_defaults_make_more_gpus_do(recommend):
    question = {"model": "Qwen/Qwen3.5-27B", "gpus": "H100", "no_quantization": True}
    chosen, default = recommend(**question), recommend(**question, settings="defaults")
    assert chosen.options[0].gpu.count < default.options[0].gpu.count
    assert chosen.options[0].chosen
    assert not any(option.chosen for option in default.options)
