"""What Unsloth's attention with sinks keeps of long sequences, and how AdamW of a command steps."""

import pytest

ASKED = {"model": "openai/gpt-oss-20b", "gpu": "H200"}
HEADS, LAYERS = 64, 24


def blocks(answer):
    """Bytes of masks of blocks, of every layer that keeps one."""
    return [
        tensor.bytes
        for part in answer.saved
        for tensor in part.tensors
        if tensor.name == "attention.blocks"
    ]


def test_every_layer_keeps_a_mask_of_blocks_for_every_head(train):
    asked = {"method": "qlora", "trainer": "unsloth", "detail": "full"}
    for length, rows in ((2048, 16), (4096, 32), (81_920, 640), (1000, 8)):
        each = 4 * HEADS * rows * rows * 4  # four of int32
        sizes = blocks(train(**asked, sequence_length=length))
        assert set(sizes) == {each}
    two = blocks(train(**asked, sequence_length=2048, micro_batch_size=2))
    assert set(two) == {2 * 4 * HEADS * 16 * 16 * 4}


def test_other_attention_keeps_none(train):
    asked = {"method": "qlora", "trainer": "unsloth", "detail": "full", "sequence_length": 2048}
    assert not blocks(train(**asked, attention="eager"))
    assert not blocks(train(**asked, model="Qwen/Qwen3-8B", attention="flex"))


@pytest.mark.parametrize(("sent", "flag"), [(None, "adamw_torch"), ("fused", "adamw_torch_fused")])
def test_without_a_tool_the_command_steps_as_was_judged(train, sent, flag):
    answer = train(model="Qwen/Qwen3-0.6B", method="full", optimizer_implementation=sent)
    words = answer.launch.command.split()
    assert words[words.index("--optim") + 1] == flag
    temporaries = {term.name for term in answer.terms} & {"optimizer_temporaries"}
    assert bool(temporaries) == (sent is None)
