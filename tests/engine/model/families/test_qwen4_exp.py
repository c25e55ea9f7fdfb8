"""Qwen3.8 Flash Next against the parameters that its repository holds."""

from bundled_models import spec_of
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec, Part, Split

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
        if not tensor.buffer
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


def test_what_is_not_counted_is_said() -> None:
    assert [note.code for note in read_config(CONFIG).notes] == ["layers-omitted"]
    assert not any(block.part is Part.MTP for block in read_config(CONFIG).blocks)
