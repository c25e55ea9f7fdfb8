"""What the stages of a pipeline hold."""

from fractions import Fraction

import pytest
from msgspec.structs import replace

from fitgauge.engine.training.parallel.pipeline import (
    bubble_share,
    held,
    imbalance,
    split,
    splits,
    stage_counts,
    stage_layers,
)
from fitgauge.engine.training.workload import TrainingWorkload


def activations(schedule, stages, micro_batches, chunks=2):
    return [
        held(schedule, stage, stages, micro_batches, chunks).activations for stage in range(stages)
    ]


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
    assert activations("interleaved", stages, 1024, chunks)[0] == stages * (
        1 + Fraction(stages - 1, stages * chunks)
    )


def test_zero_bubble_keeps_weight_inputs_where_1f1b_is_empty():
    stages = [held("zero_bubble", stage, 4, 64) for stage in range(4)]
    assert [stage.activations for stage in stages] == [4, 3, 2, 1]
    assert [stage.weight_inputs for stage in stages] == [0, 1, 2, 3]


def test_the_bubble_shrinks_with_micro_batches_and_with_chunks():
    assert bubble_share("1f1b", 4, 12) == 0.25
    assert bubble_share("interleaved", 4, 12) == 0.125
    assert bubble_share("zero_bubble", 4, 12) == pytest.approx(0.25 / 3)


@pytest.mark.parametrize(("layers", "stages", "sizes"), [
    (61, 8, (7, *[8] * 6, 6)), (61, 2, (31, 30)), (61, 16, (3, *[4] * 14, 2)), (27, 2, (14, 13)),
    (36, 5, (6, 8, 8, 8, 6)),
    (32, 4, (8,) * 4),
])  # fmt: skip
def test_layers_that_do_not_divide_leave_the_first_and_the_last_stage_fewer(layers, stages, sizes):
    """27 on 2 is what ms-swift's own example of Moonlight asks for: 13 in the last
    (examples/megatron/moe/deepseek_v3.sh)."""
    workload = TrainingWorkload(
        framework="megatron", sequence_length=2048, pipeline_parallel=stages
    )
    found = stage_layers(layers, workload)
    assert tuple(len(each) for each in found) == sizes
    assert [number for each in found for number in each] == list(range(layers))


def test_layers_asked_for_the_last_stage_leave_the_others_alike():
    assert split(7, 3, 1) == (3, 3, 1)
    assert split(61, 16, 1) == (*[4] * 15, 1)


def test_no_split_is_made_that_leaves_a_stage_without_layers():
    assert [count for count in range(2, 33) if not splits(61, count)] == [
        12,
        14,
        15,
        *range(17, 21),
        *range(22, 31),
        32,
    ]


def test_layers_that_powers_of_two_do_not_divide_are_tried_on_them_all_the_same():
    assert stage_counts(61, 64) == (1, 2, 4, 8, 16, 61)
    assert stage_counts(36, 8) == (1, 2, 3, 4, 6, 8)
    assert stage_counts(126, 16) == (1, 2, 3, 4, 6, 7, 8, 9, 14, 16)
    assert stage_counts(80, 64) == (1, 2, 4, 5, 8, 10, 16, 20, 40)


def test_stages_wait_for_the_longest():
    of_megatron = TrainingWorkload(framework="megatron", pipeline_parallel=16, sequence_length=4096)
    assert imbalance(126, of_megatron) == 8 * 16 / 126
    assert imbalance(128, of_megatron) == 1
    assert imbalance(126, replace(of_megatron, pipeline_parallel=1)) == 1


def test_layouts_on_as_many_stages_share_their_layers():
    """A plan over 64 GPUs asks 400 times."""
    one, other = (
        TrainingWorkload(
            framework="megatron", sequence_length=length, pipeline_parallel=4, tensor_parallel=width
        )
        for length, width in ((2048, 1), (4096, 8))
    )
    assert stage_layers(61, one) is stage_layers(61, other)
