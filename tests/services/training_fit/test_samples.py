"""Samples that are padded or vary in length."""

import pytest

from fitgauge.errors import InvalidRequestError

ASKED = {
    "model": "meta-llama/Llama-3.1-8B", "gpu": "H200", "method": "lora", "framework":
    "transformers", "loss": "fused", "activation_checkpointing": "none", "sequence_length": 2048,
}  # fmt: skip


def of(answer, name):
    return next(term.bytes for term in answer.terms if term.name == name)


def test_sdpa_holds_a_mask_and_repeated_keys_of_every_layer_where_sequences_are_padded(train):
    plain, padded = (train(micro_batch_size=4, padded=value) for value in (False, True))
    tokens, layers, width = 4 * 2048, 32, 2
    repeated = layers * tokens * (32 - 8) * 128 * 2 * width
    masks = layers * tokens * 2048 * width
    more = of(padded, "activations") - of(plain, "activations")
    assert repeated + masks <= more <= 1.02 * (repeated + masks)


def test_flash_attention_reads_copies_of_padded_sequences(train):
    full = {"method": "full", "gpu": "B300", "precision": "bf16", "optimizer": "sgd"}
    plain, padded = (
        train(**full, micro_batch_size=4, attention="flash", padded=value)
        for value in (False, True)
    )
    output = 32 * 4 * 2048 * 4096 * 2
    more = of(padded, "activations") - of(plain, "activations")
    assert output <= more <= 1.05 * output


def test_samples_that_vary_reserve_more_and_allocate_the_same(train):
    plain, varied = train(), train(mean_sequence_length=900)
    assert varied.per_gpu.allocated_bytes == plain.per_gpu.allocated_bytes
    ratio = varied.per_gpu.reserved_bytes.expected / plain.per_gpu.reserved_bytes.expected
    assert 1.15 < ratio < 1.45
    assert varied.per_gpu.reserved_bytes.high > 1.5 * plain.per_gpu.reserved_bytes.high


@pytest.mark.parametrize(("mean", "grows"), [(2048, False), (900, True)])
def test_equal_lengths_and_growing_segments_reserve_no_more(train, mean, grows):
    plain, varied = (
        train(expandable_segments=grows, mean_sequence_length=value) for value in (None, mean)
    )
    assert varied.per_gpu.reserved_bytes == plain.per_gpu.reserved_bytes


@pytest.mark.parametrize(
    ("sent", "padded"),
    [
        ({}, False),
        ({"mean_sequence_length": 900}, False),
        ({"mean_sequence_length": 900, "micro_batch_size": 4}, True),
        ({"mean_sequence_length": 900, "micro_batch_size": 4, "padded": False}, False),
        ({"padded": True}, True),
    ],
)
def test_samples_that_vary_are_padded_where_several_make_a_batch(train, sent, padded):
    assert train(**sent).understood_as["padded"] is padded


@pytest.mark.parametrize("attention", ["sdpa", "flash"])
def test_packed_samples_of_a_micro_batch_are_one_row(train, attention):
    """sdpa reads a mask of the whole row, flash the ends of its samples."""
    asked = {"attention": attention, "activation_checkpointing": "full"}
    packed = train(micro_batch_size=4, packed=True, **asked)
    row = train(sequence_length=4 * 2048, padded=attention == "sdpa", **asked)
    assert of(packed, "activations") == of(row, "activations")
    plain = of(train(micro_batch_size=4, **asked), "activations")
    grown = of(packed, "activations") - plain
    mask = (4 * 2048) ** 2
    assert grown > 3 * mask if attention == "sdpa" else grown < mask / 8
    assert packed.understood_as["packed"] is True


@pytest.mark.parametrize(
    "fields",
    [{"algorithm": "dpo"}, {"padded": True}, {"model": "Qwen/Qwen2.5-VL-7B-Instruct"}],
    ids=str,
)
def test_only_text_of_supervised_training_is_packed(train, fields):
    with pytest.raises(InvalidRequestError) as error:
        train(packed=True, **fields)
    assert error.value.field == "packed"


@pytest.mark.parametrize(
    ("trainer", "says_so"), [("trl", False), ("unsloth", True), ("ms-swift", True)]
)
def test_a_command_that_does_not_pack_says_so(train, trainer, says_so):
    answer = train(packed=True, trainer=trainer, framework=None, loss=None, attention="sdpa")
    assert ("packed" in {one.field for one in answer.warnings}) == says_so
    assert says_so or "--packing true" in answer.launch.command
