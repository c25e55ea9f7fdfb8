"""What a layer keeps under Megatron's kernels: the list that their save_for_backward calls make,
tensor by tensor."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.layers.context import (
    passed_backward_bytes,
    passed_forward_bytes,
)
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.workload import TrainingWorkload

TOKENS = 512


def saved(name, **settings):
    """Return the numbers of every tensor of 16 bits that a layer saves."""
    row = Snapshot().get(name)
    workload = TrainingWorkload(
        sequence_length=TOKENS, framework="megatron", attention="flash", **settings
    )
    layer = segments(read_config(row.config, row.quantization), workload).layers[-1]
    return {tensor.name: tensor.elements // TOKENS for tensor in layer.saved if tensor.width == 2}


DENSE = {
    "hidden": 4096, "input_layernorm": 4096, "query": 4096, "self_attn.k_norm.input": 1024,
    "query.rotated": 4096, "key.rotated": 1024,
    "value.turned": 1024, "attention": 4096, "attention.residual": 4096,
    "post_attention_layernorm": 4096, "linear_fc1": 2 * 12288,
    "mlp.product": 12288,
}  # fmt: skip
"""Of a layer of Qwen3 8B."""


def test_a_dense_layer_keeps_the_inputs_of_norms_linears_attention_and_gate():
    assert saved("Qwen/Qwen3-8B") == DENSE


def test_ranks_that_pass_keys_and_values_on_save_one_copy_of_both():
    kept = saved("Qwen/Qwen3-8B", context_parallel=2)  # half the tokens on a rank
    assert kept.pop("attention.passed") == 2 * 1024 // 2
    assert kept == {
        name: size // 2
        for name, size in DENSE.items()
        if name not in ("key.rotated", "value.turned")
    }


def test_a_ring_of_ranks_holds_every_buffer_and_output_until_they_are_merged():
    outputs, keys_values, sums = 4096, 2048, 32
    assert passed_forward_bytes(outputs, keys_values, sums, 1, 2) == 2 * outputs + 4 * sums
    assert (
        passed_forward_bytes(outputs, keys_values, sums, 4, 2)
        == 2 * (3 * keys_values + 4 * outputs) + 4 * 4 * sums
    )
    assert passed_backward_bytes(outputs, keys_values, 2) == 2 * (outputs + 4 * keys_values)


@pytest.mark.parametrize(("module", "gone"), [
    ("layernorm", ["input_layernorm", "post_attention_layernorm"]),
    ("mlp", ["linear_fc1", "mlp.product"]),
])  # fmt: skip
def test_a_recomputed_module_keeps_what_it_is_given_alone(module, gone):
    kept = saved("Qwen/Qwen3-8B", activation_checkpointing="selective", recompute_modules=(module,))
    assert kept == {name: size for name, size in DENSE.items() if name not in gone}


def test_recomputed_attention_keeps_the_projection_that_its_values_are_a_part_of():
    kept = saved("Qwen/Qwen3-8B", activation_checkpointing="selective")
    assert kept.pop("linear_qkv") == 4096 + 2 * 1024
    assert kept == {name: size for name, size in DENSE.items() if name != "value.turned"}


def test_a_checkpointed_mixture_leaves_the_maps_of_its_dispatcher():
    row = Snapshot().get("Qwen/Qwen3-30B-A3B")
    settings = {"sequence_length": TOKENS, "framework": "megatron", "attention": "flash"}
    layer = segments(
        read_config(row.config), TrainingWorkload(activation_checkpointing="full", **settings)
    ).layers[-1]
    assert layer.forward.end == TOKENS * (2 * 2048 + 8 * 8 + 128 * (4 + 1))


def test_experts_keep_their_tokens_and_what_the_gate_reads_and_gives_but_not_what_they_give():
    hidden, inner, chosen = 2048, 768, 8
    kept = saved("Qwen/Qwen3-30B-A3B")
    assert {name: size for name, size in kept.items() if name.startswith("experts")} == {
        "experts.tokens": chosen * hidden, "experts.gate_up": chosen * 2 * inner,
        "experts.product": chosen * inner,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["openai-community/gpt2", "google/gemma-3-1b-pt"])
def test_no_norm_keeps_a_copy_in_fp32(name):
    row = Snapshot().get(name)
    workload = TrainingWorkload(sequence_length=TOKENS, framework="megatron", attention="flash")
    layer = segments(read_config(row.config, row.quantization), workload).layers[-1]
    assert not [
        tensor.name
        for tensor in layer.saved
        if tensor.width == 4 and "norm" in tensor.name and "statistics" not in tensor.name
    ]
