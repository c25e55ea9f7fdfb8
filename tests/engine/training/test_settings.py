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
    AdamW in bf16; its attention repeats keys and values)."""
    plain, compiled = (phases(repeats_keys=True, compile=each) for each in (False, True))
    assert max(plain.values()) / 2**30 == pytest.approx(60.0, rel=0.01)
    assert max(compiled.values()) / 2**30 == pytest.approx(51.0, rel=0.01)


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
        max(head.forward.peak, head.forward.end - head.logits + head.backward.peak) / LOGITS
        for head in heads
    )
    assert own == pytest.approx(12, rel=0.05)
    assert in_place == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize(
    ("version", "forward", "between"),
    # bytes of a logit: 16-bit logits, fp32 ones, a shifted copy, log-softmax; what is saved
    [("4.45.2", 12, 4), ("4.46.0", 14, 4), ("4.48.1", 14, 4), ("4.49", 10, 4), (None, 10, 4)],
)
def test_the_loss_of_older_releases_holds_more_copies_of_the_logits(version, forward, between):
    head = segments(LLAMA, replace(STEP, transformers_version=version)).head
    assert head.forward.peak / LOGITS == pytest.approx(forward, rel=0.05)
    assert (head.forward.end - head.logits) / LOGITS == pytest.approx(between, rel=0.05)


def test_a_family_with_a_loss_of_its_own_widened_no_logits_before_all_shared_one():
    neox = read_config(Snapshot().get("EleutherAI/pythia-1b").config)
    logits = TOKENS * neox.vocabulary_size
    before, now = (
        segments(neox, replace(STEP, transformers_version=version)).head.forward.peak / logits
        for version in ("4.48", "4.49")
    )
    assert (before, now) == (pytest.approx(6, rel=0.1), pytest.approx(10, rel=0.1))


def test_an_open_release_is_in_the_interval_and_a_named_one_is_not():
    step = replace(STEP, activation_checkpointing="full", sequence_length=16384)

    def activations(version):
        (stage,) = stages(LLAMA, replace(step, transformers_version=version))
        parts = stage.highest.parts
        return next(part.size for part in parts if part.name == "activations"), stage.highest.total

    (unnamed, total), (named, now), (_, before) = map(activations, (None, "4.49", "4.48"))
    assert total == now < before
    assert unnamed.high - unnamed.expected == before - now
    assert named.low == named.expected == named.high


def test_a_compiled_loss_is_torchtitans_of_today_with_an_uncompiled_one_in_the_interval():
    step = replace(STEP, framework="fsdp", data_parallel=8, compile=True)

    def head(compile_loss):
        return segments(LLAMA, replace(step, compile_loss=compile_loss)).head.forward

    assert head(None) == head(True)
    assert head(False).peak - head(True).peak > 7 * LOGITS
    size = next(
        part.size for part in stages(LLAMA, step)[0].highest.parts if part.name == "activations"
    )
    assert size.high > size.expected == size.low


def test_an_experts_parameter_is_dequantized_whole_for_each_pass():
    mixture = read_config(Snapshot().get("Qwen/Qwen3-30B-A3B").config)
    quantized = {"method": "qlora", "quantize_experts": True, "lora_targets": "attention"}
    step = replace(STEP, precision="mixed_bf16", base_precision="half", **quantized)
    apart, fused = (
        segments(mixture, replace(step, fused_experts=fused)).layers[1].forward.end
        for fused in (False, True)
    )
    assert fused - apart == 3 * 128 * 768 * mixture.hidden_size * WIDTH


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
