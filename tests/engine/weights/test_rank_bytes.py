"""Bytes of parameters, whole and per rank."""

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.families.parts import single
from fitgauge.engine.model.model import Stored
from fitgauge.engine.model.spec import Kind, ModelSpec, Part, Split, Tensor
from fitgauge.engine.quantization import formats as q
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.quantization.scheme import Rule, Scheme
from fitgauge.engine.serving.vllm import weights as vllm
from fitgauge.engine.weights.rank_bytes import pipeline_stages, rank_weights
from fitgauge.engine.weights.sharding import shard_weights, stored_bytes, summary_bytes

PLAIN = Scheme(name="as published")
LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "num_hidden_layers": 48, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "tie_word_embeddings": False,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
}  # fmt: skip


def one(*tensors: Tensor, **changes) -> ModelSpec:
    """Return a model of one block that is there once."""
    values = {
        "model_type": "x",
        "architecture": "",
        "hidden_size": 64,
        "vocabulary_size": 100,
        "max_context_length": 64,
        "tied_embeddings": False,
    }
    return ModelSpec(**{**values, "blocks": (single(Part.LANGUAGE, tensors),), **changes})


def test_llama_8b_takes_what_vllm_logs():
    """vLLM logs 14.9888 GiB for Llama-3.1-8B: 14.9576 GiB of weights and a rotary table of
    131072 x 128 x 2 bytes."""
    spec = read_config(LLAMA_8B)
    weights = rank_weights(vllm.shard_weights(spec, PLAIN)).bytes
    assert weights == 16_060_522_496
    assert (weights + vllm.buffer_bytes(spec)) / 2**30 == pytest.approx(14.9888, abs=1e-4)


def test_bloom_176b_takes_352_gb():
    config = {
        "model_type": "bloom",
        "hidden_size": 14336,
        "n_layer": 70,
        "n_head": 112,
        "vocab_size": 250880,
        "torch_dtype": "bfloat16",
    }
    assert rank_weights(shard_weights(read_config(config), PLAIN)).bytes / 1e9 == pytest.approx(
        352.5, abs=0.05
    )


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [
        (32, 1, [32]),
        (32, 4, [8, 8, 8, 8]),
        (61, 4, [15, 15, 16, 15]),
        (62, 4, [15, 16, 16, 15]),
        (33, 2, [17, 16]),
        (27, 8, [3, 3, 3, 3, 4, 4, 4, 3]),
    ],
)
def test_layers_left_over_go_to_the_stages_before_the_last(layers, stages, sizes):
    ranges = pipeline_stages(layers, stages)
    assert [len(stage) for stage in ranges] == sizes
    assert [number for stage in ranges for number in stage] == list(range(layers))


@pytest.mark.parametrize("config", [LLAMA_8B, QWEN_MOE])
@pytest.mark.parametrize("stages", [2, 3, 8])
def test_stages_add_up_to_the_whole(config, stages):
    sharded = shard_weights(read_config(config), PLAIN)
    ranges = pipeline_stages(config["num_hidden_layers"], stages)
    split = [
        rank_weights(sharded, layers=ranges[n], first=n == 0, last=n == stages - 1).bytes
        for n in range(stages)
    ]
    assert sum(split) == rank_weights(sharded).bytes


def test_a_tied_embedding_is_on_the_first_stage_and_on_the_last():
    sharded = shard_weights(read_config({**LLAMA_8B, "tie_word_embeddings": True}), PLAIN)
    embedding = 128256 * 4096 * 2
    first = rank_weights(sharded, layers=range(16), first=True, last=False)
    last = rank_weights(sharded, layers=range(16, 32), first=False, last=True)
    assert first.by_part[Part.EMBEDDING] == last.by_part[Part.EMBEDDING] == embedding
    assert rank_weights(sharded).by_part[Part.EMBEDDING] == embedding


def test_kv_heads_are_replicated_where_ranks_outnumber_them():
    keys = Tensor("k_proj.weight", (8 * 128, 4096), Kind.LINEAR, Split.KV, 8)
    sharded = shard_weights(one(keys), PLAIN)
    assert [
        rank_weights(sharded, tensor_parallel=ways).bytes // (128 * 4096 * 2)
        for ways in (1, 2, 8, 16)
    ] == [8, 4, 1, 1]


