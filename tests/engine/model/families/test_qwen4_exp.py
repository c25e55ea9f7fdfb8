"""Qwen3.8 Flash Next against the parameters that its repository holds."""

import msgspec
import pytest

from bundled_models import spec_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec, Part, Split
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.speculative import draft_spec
from fitgauge.engine.serving.vllm.weights import shard_weights
from fitgauge.engine.weights.rank_bytes import rank_weights
from kv_layouts import kv_layout

HIDDEN, STREAMS = 2560, 4
CONFIG = {
    "model_type": "qwen4_exp_text",
    "hidden_size": HIDDEN,
    "num_hidden_layers": 4,
    "hc_count": STREAMS,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
}
TABLE = {"ple_layer_ids": [2], "ple_embed_dim": 2560, "ngram_vocab_size_base": 20_000_000}


def parameters(spec: ModelSpec) -> int:
    return sum(
        len(block.layers) * tensor.elements
        for block in spec.blocks
        for tensor in block.tensors
        if not tensor.buffer and block.part is not Part.MTP
    )


def test_parameters_are_those_of_the_repository() -> None:
    """A head of the table has a prime of rows, 1,536 more in all than the round numbers counted."""
    spec = spec_of("Qwen/Qwen3.8-Flash-Next")
    assert parameters(spec) + 1536 * 160 == 177_397_550_192


def test_a_table_of_n_grams_adds_to_the_streams_of_its_layer_alone() -> None:
    without, held = (read_config(CONFIG | changes) for changes in ({}, TABLE))
    wide = STREAMS * HIDDEN
    joint = 2560 * (wide + HIDDEN) + 3 * wide + 4 * wide
    assert parameters(held) - parameters(without) == 16 * 20_000_000 * 160 + joint
    (table,) = [
        tensor
        for block in held.blocks
        for tensor in block.tensors
        if "ngram_embedding" in tensor.name
    ]
    assert table.split is Split.VOCABULARY


def test_layers_without_an_indexer_attend_to_all() -> None:
    dense = {key: value for key, value in CONFIG.items() if not key.startswith("indexer")}
    one_layer = HIDDEN * (4 + 1) * 128 + 2 * 128
    assert parameters(read_config(CONFIG)) - parameters(read_config(dense)) == one_layer


@pytest.mark.parametrize(("ranks", "size"), [(1, 5_214_793_216), (4, 1_339_485_696)])
def test_what_predicts_is_a_layer_without_a_table_that_reads_every_stream(
    ranks: int, size: int
) -> None:
    """vLLM 0.33's own Qwen4ExpMTP but for embedding and head, which it shares."""
    spec = spec_of("Qwen/Qwen3.8-Flash-Next")
    sharded = shard_weights(draft_spec(spec), Scheme(name="bf16"))
    assert rank_weights(sharded, tensor_parallel=ranks).bytes == size
    assert not any(block.part is Part.MTP for block in read_config(CONFIG).blocks)


def test_vllm_pads_what_a_block_adds_to_its_streams() -> None:
    """Its model class without tables has 24,204,000,832 B in 4 layers and a tower, 1,966,080 of
    them rows that hold nothing."""
    spec = read_config(CONFIG | {"hc_lowrank": 320})
    padded = msgspec.structs.replace(spec, model_type="qwen4_exp")
    sizes = [
        rank_weights(shard_weights(each, Scheme(name="bf16")), tensor_parallel=1).bytes
        for each in (spec, padded)
    ]
    assert sizes[1] - sizes[0] == 4 * 2 * 12 * STREAMS * HIDDEN * 2


def test_a_ring_and_compressed_keys_lie_beside_the_cache_of_vllm() -> None:
    """Tokens of a pool of 40 GiB, printed by vLLM 0.33's own planner for a fake H100: blocks of 448
    tokens over 4 ranks and of 256 over 8, each of 12 attention layers with a key of 128 numbers
    for every 4 tokens; beside them a request takes a block of rings and 3 of each of 4 groups of
    states."""
    spec = spec_of("Qwen/Qwen3.8-Flash-Next")
    for ranks, tokens in ((4, 1_879_552), (8, 2_339_271)):
        layout = kv_layout(
            spec, tensor_parallel=ranks, kv_cache_dtype="auto", max_model_len=8192,
            max_batched_tokens=8192, compute_capability=(9, 0),
        )  # fmt: skip
        assert layout.tokens(40 * GIB) == tokens
