"""FSDP2 inside PyTorch's pipelines: nothing is freed or reduced between micro-batches."""

import pytest
from msgspec.structs import replace

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.parallel.fsdp_moments import Group, Segment
from fitgauge.engine.training.parallel.fsdp_pipeline import Step, Unit, moments, received_bytes
from fitgauge.engine.training.parallel.pipeline import even_split
from fitgauge.engine.training.parallel.validate import check
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError

LLAMA = read_config(Snapshot().get("meta-llama/Meta-Llama-3-8B").config)
TITAN = TrainingWorkload(
    framework="fsdp",
    zero_stage=2,
    gradient_dtype="fp32",
    sequence_length=1024,
    pipeline_parallel=4,
    data_parallel=4,
    micro_batches=8,
)
UNIT = Unit(
    group=Group(gathered=10, gradients=10, reduced=20, shard=5),
    segment=Segment(forward=Pass(peak=9, end=7), backward=Pass(peak=3, end=3), gradients=10),
    summed=20,
)


def highest(step, phase="backward"):
    return max(
        (moment for moment in moments(step) if moment.phase == phase),
        key=lambda moment: moment.total,
    )


def test_parameters_and_sums_of_all_units_are_there_while_a_later_micro_batch_runs_back():
    top = highest(Step(units=[UNIT] * 3, reshard=False, turns=True, adds=True))
    assert (top.gathered, top.shards) == (30, 60)
    assert top.activations == 3 * 7 + 3


def test_the_sums_of_the_first_micro_batch_grow_unit_by_unit():
    backward = [
        moment.shards
        for moment in moments(Step(units=[UNIT] * 3, reshard=False))
        if moment.phase == "backward"
    ]
    assert backward[:6] == [0, 20, 20, 40, 40, 60]


def test_sums_are_reduced_unit_by_unit_into_shards():
    *_, last = moments(Step(units=[UNIT] * 3, reshard=False))
    assert (last.gathered, last.buffers, last.shards) == (0, 20, 15)


def test_offloaded_shards_do_not_pile_up():
    *_, last = moments(Step(units=[UNIT] * 3, reshard=False, offload=True))
    assert last.shards == 5


def test_resharding_after_the_forward_pass_leaves_the_next_backward_pass_to_gather_all_again():
    step = Step(units=[UNIT] * 3, reshard=True)
    assert max(moment.gathered for moment in moments(step) if moment.phase == "forward") == 10
    assert max(moment.gathered for moment in moments(step) if moment.phase == "backward") == 30


def test_a_step_of_one_micro_batch_sums_whole_gradients_too():
    one, many = (
        stages(LLAMA, replace(TITAN, pipeline_schedule="gpipe", micro_batches=count))
        for count in (1, 8)
    )
    found = [
        {part.name: part.size.expected for part in stage[1].highest.parts}["gradients"]
        for stage in (one, many)
    ]
    trained = one[1].parameters
    assert found[1] == 4 * trained
    assert 0.8 * found[1] < found[0] <= found[1]


def test_inputs_and_gradients_of_every_micro_batch_have_buffers_but_at_the_ends():
    stream = 1024 * 4096 * 2
    assert [received_bytes(LLAMA, TITAN, stage) // stream for stage in range(4)] == [8, 16, 16, 8]
    interleaved = replace(TITAN, pipeline_schedule="interleaved")
    assert [received_bytes(LLAMA, interleaved, stage) // stream for stage in range(4)] == [
        24,
        32,
        32,
        24,
    ]
    cut = replace(TITAN, tensor_parallel=2, sequence_parallel=True)
    assert received_bytes(LLAMA, cut, 1) == 8 * stream


@pytest.mark.parametrize(
    ("layers", "stages", "chunks", "sizes"),
    [
        (126, 8, 1, (15, *[16] * 6, 15)),
        (32, 4, 1, (8, 9, 8, 7)),
        (126, 8, 2, (15, *[16] * 6, 15)),
        (30, 2, 2, (15, 15)),
    ],
)
def test_embedding_and_head_count_as_a_layer_each(layers, stages, chunks, sizes):
    assert even_split(layers, stages, chunks) == sizes


@pytest.mark.parametrize(("layers", "stages", "chunks"), [(6, 8, 1), (16, 8, 3)])
def test_layers_that_no_flag_spreads_are_refused(layers, stages, chunks):
    with pytest.raises(ValueError, match="no such stages"):
        even_split(layers, stages, chunks)


def test_a_tied_model_has_no_pipeline_under_torchtitan():
    tied = read_config(Snapshot().get("Qwen/Qwen3-0.6B").config)
    with pytest.raises(UnsupportedError, match="embedding is its head"):
        check(tied, TITAN)


def test_earlier_stages_hold_more_micro_batches():
    flight = [stage.in_flight for stage in stages(LLAMA, TITAN)]
    assert flight == [4, 3, 2, 1]