def test_vectors_of_a_row_split_and_norms_stay_whole():
    tensors = (
        Tensor("n.weight", (64,), Kind.NORM),
        Tensor("o.weight", (64, 64), Kind.LINEAR, Split.ROW, 4),
        Tensor("o.bias", (64,), Kind.BIAS),
    )
    assert rank_weights(shard_weights(one(*tensors), PLAIN), tensor_parallel=4).bytes == 2 * (
        64 + 64 * 64 // 4 + 64
    )


def test_a_vocabulary_is_padded_before_it_is_divided():
    table = Tensor("e.weight", (100, 64), Kind.EMBEDDING, Split.VOCABULARY)
    assert (
        rank_weights(shard_weights(one(table), PLAIN, vllm.VLLM), tensor_parallel=4).bytes
        == 128 // 4 * 64 * 2
    )


@pytest.mark.parametrize("degree", [2, 4, 8, 16])
def test_experts_go_to_ranks_whole_or_in_slices_and_weigh_the_same(degree):
    sharded = vllm.shard_weights(read_config(QWEN_MOE), PLAIN)
    sliced = rank_weights(sharded, tensor_parallel=degree)
    whole = rank_weights(sharded, tensor_parallel=degree, expert_parallel=degree)
    assert sliced.bytes == whole.bytes
    everything = rank_weights(sharded).bytes
    assert everything / degree < sliced.bytes < everything / degree * 1.2


def test_data_parallel_ranks_of_vllm_share_experts():
    sharded = vllm.shard_weights(read_config(QWEN_MOE), PLAIN)
    assert (
        rank_weights(sharded, data_parallel=8).bytes
        == rank_weights(sharded, data_parallel=8, expert_parallel=8).bytes
        < rank_weights(sharded).bytes / 4
    )


def test_quantized_row_slices_count_their_own_scales():
    down = Tensor("down.weight", (4096, 14336), Kind.LINEAR, Split.ROW)
    sharded = shard_weights(one(down), Scheme(name="awq", rules=(Rule(form=q.awq(4, 128)),)))
    assert rank_weights(sharded, tensor_parallel=4).bytes == q.tensor_bytes(
        4096, 14336 // 4, q.awq(4, 128)
    )


def test_an_unknown_architecture_is_scaled_to_what_is_stored():
    spec = read_config({**LLAMA_8B, "model_type": "never-seen"})
    stored = Stored(elements={"BF16": 9_000_000_000})
    sharded = shard_weights(spec, PLAIN, stored=stored)
    assert sharded.basis == "assumed"
    assert rank_weights(sharded).bytes == pytest.approx(summary_bytes(stored), rel=1e-6)


def test_an_unknown_architecture_without_a_stored_count_is_a_guess():
    spec = read_config({**LLAMA_8B, "model_type": "never-seen"})
    stored = Stored(elements={"BF16": 9_000_000_000})
    assert shard_weights(spec, PLAIN).is_guess
    assert not shard_weights(spec, PLAIN, stored=stored).is_guess
    assert not shard_weights(read_config(LLAMA_8B), PLAIN).is_guess


def test_a_known_architecture_is_not_scaled():
    sharded = shard_weights(
        read_config(LLAMA_8B), PLAIN, stored=Stored(elements={"BF16": 9_000_000_000})
    )
    assert sharded.scale == 1.0
    assert sharded.basis == "computed"


def test_a_checkpoint_weighs_its_table():
    spec = read_config(
        {
            **LLAMA_8B,
            "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
        }
    )
    scheme = published(spec)
    assert scheme is not None
    linears = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336)
    rest = (2 * 128256 * 4096 + 65 * 4096) * 2
    assert stored_bytes(spec, scheme) == linears + linears // (128 * 128) * 4 + rest


def test_fp32_is_loaded_in_bf16_by_vllm_unless_asked_for():
    spec = read_config({**LLAMA_8B, "torch_dtype": "float32"})
    assert rank_weights(vllm.shard_weights(spec, PLAIN)).bytes == 16_060_522_496
    assert (
        rank_weights(vllm.shard_weights(spec, requested_scheme("fp32", spec))).bytes
        == 2 * 16_060_522_496
    )
    assert rank_weights(shard_weights(spec, PLAIN)).bytes == 2 * 16_060_522_496
