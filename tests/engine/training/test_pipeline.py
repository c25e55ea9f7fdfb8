"""What the stages of a pipeline hold."""

from fractions import Fraction

import pytest

from fitgauge.engine.training.pipeline import bubble_share, held


def activations(schedule, stages, micro_batches, chunks=2):
    return [held(schedule, stage, stages, micro_batches, chunks).activations for stage in range(stages)]


def test_gpipe_holds_every_micro_batch_on_every_stage():
    assert activations("gpipe", 4, 16) == [16] * 4


def test_1f1b_holds_one_less_on_every_later_stage():
    assert activations("1f1b", 4, 1024) == [4, 3, 2, 1]


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zero_bubble"])
def test_no_stage_holds_more_than_there_are_micro_batches(schedule):
    assert all(held(schedule, stage, 8, 3).most <= 3 for stage in range(8))


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zero_bubble"])
def test_one_stage_holds_one_micro_batch_whatever_the_schedule(schedule):
    assert held(schedule, 0, 1, 64).most == 1


@pytest.mark.parametrize(("stages", "chunks"), [(4, 2), (8, 3), (16, 4)])
def test_interleaving_costs_the_first_stage_what_the_paper_says(stages, chunks):
    assert activations("interleaved", stages, 1024, chunks)[0] == stages * (1 + Fraction(stages - 1, stages * chunks))


def test_zero_bubble_keeps_weight_inputs_where_1f1b_is_empty():
    stages = [held("zero_bubble", stage, 4, 64) for stage in range(4)]
    assert [stage.activations for stage in stages] == [4, 3, 2, 1]
    assert [stage.weight_inputs for stage in stages] == [0, 1, 2, 3]


def test_the_bubble_shrinks_with_micro_batches_and_with_chunks():
    assert bubble_share("1f1b", 4, 12) == 0.25
    assert bubble_share("interleaved", 4, 12) == 0.125
    assert bubble_share("zero_bubble", 4, 12) == pytest.approx(0.25 / 3)
