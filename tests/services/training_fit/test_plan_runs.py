"""Time and cost of a whole run under every plan: those that check_training_fit says of it."""

import asyncio

import pytest
from msgspec import UNSET, convert

from fitgauge.services.training_fit.schemas import TrainingRequest
from notes import codes

ASKED = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "gpu_count": 8, "method": "full"}


@pytest.fixture(scope="module")
def planned(plan):
    return lambda **fields: plan(**ASKED | fields)


def test_a_plan_takes_as_long_as_its_settings_do_in_a_check(planned, questions):
    data = {"samples": 100_000, "epochs": 2}
    answer = planned(**data)
    assert len({plan.settings["framework"] for plan in answer.plans}) > 1
    for plan in answer.plans:
        request = convert({**plan.settings, **data}, TrainingRequest)
        checked = asyncio.run(questions.check_training_fit(request))[1]
        assert plan.run == checked.run
    assert f"{answer.plans[0].run.tokens:,} tokens takes" in answer.summary


def test_what_recomputes_takes_longer(planned):
    full, none = [
        planned(token_budget=1e9, framework="fsdp", activation_checkpointing=kept).plans[0].run
        for kept in ("full", "none")
    ]
    assert full.tokens == none.tokens == 1_000_000_000
    assert full.seconds.expected > 1.1 * none.seconds.expected
    assert full.usd.expected > 1.1 * none.usd.expected


def test_prices_and_utilization_that_are_sent_are_taken(planned):
    run = planned(token_budget=1e9, mfu=0.4, price_per_gpu_hour=2).plans[0].run
    assert run.mfu.expected == pytest.approx(0.4)
    assert run.usd.expected == pytest.approx(2 * run.gpu_hours.expected)


def test_every_method_has_the_run(planned):
    answer = planned(method="any", gpu_count=None, max_gpu_count=4, samples=1000, epochs=3)
    assert {plan.settings["method"] for plan in answer.plans} == {"full", "lora", "qlora"}
    assert all(plan.run.tokens == 3 * 1000 * 2048 for plan in answer.plans)
    assert (answer.understood_as["samples"], answer.understood_as["epochs"]) == (1000, 3)


def test_without_data_or_a_peak_there_is_no_run(planned):
    assert all(plan.run is UNSET for plan in planned().plans)
    of_no_peak = planned(gpu="M2 Ultra 192GB", gpu_count=1, samples=1000, method="lora")
    assert all(plan.run is UNSET for plan in of_no_peak.plans)
    assert ("run-not-estimated", "token_budget") in codes(of_no_peak.warnings)


def test_layers_that_the_gpus_do_not_divide_lie_on_stages_with_fewer_at_the_ends(planned):
    plan = planned(
        model="meta-llama/Llama-3.1-405B", gpu_count=128, framework="megatron", sequence_length=8192
    ).plans[0]
    assert plan.verdict == "fits"
    assert plan.settings["pipeline_parallel"] == 16
    assert [stage.layers for stage in plan.stages] == [7, *[8] * 14, 7]
    flags = "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"
    assert flags in plan.launch.command
