"""Where adapters sit: beside linears everywhere, beside every expert's under Megatron alone."""

import pytest

from fitgauge.catalog.sizes import nominal_model
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.states.sharding import tensor_slice
from fitgauge.engine.training.workload import TrainingWorkload

LAYERS, EXPERTS, HIDDEN, INNER, RANK = 48, 128, 2048, 768, 32
"""Of Qwen3-30B-A3B, and of the adapters."""


def mixture(name="Qwen/Qwen3-30B-A3B"):
    row = Snapshot().get(name)
    return read_config(row.config, row.quantization)


def work(**settings):
    return TrainingWorkload(
        **{
            "sequence_length": 2048,
            "method": "lora",
            "lora_rank": RANK,
            "framework": "megatron",
            **settings,
        }
    )


def trained(workload, spec):
    """Return the numbers of the adapters beside experts that one rank has."""
    return sum(
        tensor_slice(parameter, unit.part, workload).elements * len(unit.layers)
        for unit in units(spec, workload)
        for parameter in unit.parameters
        if parameter.adapter and parameter.kind is Kind.EXPERT
    )


def test_under_megatron_every_expert_has_a_pair_beside_gate_and_up_and_one_beside_down():
    pairs = RANK * (HIDDEN + 2 * INNER) + RANK * (INNER + HIDDEN)
    assert (
        trained(work(data_parallel=4, expert_parallel=4), mixture())
        == LAYERS * EXPERTS // 4 * pairs
    )


def test_of_experts_that_ranks_share_the_half_at_the_divided_side_divides():
    pairs = RANK * (HIDDEN + 2 * INNER // 2) + RANK * (INNER // 2 + HIDDEN)
    shared = work(tensor_parallel=2, data_parallel=4, expert_parallel=4, expert_tensor_parallel=2)
    assert trained(shared, mixture()) == LAYERS * EXPERTS // 4 * pairs


@pytest.mark.parametrize(
    "settings",
    [{"framework": "transformers"}, {"framework": "fsdp"}, {"lora_targets": "attention"}],
)
def test_no_expert_has_an_adapter_elsewhere(settings):
    assert trained(work(**settings), mixture()) == 0


def test_tokens_sorted_by_expert_are_saved_for_its_adapters():
    def saved(framework):
        layer = segments(mixture(), work(framework=framework, precision="mixed_bf16")).layers[-1]
        return {tensor.name: tensor.elements for tensor in layer.saved}

    assert saved("megatron")["experts.tokens"] == 8 * 2048 * HIDDEN
    assert "experts.tokens" not in saved("deepspeed")


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_a_quantized_model_of_a_size_saves_no_copy_of_its_matrices(checkpointing):
    spec = nominal_model("7b", 7 * 10**9).spec
    asked = {
        "framework": "transformers",
        "method": "qlora",
        "activation_checkpointing": checkpointing,
    }
    kinds = segments(spec, work(**asked)).layers
    matrices = {f"{name}_proj.cast" for name in ("q", "k", "v", "o", "gate", "up", "down")}
    saved = [tensor.name for layer in kinds for tensor in layer.saved]
    assert saved
    assert not [name for name in saved if name.endswith(tuple(matrices))]
