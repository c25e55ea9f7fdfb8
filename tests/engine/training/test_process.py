"""Two steps played on the allocator: their tensors are those of the estimate, their blocks what
its rules make of them."""

import pytest
from msgspec.structs import replace

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.allocator import process, process_fsdp
from fitgauge.engine.training.allocator.moves import SEED, moves_of
from fitgauge.engine.training.allocator.process import whole_process
from fitgauge.engine.training.allocator.process_fsdp import sharded_process
from fitgauge.engine.training.allocator.vain import kept_in_vain
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.workload import TrainingWorkload

LLAMA = read_config(Snapshot().get("meta-llama/Llama-3.2-3B").config)
STEP = TrainingWorkload(
    precision="bf16", sequence_length=4096, micro_batch_size=2, attention="flash"
)
HIDDEN = 8192 * LLAMA.hidden_size * 2
"""Bytes of what a layer hands to the next."""
SMALL = 16 * 2**20
"""What tensors of up to 1 MiB come to in a layer."""
ALONE = [
    {},
    {"activation_checkpointing": "full"},
    {"activation_checkpointing": "selective", "loss": "fused"},
    {"precision": "mixed_bf16"},
    {"compile": True},
    {"method": "qlora", "activation_checkpointing": "full"},
    {"micro_batches": 4, "optimizer": "adamw_8bit"},
]
SHARDED = [
    {},
    {"activation_checkpointing": "full", "fsdp_version": 1, "precision": "mixed_bf16"},
    {"activation_checkpointing": "full", "fsdp_version": 1, "method": "qlora", "data_parallel": 2},
    {"zero_stage": 2, "loss": "fused"},
    {"shard_embeddings": True, "precision": "mixed_bf16", "activation_checkpointing": "full"},
]


def highest(spec, workload):
    (stage,) = stages(spec, workload)
    return stage.highest.total


def refuse(*args):
    raise AssertionError


def played(moves, sizes):
    """Return (peak, remainder) [bytes] of the moves, relative to the moment before.
    `sizes`: of what is there, slot by slot."""
    live = most = 0
    for slot, size in moves:
        live += size or -sizes.pop(slot, 0)
        sizes |= {slot: size} if size else {}
        most = max(most, live)
    return most, live


@pytest.mark.parametrize("asked", ALONE)
def test_two_steps_alone_allocate_what_is_estimated(asked):
    workload = replace(STEP, **asked)
    assert whole_process(LLAMA, workload).allocator.most_allocated == pytest.approx(
        highest(LLAMA, workload), rel=0.02
    )


@pytest.mark.parametrize("asked", SHARDED)
def test_two_steps_of_a_rank_of_fsdp_allocate_what_is_estimated(asked):
    workload = replace(STEP, **{"framework": "fsdp", "zero_stage": 3, "data_parallel": 8} | asked)
    assert sharded_process(LLAMA, workload).allocator.most_allocated == pytest.approx(
        highest(LLAMA, workload), rel=0.03
    )


@pytest.mark.parametrize("kind", ["none", "full"])
def test_the_moves_of_a_layer_take_as_much_as_its_passes(kind):
    (layer,) = segments(LLAMA, replace(STEP, activation_checkpointing=kind)).layers
    (moves,) = map(moves_of, layer.plays)
    sizes = {moves.start: HIDDEN}
    most, left = played(moves.forward, sizes)
    assert most == pytest.approx(layer.forward.peak, abs=SMALL)
    assert left == pytest.approx(layer.forward.end, abs=SMALL)
    most, left = played(moves.backward, sizes | {moves.output: HIDDEN, SEED: HIDDEN})
    assert most == pytest.approx(layer.backward.peak, abs=SMALL)
    assert left == pytest.approx(layer.backward.end, abs=SMALL)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"activation_checkpointing": "full"},
        {"framework": "fsdp", "zero_stage": 3, "data_parallel": 8},
    ],
)
def test_a_third_step_takes_no_more(asked, monkeypatch):
    workload = replace(STEP, **asked)
    play = sharded_process if workload.framework == "fsdp" else whole_process
    two = play(LLAMA, workload).allocator.reserved
    monkeypatch.setattr(process, "STEPS", 3)
    monkeypatch.setattr(process_fsdp, "STEPS", 3)
    assert play(LLAMA, workload).allocator.reserved == pytest.approx(two, rel=0.01)


def test_segments_that_grow_leave_less_in_vain():
    step = replace(STEP, activation_checkpointing="full")
    assert 2 * kept_in_vain(LLAMA, replace(step, expandable_segments=True), 10**12) < kept_in_vain(
        LLAMA, step, 10**12
    )


def test_streams_leave_what_they_gather_and_reduce_in_vain():
    """Even where segments grow: the buffers of two layers, and the shards of all gradients."""
    sharded = replace(
        STEP,
        framework="fsdp",
        zero_stage=3,
        data_parallel=8,
        expandable_segments=True,
        activation_checkpointing="full",
    )
    shards = LLAMA.parameters * 2 // 8
    assert kept_in_vain(LLAMA, sharded, 10**12) > 0.8 * shards


def test_a_layer_that_is_left_out_holds_its_input_once():
    """Llama 3.2 without images, under FSDP1's reentrant checkpoints, which hold every layer's
    input to the end of the backward pass."""
    seeing = read_config(Snapshot().get("meta-llama/Llama-3.2-11B-Vision-Instruct").config)
    asked = {
        "framework": "fsdp",
        "fsdp_version": 1,
        "zero_stage": 3,
        "data_parallel": 4,
        "activation_checkpointing": "full",
    }
    assert sharded_process(seeing, replace(STEP, method="lora", **asked)).kept_in_vain > 0


def test_what_is_not_played_is_a_share():
    assert kept_in_vain(LLAMA, replace(STEP, framework="deepspeed"), 10**12) is None
    assert kept_in_vain(LLAMA, replace(STEP, framework="megatron"), 10**12) is None
    assert kept_in_vain(LLAMA, replace(STEP, framework="fsdp", expert_parallel=2), 10**12) is None


def test_the_estimate_adds_what_the_rules_leave_to_its_shares():
    profile = load_training()
    (stage,) = training_stages(LLAMA, replace(STEP, loss="fused"), profile)
    vain = kept_in_vain(LLAMA, replace(STEP, loss="fused"), stage.allocated.expected)
    assert vain > 0.02 * stage.allocated.expected
    share = profile.fragmentation["transformers"].expected
    assert stage.reserved.expected - stage.allocated.expected == pytest.approx(
        vain + share * stage.allocated.expected, abs=2
    )


def test_another_optimizer_has_no_moves_worked_out_again():
    whole_process(LLAMA, STEP)
    known = moves_of.cache_info().misses
    whole_process(LLAMA, replace(STEP, optimizer="lion"))
    assert moves_of.cache_info().misses == known


def test_where_memory_is_short_nothing_is_played(monkeypatch):
    (short,) = training_stages(LLAMA, STEP, load_training(), 10**9)
    (plenty,) = training_stages(LLAMA, STEP, load_training())
    monkeypatch.setattr("fitgauge.engine.training.estimate.kept_in_vain", refuse)
    assert short.required == short.need
    with pytest.raises(AssertionError):
        _ = plenty.required


def test_what_is_kept_in_vain_is_worked_out_when_it_is_asked_for(monkeypatch):
    monkeypatch.setattr("fitgauge.engine.training.estimate.kept_in_vain", refuse)
    (stage,) = training_stages(LLAMA, STEP, load_training())
    assert stage.need.expected > stage.allocated.expected
    with pytest.raises(AssertionError):
        _ = stage.required
