"""GGUF files: their key-values, the config that follows, and which of them is meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.engine.model.families import read_config
from fitgauge.errors import MalformedModelError, UnknownModelError
from fitgauge.hub.gguf import MAX_ITEMS, MAX_KEYS, MAX_TEXT_LENGTH, read_metadata
from fitgauge.hub.gguf_config import config_of, is_enough, uneven
from fitgauge.hub.gguf_files import GgufFiles, choose, models_in
from hub_stand_in.formats import gguf_header

VALUES = {
    "general.architecture": "llama", "general.name": "Tiny ✓", "llama.block_count": 2,
    "llama.rope.freq_base": 10000.0,
    "llama.attention.causal": True, "llama.attention.head_count_kv": [4, 4],
    "tokenizer.ggml.tokens": ["a", "bc", "déf"],
}  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
def test_key_values_are_read(version):
    metadata = read_metadata(gguf_header(VALUES, version=version))
    assert metadata.complete
    assert metadata.values == {
        key: value for key, value in VALUES.items() if key != "tokenizer.ggml.tokens"
    }
    assert metadata.lengths == {"llama.attention.head_count_kv": 2, "tokenizer.ggml.tokens": 3}


def test_long_texts_and_arrays_are_skipped():
    values = {"a": "x" * (MAX_TEXT_LENGTH + 1), "b": list(range(MAX_ITEMS + 1)), "c": 7}
    metadata = read_metadata(gguf_header(values))
    assert metadata.values == {"c": 7}
    assert metadata.lengths == {"b": MAX_ITEMS + 1}


def test_a_beginning_gives_the_key_values_that_lie_whole_within_it():
    data = gguf_header(VALUES)
    for length in range(24, len(data)):
        metadata = read_metadata(data[:length])
        assert not metadata.complete
        assert metadata.values.items() <= VALUES.items()


def test_an_array_that_claims_more_than_there_is_ends_with_the_bytes():
    data = bytearray(gguf_header({"tokens": ["a"]}))
    position = data.index(b"tokens") + len("tokens") + 8
    data[position : position + 8] = b"\xff" * 8
    assert not read_metadata(bytes(data)).complete


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" + bytes(40),
        gguf_header({}, version=1),
        gguf_header({})[:4] + b"\x00\x00\x00\x03" + bytes(40),
        gguf_header({})[:16] + (MAX_KEYS + 1).to_bytes(8, "little"),
        gguf_header({"a": 1}).replace(b"a\x04", b"a\x63"),
        gguf_header({"k" * 2000: 1}),
    ],
)
def test_what_is_no_gguf_file_is_malformed(data):
    with pytest.raises(MalformedModelError):
        read_metadata(data)


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_read_or_malformed(data, header):
    try:
        metadata = read_metadata(
            (gguf_header({})[:16] + b"\x09" + bytes(7) if header else b"") + data
        )
        config_of(metadata)
    except MalformedModelError:
        pass


def keys(architecture, **values):
    usual = {
        "block_count": 4,
        "context_length": 2048,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "vocab_size": 100,
    }
    usual |= {"attention.head_count": 4, "attention.head_count_kv": 2}
    return read_metadata(
        gguf_header(
            {
                "general.architecture": architecture,
                **{f"{architecture}.{name}": value for name, value in {**usual, **values}.items()},
            }
        )
    )


@pytest.mark.parametrize(
    ("architecture", "values", "told"),
    [
        (
            "llama",
            {"rope.dimension_count": 16},
            {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "head_dim": 16},
        ),
        (
            "llama",
            {"expert_count": 8, "expert_used_count": 2},
            {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2},
        ),
        (
            "qwen3",
            {"attention.key_length": 32},
            {"model_type": "qwen3", "head_dim": 32, "num_key_value_heads": 2},
        ),
        (
            "qwen3moe",
            {"expert_count": 16, "expert_feed_forward_length": 24},
            {"num_experts": 16, "moe_intermediate_size": 24},
        ),
        (
            "gemma3",
            {"attention.sliding_window": 512},
            {"model_type": "gemma3_text", "sliding_window": 512},
        ),
        ("gpt-oss", {"expert_count": 4}, {"model_type": "gpt_oss", "num_local_experts": 4}),
        ("phi3", {}, {"model_type": "phi3", "max_position_embeddings": 2048, "vocab_size": 100}),
        (
            "glm4moe",
            {"nextn_predict_layers": 1},
            {"model_type": "glm4_moe", "num_hidden_layers": 3, "num_nextn_predict_layers": 1},
        ),
        (
            "qwen35",
            {
                "ssm.group_count": 16,
                "ssm.time_step_rank": 32,
                "ssm.inner_size": 4096,
                "ssm.state_size": 64,
                "full_attention_interval": 4,
            },
            {
                "model_type": "qwen3_5_text",
                "linear_num_value_heads": 32,
                "linear_value_head_dim": 128,
                "linear_key_head_dim": 64,
            },
        ),
        (
            "glm-dsa",
            {"attention.indexer.top_k": 2048},
            {"model_type": "glm_moe_dsa", "index_topk": 2048},
        ),
        ("brand-new", {}, {"model_type": "brand_new"}),
    ],
)
def test_key_values_become_a_config(architecture, values, told):
    assert told.items() <= config_of(keys(architecture, **values)).items()


@pytest.mark.parametrize(
    "lengths",
    [
        {
            "attention.key_length": 576,
            "attention.value_length": 512,
            "attention.key_length_mla": 192,
            "attention.value_length_mla": 128,
        },
        {"attention.key_length": 192, "attention.value_length": 128},
    ],
)
def test_a_latent_attention_is_read_from_newer_and_older_files(lengths):
    values = {
        "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
        "attention.q_lora_rank": 1536,
        **lengths,
    }
    config = config_of(
        keys(
            "deepseek2",
            expert_gating_func=2,
            leading_dense_block_count=3,
            expert_count=256,
            **values,
        )
    )
    told = {
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "kv_lora_rank": 512,
        "first_k_dense_replace": 3,
    }
    assert told.items() <= config.items()
    assert config["model_type"] == "deepseek_v3"
    assert config_of(keys("deepseek2", **values))["model_type"] == "deepseek_v2"


def test_the_vocabulary_is_counted_where_no_key_gives_it():
    values = {
        "general.architecture": "qwen2",
        "qwen2.block_count": 1,
        "qwen2.embedding_length": 8,
        "tokenizer.ggml.tokens": ["a"] * 55,
    }
    assert config_of(read_metadata(gguf_header(values)))["vocab_size"] == 55


def test_values_that_differ_by_layer_give_the_largest_and_are_named():
    metadata = keys("deci", **{"attention.head_count_kv": [8, 0, 2, 8]})
    assert config_of(metadata)["num_key_value_heads"] == 8
    assert uneven(metadata) == ("deci.attention.head_count_kv",)
    assert uneven(keys("deci", **{"attention.head_count_kv": [8, 8]})) == ()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"general.architecture": 5},
        {"general.architecture": "llama", "llama.embedding_length": 4},
    ],
)
def test_a_file_without_its_sizes_is_malformed(values):
    with pytest.raises(MalformedModelError):
        config_of(read_metadata(gguf_header(values)))


def test_a_number_of_layers_that_is_a_text_is_malformed():
    with pytest.raises(MalformedModelError):
        config_of(keys("llama", block_count="many"))


def test_the_sizes_are_all_there_once_the_vocabulary_begins():
    data = gguf_header({**VALUES, "tokenizer.ggml.tokens": ["x"] * 1000})
    begun = data.index(b"tokenizer.ggml.tokens")
    assert not is_enough(read_metadata(data[:begun]))
    assert is_enough(read_metadata(data[: begun + 100]))


def test_a_small_llama_has_the_parameters_of_its_key_values():
    config = config_of(keys("llama", **{"rope.dimension_count": 16}))
    layer = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128 + 2 * 64
    assert read_config(config).parameters == 2 * 100 * 64 + 4 * layer + 64


FILES = [
    "README.md", "mmproj-F16.gguf", "imatrix.gguf", "m-Q8_0.gguf", "m-Q4_K_M.gguf",
    "m-UD-Q4_K_M.gguf", "m-UD-Q4_K_XL.gguf",
    "m-IQ2_XXS.gguf",
    "BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf", "old/m.Q4_0.gguf",
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        (None, "m-Q4_K_M.gguf"),
        ("q8_0", "m-Q8_0.gguf"),
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("UD-Q4_K_M", "m-UD-Q4_K_M.gguf"),
        ("Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("iq2_xxs", "m-IQ2_XXS.gguf"),
        ("bf16", "BF16/m-BF16-00001-of-00002.gguf"),
        ("Q4_0", "old/m.Q4_0.gguf"),
        ("m.Q4_0.gguf", "old/m.Q4_0.gguf"),
        ("old/m.Q4_0.gguf", "old/m.Q4_0.gguf"),
    ],
)
def test_a_label_or_a_name_chooses(wanted, first):
    assert choose(models_in(FILES), wanted, "acme/m").files[0] == first


@pytest.mark.parametrize("wanted", ["Q4_K", "Q4", "Q2_K", "gguf", "F16"])
def test_a_label_is_matched_whole(wanted):
    with pytest.raises(UnknownModelError) as error:
        choose(models_in(FILES), wanted, "acme/m")
    assert "Q8_0" in error.value.hint


def test_labels_are_read_from_names():
    labels = [
        GgufFiles(name, ()).label
        for name in ("a/Model-8B-Q4_K_M", "model.IQ2_XXS", "model-UD-Q2_K_XL", "model-f16", "plain")
    ]
    assert labels == ["Q4_K_M", "IQ2_XXS", "UD-Q2_K_XL", "F16", "plain"]


def test_without_the_usual_label_the_first_is_taken():
    assert choose(models_in(["b-Q8_0.gguf", "a-Q6_K.gguf"]), None, "acme/m").files == (
        "a-Q6_K.gguf",
    )
