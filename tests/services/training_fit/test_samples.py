"""Samples that are padded or vary in length."""

import pytest

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
