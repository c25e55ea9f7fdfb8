"""Plans on counts of GPUs between powers of two."""

import asyncio

import pytest

from fitgauge.services.training_plan.schemas import TrainingPlanRequest


@pytest.fixture(scope="module")
def planned(questions):
    return lambda **fields: asyncio.run(questions.plan_training(TrainingPlanRequest(**fields)))[1]


def counts(answer):
    return {plan.gpu_count for plan in answer.plans}


def test_counts_below_the_fewest_that_holds_or_surely_fits_are_tried(planned):
    asked = {"model": "meta-llama/Llama-3.1-8B", "gpu": "A100 40GB", "limit": 100}
    answer = planned(**asked)
    fits = {plan.gpu_count for plan in answer.plans if plan.verdict == "fits"}
    between = {count for count in counts(answer) if count & (count - 1)}
    assert between
    assert min(fits) in between
    assert min(fits) < min(count for count in fits if not count & (count - 1))


def test_a_batch_that_is_left_out_divides_over_as_many(planned):
    answer = planned(model="meta-llama/Llama-3.1-8B", gpu="A100 40GB", limit=100)
    for plan in answer.plans:
        settings = plan.settings
        batch = settings["micro_batch_size"] * settings["micro_batches"] * settings["data_parallel"]
        assert answer.global_batch_size <= batch < answer.global_batch_size + plan.gpu_count


def test_a_batch_that_is_sent_is_kept(planned):
    answer = planned(
        model="meta-llama/Llama-3.1-8B", gpu="A100 40GB", limit=100, global_batch_size=96
    )
    assert 6 in counts(answer)
    assert 5 not in counts(answer)


def test_one_count_that_is_sent_is_the_only_one(planned):
    answer = planned(model="meta-llama/Llama-3.1-8B", gpu="A100 40GB", gpu_count=8)
    assert counts(answer) == {8}
