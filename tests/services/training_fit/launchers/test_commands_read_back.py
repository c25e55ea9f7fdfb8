"""A printed command is the training that was judged: read back as explain-log reads one, it gets
the same bytes, unless the answer names a setting that the command lacks. Its interval may be
narrower: of what is said, no release has another default."""

import asyncio
import random

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.services.explain_log.training_command import training_request
from fitgauge.services.training_fit.launchers.registry import TOOLS

NAMED = {"command-lacks-flag", "command-of-another-tool"}
MODELS = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-30B-A3B")
SAMPLING = ("verl", "openrlhf")
SEVERAL = 6
"""Questions to a tool, of which more than half are answered by a command of its own."""


def questions(trainer: str) -> list[dict[str, object]]:
    """Return a seeded sample of questions to a tool."""
    draw = random.Random(f"commands of {trainer}")
    return [
        {
            "model": draw.choice(MODELS),
            "gpu": "H200",
            "gpu_count": draw.choice([1, 2, 8]),
            "trainer": trainer,
            "method": draw.choice(["full", "lora", "qlora"]),
            "sequence_length": draw.choice([1024, 4096]),
            "micro_batch_size": draw.choice([1, 2, 4]),
            "micro_batches": draw.choice([None, 4]),
            "lora_targets": draw.choice([None, "attention"]),
            "activation_checkpointing": draw.choice([None, "full", "none"]),
            "optimizer": draw.choice([None, "adamw", "adamw_8bit", "sgd"]),
            "precision": draw.choice([None, "bf16", "mixed_bf16"]),
            "attention": draw.choice([None, None, "sdpa", "flash"]),
            "offload": draw.choice([None, None, "cpu"]),
            "algorithm": "grpo" if trainer in SAMPLING else None,
        }
        for _ in range(SEVERAL * 3)
    ]


@pytest.mark.parametrize("trainer", [tool.name for tool in TOOLS if tool.command])
def test_a_command_that_lacks_nothing_reads_back_to_the_same_bytes(questions_answered, trainer):
    train, read = questions_answered
    held = 0
    for asked in questions(trainer):
        try:
            answer = train(**asked)
        except InvalidRequestError:
            continue
        if answer.launch is None or NAMED & {one.code for one in answer.warnings}:
            continue
        command = answer.launch.command
        again = read(training_request(command, asked["model"], "H200", asked["gpu_count"]))
        bytes_read, bytes_asked = again.per_gpu.required_bytes, answer.per_gpu.required_bytes
        assert bytes_read.expected == bytes_asked.expected, (asked, command)
        held += 1
    assert held >= SEVERAL or trainer in OF_FEW


OF_FEW = ("torchtitan", "litgpt", "verl")
"""Tools that refuse most settings of the sample."""


@pytest.fixture(scope="module")
def questions_answered(train, questions):
    """Provide the answers to fields and to a request."""
    return train, lambda request: asyncio.run(questions.check_training_fit(request))[1]
