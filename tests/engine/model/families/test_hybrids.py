"""Recurrent and hybrid decoders against transformers (counts) and vLLM (states, weights of a
rank)."""

import pytest

from counted_models import counted_models
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.mixers import Attention, LatentAttention, Recurrent
from fitgauge.engine.model.spec import Part, Split
from fitgauge.engine.serving.kv_cache import state_bytes
from fitgauge.errors import MalformedModelError

MODELS = counted_models("hybrid.json")


def mixers(config, kind):
    """Return all mixers of one kind, one for each layer."""
    return [
        mixer
        for block in read_config(config).blocks
        for _ in block.layers
        for mixer in block.mixers
        if isinstance(mixer, kind)
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["config"]["model_type"])
def test_every_layer_has_a_mixer_or_an_mlp(model):
    """A layer of a language model mixes tokens, or features, or both."""
    for block in read_config(model["config"]).blocks:
        if block.part is Part.LANGUAGE and block.prefix:
            assert block.mixers or block.mlp is not None


def test_gated_delta_state_is_what_vllm_keeps():
    """Qwen3.5-35B-A3B in vLLM 0.33: 8192 x 3 past inputs in BF16 and 32 x 128 x 128 numbers in
    F32, halved over two ranks."""
    config = {"model_type": "qwen3_5_moe_text", "mamba_ssm_dtype": "float32"}
    state = mixers(config, Recurrent)[0]
    assert state_bytes(state, "BF16", 1) == 8192 * 3 * 2 + 32 * 128 * 128 * 4
    assert state_bytes(state, "BF16", 2) == (8192 * 3 * 2 + 32 * 128 * 128 * 4) // 2


def test_a_config_without_state_dtype_keeps_the_caches_own():
    """Qwen3-Next says no mamba_ssm_dtype: vLLM keeps the state in the model's dtype."""
    state = mixers({"model_type": "qwen3_next"}, Recurrent)[0]
    assert {part.dtype for part in state.states} == {None}


def test_nemotron_state_is_f32_unless_the_config_says_otherwise():
    """vLLM 0.33 keeps Nemotron H's state in mamba_ssm_cache_dtype, float32 by default."""
    silent = mixers({"model_type": "nemotron_h"}, Recurrent)[0]
    told = mixers({"model_type": "nemotron_h", "mamba_ssm_cache_dtype": "float16"}, Recurrent)[0]
    assert (silent.states[-1].dtype, told.states[-1].dtype) == ("F32", "F16")


def test_one_group_is_replicated_over_ranks():
    """Mamba 2 with one group: every rank convolves all of B and C (vLLM,
    extra_groups_for_head_shards)."""
    state = mixers({"model_type": "bamba"}, Recurrent)[0]
    assert state_bytes(state, "BF16", 2) == 2 * (3 * (8192 // 2 + 2 * 256) + 64 * 64 * 256)
    projections = [
        t
        for t in read_config({"model_type": "bamba"}).blocks[1].tensors
        if t.name == "mamba.in_proj.weight"
    ]
    assert [(t.shape[0], t.split) for t in projections] == [
        (2 * 8192 + 128, Split.COLUMN),
        (2 * 256, Split.KV),
    ]


def test_kimi_linear_counts_layers_from_one():
    """`full_attn_layers` of linear_attn_config names layers from 1: the fourth is latent
    attention."""
    layout = {
        "full_attn_layers": [4],
        "kda_layers": [1, 2, 3],
        "head_dim": 128,
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    }
    spec = read_config(
        {"model_type": "kimi_linear", "num_hidden_layers": 4, "linear_attn_config": layout}
    )
    latent = [
        number
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, LatentAttention)
        for number in block.layers
    ]
    assert latent == [3]


def test_falcon_h1_attends_and_recurs_in_every_layer():
    """Each of its layers holds a cache and a state."""
    config = {"model_type": "falcon_h1", "num_hidden_layers": 3}
    assert len(mixers(config, Attention)) == len(mixers(config, Recurrent)) == 3


def test_nemotron_layers_from_letters_and_from_words_are_the_same():
    """`hybrid_override_pattern` and `layers_block_type` say one thing in two ways."""
    letters = {"model_type": "nemotron_h", "hybrid_override_pattern": "ME*-"}
    words = {"model_type": "nemotron_h", "layers_block_type": ["mamba", "moe", "attention", "mlp"]}
    assert read_config(letters).blocks == read_config(words).blocks


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"hybrid_override_pattern": "MX"}, "hybrid_override_pattern"),
        ({"layers_block_type": ["mamba", "coffee"]}, "layers_block_type"),
    ],
)
def test_a_layer_of_no_known_kind_is_refused(values, field):
    """The error names the field that holds it."""
    with pytest.raises(MalformedModelError) as refused:
        read_config({"model_type": "nemotron_h", **values})
    assert refused.value.field == field


def test_prediction_heads_are_not_counted_as_parameters():
    """A multi-token prediction head is a block of its own part, and the model's count
    leaves it out."""
    plain = {"model_type": "qwen3_5_text"}
    with_head = {**plain, "mtp_num_hidden_layers": 1}
    assert read_config(plain).parameters == read_config(with_head).parameters
    heads = [block for block in read_config(with_head).blocks if block.part is Part.MTP]
    assert sum(block.elements for block in heads) > 0
    assert {block.prefix or block.tensors[0].name for block in heads} == {
        "mtp.layers.{}.",
        "mtp.fc.weight",
    }


@pytest.mark.parametrize("junk", [0, -1, 2**40, "x", [[]], [{}], {"a": 1}, True], ids=str)
def test_broken_configs_are_refused_or_read(junk):
    """Whatever stands in any field, the answer is a ModelSpec or MalformedModelError, never
    another exception."""
    for model in MODELS:
        for field in model["config"]:
            try:
                read_config(
                    {**model["config"], field: junk, "model_type": model["config"]["model_type"]}
                )
            except MalformedModelError:
                continue
