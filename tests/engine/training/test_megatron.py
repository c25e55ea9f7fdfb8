"""What a layer keeps under Megatron's kernels: the list that their save_for_backward calls make, tensor by tensor."""

import pytest

from fitgauge.catalog.models import Snapshot
from fitgauge.engine.families import read_config
from fitgauge.engine.training.segments import segments
from fitgauge.engine.training.workload import TrainingWorkload

TOKENS = 512


def saved(name, **settings):
    """Numbers of every tensor of 16 bits that a layer saves."""
    row = Snapshot().get(name)
    workload = TrainingWorkload(sequence_length=TOKENS, framework="megatron", attention="flash", **settings)
    layer = segments(read_config(row.config, row.quantization), workload).layers[-1]
    return {tensor.name: tensor.elements // TOKENS for tensor in layer.saved if tensor.width == 2}


def test_a_dense_layer_keeps_the_inputs_of_norms_linears_attention_and_gate():
    hidden, queries, keys, inner = 4096, 4096, 1024, 12288
    assert saved("Qwen/Qwen3-8B") == {
        "hidden": hidden, "input_layernorm": hidden, "self_attn.q_proj": queries, "self_attn.k_proj": keys,
        "query.rotated": queries, "key.rotated": keys, "self_attn.v_proj": keys, "attention": queries,
        "attention.residual": hidden, "post_attention_layernorm": hidden,
        "mlp.gate_proj": inner, "mlp.up_proj": inner, "mlp.product": inner,
    }  # fmt: skip


def test_experts_keep_their_tokens_and_what_the_gate_reads_and_gives_but_not_what_they_give():
    hidden, inner, chosen = 2048, 768, 8
    kept = saved("Qwen/Qwen3-30B-A3B")
    assert {name: size for name, size in kept.items() if name.startswith("experts")} == {
        "experts.tokens": chosen * hidden, "experts.gate_up": chosen * 2 * inner, "experts.product": chosen * inner,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["openai-community/gpt2", "google/gemma-3-1b-pt"])
def test_no_norm_keeps_a_copy_in_fp32(name):
    row = Snapshot().get(name)
    workload = TrainingWorkload(sequence_length=TOKENS, framework="megatron", attention="flash")
    layer = segments(read_config(row.config, row.quantization), workload).layers[-1]
    assert not [tensor.name for tensor in layer.saved if tensor.width == 4 and "norm" in tensor.name and "statistics" not in tensor.name]
