"""A training answer assumes what the request leaves out, with the values it was made for."""

import pytest

from fitgauge.engine.quantity import gib
from notes import values

ASKED = {"model": "Qwen/Qwen3-0.6B", "gpu": "RTX 4090"}
ALWAYS = {
    "method",
    "precision",
    "optimizer",
    "loss",
    "attention",
    "activation_checkpointing",
    "micro_batch_size",
    "sequence_length",
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"method": "qlora"},
        {"gpu": "T4"},
        {"framework": "unsloth"},
        {"framework": "torchtitan", "gpu_count": 2},
        {"model": "Qwen/Qwen2.5-VL-3B-Instruct", "method": "lora"},
    ],
    ids=str,
)
def test_assumed_values_sent_with_the_request_give_the_same_estimate(train, fields):
    asked = ASKED | fields
    answer = train(**asked)
    assumed = values(answer.assumed)
    assert ALWAYS - fields.keys() <= assumed.keys()
    assert not asked.keys() & assumed.keys()
    again = train(**asked, **assumed)
    assert again.terms == answer.terms
    assert not assumed.keys() & values(again.assumed).keys()


@pytest.mark.parametrize("trainer", ["trl", "unsloth", "axolotl"])
def test_what_checkpointing_off_needs_is_what_is_needed_when_it_is_asked_for(train, trainer):
    """Unsloth offloads what it checkpoints, and nothing where it does not."""
    asked = {"trainer": trainer, "method": "qlora", "sequence_length": 4096}
    said = next(
        one.message for one in train(**asked).assumed if one.field == "activation_checkpointing"
    )
    needed = train(**asked, activation_checkpointing="none").per_gpu.required_bytes.expected
    assert f"(off: {gib(needed)})" in said


def test_assumed_values_are_those_of_understood_as(train):
    answer = train()
    assert values(answer.assumed).items() <= answer.understood_as.items()


def test_a_prompt_and_a_completion_make_a_sequence_length(train):
    answer = train(algorithm="grpo", prompt_length=256, completion_length=256)
    assert "sequence_length" not in values(answer.assumed)
