"""A reader of detail full sees every saved tensor of a Llama block, and can agree with each
line."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.saved_tensors import saved_segments

BATCH, SEQUENCE, HIDDEN, INNER, KV = 2, 128, 2048, 8192, 512  # Llama 3.2 1B


def layer(name="meta-llama/Llama-3.2-1B-Instruct", **changes):
    entry = Snapshot().get(name)
    asked = {"precision": "bf16", "sequence_length": SEQUENCE, "micro_batch_size": BATCH, **changes}
    workload = TrainingWorkload(**asked)
    return next(part for part in saved_segments(read_config(entry.config), workload) if part.layers)


def test_a_llama_block_line_by_line():
    stream, inner = [BATCH, SEQUENCE, HIDDEN], [BATCH, SEQUENCE, INNER]
    assert [(tensor.name, tensor.shape, tensor.dtype) for tensor in layer().tensors] == [
        ("input_layernorm.float", stream, "fp32"),
        ("input_layernorm.rsqrt", [BATCH, SEQUENCE], "fp32"),
        ("input_layernorm.narrow", stream, "bf16"),
        ("input_layernorm", stream, "bf16"),
        ("query.rotated", stream, "bf16"),
        ("key.rotated", [BATCH, SEQUENCE, KV], "bf16"),
        ("self_attn.v_proj", [BATCH, SEQUENCE, KV], "bf16"),
        ("attention", stream, "bf16"),
        ("attention.log_sum", [BATCH, SEQUENCE, 32], "fp32"),
        ("post_attention_layernorm.float", stream, "fp32"),
        ("post_attention_layernorm.rsqrt", [BATCH, SEQUENCE], "fp32"),
        ("post_attention_layernorm.narrow", stream, "bf16"),
        ("post_attention_layernorm", stream, "bf16"),
        ("mlp.gate_proj", inner, "bf16"),
        ("silu", inner, "bf16"),
        ("mlp.up_proj", inner, "bf16"),
        ("mlp.product", inner, "bf16"),
    ]


def test_layers_of_fp32_shards_save_what_parameters_gathered_in_16_bit_compute():
    sharded = {"framework": "fsdp", "data_parallel": 8, "zero_stage": 3}
    assert (
        layer(precision="mixed_bf16", **sharded).tensors
        == layer(precision="bf16", **sharded).tensors
    )
    assert {tensor.dtype for tensor in layer(precision="mixed_fp16", **sharded).tensors} == {
        "fp16",
        "fp32",
    }


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_shapes_formats_and_bytes_agree(attention):
    widths = {"fp32": 4, "bf16": 2, "fp16": 2, "bool": 1, "int64": 8}
    part = layer(attention=attention)
    for tensor in part.tensors:
        product = widths[tensor.dtype]
        for size in tensor.shape:
            product *= size
        assert product == tensor.bytes, tensor
    assert part.bytes == sum(tensor.bytes for tensor in part.tensors)


def test_scores_are_heads_by_tokens_by_keys():
    scores = next(
        tensor for tensor in layer(attention="eager").tensors if tensor.name == "attention.softmax"
    )
    assert scores.shape == [BATCH, 32, SEQUENCE, SEQUENCE]


def test_a_frozen_base_saves_no_inputs_of_its_linears_but_those_that_adapters_read():
    whole = layer(method="full").bytes
    adapted = layer(method="lora", lora_targets=("q_proj",)).bytes
    assert adapted < whole
