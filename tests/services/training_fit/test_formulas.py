"""A reader of detail full computes terms again from their formulas, and the activations from the
list of saved tensors."""

import asyncio
import re

import pytest

from arithmetic import value_of
from fitgauge.services.training_fit.schemas import TrainingRequest

LLAMA = {"model": "meta-llama/Llama-3.1-8B", "gpu": "H100"}


@pytest.fixture(scope="module")
def answer(questions):
    return lambda **asked: asyncio.run(
        questions.check_training_fit(TrainingRequest(**asked, detail="full"))
    )[1]


def term(found, name):
    return next(term for term in found.terms if term.name == name)


@pytest.mark.parametrize(
    "asked",
    [
        LLAMA | {"method": "full"},
        {"model": "Qwen/Qwen3-30B-A3B", "gpu": "8xH100", "method": "full", "framework": "fsdp"},
        LLAMA | {"gpu": "RTX 4090", "method": "qlora", "framework": "unsloth"},
        LLAMA
        | {
            "gpu": "8xH100",
            "method": "full",
            "framework": "megatron",
            "tensor_parallel": 2,
            "micro_batches": 8,
        },
    ],
    ids=str,
)
def test_optimizer_states_are_so_many_bytes_for_every_trained_parameter(answer, asked):
    states = term(answer(**asked), "optimizer_states")
    number, each, ranks = re.fullmatch(
        r"\w+: ([\d,]+) trained parameters x (\S+) B(?: / (\d+) ranks)?", states.formula
    ).groups()
    total = int(number.replace(",", "")) * float(each)
    assert total / int(ranks or 1) == pytest.approx(states.bytes, rel=1e-3)


@pytest.mark.parametrize("name", ["master_weights", "optimizer_states"])
def test_states_of_experts_are_divided_over_the_ranks_that_expert_parallelism_leaves(answer, name):
    asked = {"model": "Qwen/Qwen3-30B-A3B", "gpu": "8xH100", "method": "full"}
    asked |= {"framework": "megatron", "expert_parallel": 4, "zero_stage": 1}
    state = term(answer(**asked), name)
    ranks = re.findall(r"trained parameters x [48] B / (\d+) ranks", state.formula)
    assert ranks == ["8", "2"]
    assert value_of(state.formula.partition(": ")[2]) == pytest.approx(state.bytes, rel=1e-6)


@pytest.mark.parametrize(
    "asked",
    [
        LLAMA | {"method": "lora"},
        {"model": "Qwen/Qwen3-30B-A3B", "gpu": "8xH100", "method": "full", "framework": "fsdp"},
    ],
    ids=str,
)
def test_fragmentation_is_a_share_and_what_the_device_shows_has_more_up_to_its_size(answer, asked):
    result = answer(**asked)
    kept, per_gpu = term(result, "fragmentation"), result.per_gpu
    assert value_of(kept.formula) == pytest.approx(kept.bytes, rel=1e-3)
    assert (
        per_gpu.required_bytes.expected
        < per_gpu.shown_bytes.expected
        <= max(per_gpu.usable_bytes, per_gpu.required_bytes.expected)
    )


@pytest.mark.parametrize(
    "asked",
    [
        LLAMA | {"method": "lora", "activation_checkpointing": "none"},
        {
            "model": "google-bert/bert-base-uncased",
            "gpu": "T4",
            "method": "full",
            "sequence_length": 512,
            "micro_batch_size": 8,
            "activation_checkpointing": "none",
        },
        {
            "model": "Qwen/Qwen2.5-VL-7B-Instruct",
            "gpu": "H100",
            "method": "lora",
            "activation_checkpointing": "none",
        },
        {
            "model": "Qwen/Qwen3-8B",
            "gpu": "4xA100",
            "framework": "deepspeed",
            "method": "full",
            "activation_checkpointing": "none",
            "zero_stage": 3,
            "offload": "cpu",
        },
        {
            "model": "mistralai/Mixtral-8x7B-v0.1",
            "gpu": "8xH100",
            "framework": "megatron",
            "expert_parallel": 8,
        },
    ],
    ids=str,
)
def test_saved_tensors_of_all_layers_are_what_is_there_between_the_passes(answer, asked):
    found = answer(**asked)
    (between,) = re.findall(
        r"([\d,]+) B of each between its passes", term(found, "activations").formula
    )
    assert sum(part.bytes * max(1, len(part.layers)) for part in found.saved) == pytest.approx(
        int(between.replace(",", "")), rel=0.01
    )
