"""Settings that change what a step keeps: compiled layers, the ways of a loss, early steps,
offload, paged states."""

import pytest
from msgspec.structs import replace

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.profile import logits_bytes
from fitgauge.engine.training.workload import TrainingWorkload

LLAMA = read_config(Snapshot().get("meta-llama/Llama-3.2-3B").config)
STEP = TrainingWorkload(
    precision="bf16",
    sequence_length=4096,
    micro_batch_size=2,
    attention="flash",
    optimizer_implementation="fused",
)
TOKENS, WIDTH = 8192, 2
LOGITS = TOKENS * LLAMA.vocabulary_size


def phases(**asked):
    (stage,) = stages(LLAMA, replace(STEP, **asked))
    return {phase.name: phase.total for phase in stage.phases}


def layer(**asked):
    return segments(LLAMA, replace(STEP, **asked)).layers[0]


def test_a_compiled_layer_keeps_what_products_read_and_give_and_nothing_between():
    """Of a Llama layer: the inputs of qkv, o, gate and up, down; queries, keys, values as
    attention reads them, its output and sums; the results of o, gate and up; its own output."""
    hidden, inner, heads, kv = LLAMA.hidden_size, 8192, 24, 8
    read = 2 * hidden + heads * 128 + inner + (heads + 2 * kv) * 128
    given = hidden + 2 * inner
    kept = TOKENS * (WIDTH * (read + given + hidden) + 4 * heads)
    assert layer(compile=True).forward.end == pytest.approx(kept, rel=0.001)
    assert layer(compile=True).forward.end < 0.8 * layer().forward.end


def test_products_of_all_experts_rerun_under_selective_checkpointing_and_not_in_a_compiled_layer():
    """Of the tokens that an expert was chosen for, as often: the inputs and results of gate and
    up, and of down."""
    mixture = read_config(Snapshot().get("Qwen/Qwen3-30B-A3B").config)
    chosen, inner, hidden = 8, 768, mixture.hidden_size
    grouped = TOKENS * WIDTH * chosen * (2 * hidden + 3 * inner)
    ends = [
        segments(mixture, replace(STEP, **asked)).layers[0].forward.end
        for asked in ({"compile": True}, {"activation_checkpointing": "selective"})
    ]
    assert ends[0] > grouped > ends[1]


def test_a_compiled_step_is_the_one_torchtune_measured():
    """60.0 GiB, compiled 51.0 (pytorch/torchtune README.md, "Optimization flags": packed 2 x 4096,
    AdamW in bf16)."""
    assert max(phases().values()) / 2**30 == pytest.approx(60.0, rel=0.01)
    assert max(phases(compile=True).values()) / 2**30 == pytest.approx(51.0, rel=0.01)


def test_a_chunked_loss_keeps_the_logits_and_makes_one_eighth_of_their_gradient():
    full, chunked = (
        segments(LLAMA, replace(STEP, loss=loss)).head.forward for loss in ("full", "chunked")
    )
    assert chunked.end == pytest.approx(LOGITS * WIDTH, rel=0.1)
    assert chunked.peak - chunked.end == pytest.approx(2 * 4 * LOGITS / 8, rel=0.05)
    assert full.peak > chunked.peak


def test_a_loss_in_place_takes_eight_bytes_a_logit_where_the_frameworks_own_takes_twelve():
    heads = [segments(LLAMA, replace(STEP, loss=loss)).head for loss in ("full", "in_place")]
    own, in_place = (
        max(head.forward.peak, head.forward.end + head.backward.peak) / LOGITS for head in heads
    )
    assert own == pytest.approx(12 + 2, rel=0.05)
    assert in_place == pytest.approx(8, rel=0.05)


def test_steps_in_the_backward_pass_leave_no_gradients_but_the_layers_own():
    asked = {"activation_checkpointing": "full", "loss": "fused", "sequence_length": 512}
    usual, early = phases(**asked), phases(**asked, optimizer_in_backward=True)
    assert usual["backward"] - early["backward"] > 0.5 * WIDTH * LLAMA.parameters
    assert usual["optimizer_step"] - early["optimizer_step"] > 0.8 * WIDTH * LLAMA.parameters


def test_offloaded_checkpoints_keep_no_layers_input_on_the_device():
    kept = layer(activation_checkpointing="full").forward.end
    assert kept == TOKENS * LLAMA.hidden_size * WIDTH
    away = layer(activation_checkpointing="full", activation_offload=True)
    assert away.forward.end == 0
    assert (
        away.forward.end + away.backward.end
        == layer(activation_checkpointing="full").backward.end + kept
    )


def test_paged_states_are_on_the_host_for_pytorch():
    (paged,), (resident,) = (
        stages(LLAMA, replace(STEP, optimizer="paged_adamw")),
        stages(LLAMA, STEP),
    )
    states = {part.name: part.size.expected for part in resident.highest.parts}["optimizer_states"]
    assert paged.host - resident.host == 2 * states  # in fp32, whatever the weights are
    assert "optimizer_states" not in {part.name for part in paged.highest.parts}


def test_torchtitan_saves_every_second_product():
    every, second = (
        layer(activation_checkpointing="selective", framework=name).forward.end
        for name in ("transformers", "fsdp")
    )
    assert 0.5 * every < second < 0.75 * every


def test_the_allocator_keeps_more_where_logits_are_whole():
    profile = load_training()
    (whole,), (fused,) = (
        training_stages(LLAMA, replace(STEP, loss=loss), profile) for loss in ("full", "fused")
    )
    more = profile.fragmentation_logits.expected * 4 * LOGITS
    assert more > 0
    assert whole.fragmentation.bytes - fused.fragmentation.bytes > more


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        ({"loss": "chunked"}, 0),
        ({"expandable_segments": True}, 0),
        ({"tensor_parallel": 2}, 0.5),
        ({"pipeline_parallel": 2}, 0),
    ],
)
def test_blocks_of_whole_logits_stay_on_the_last_stage_sharded_and_not_where_segments_expand(
    asked, share
):
    assert logits_bytes(LLAMA, replace(STEP, **asked), 0) == share * 4 * LOGITS


@pytest.mark.parametrize(
    "asked",
    [{}, {"expandable_segments": True}, {"framework": "fsdp", "data_parallel": 8, "zero_stage": 3}],
)
def test_the_device_shows_no_less_than_a_step_needs(asked):
    (stage,) = training_stages(LLAMA, replace(STEP, **asked), load_training())
    assert stage.shown.expected >= stage.need.expected
