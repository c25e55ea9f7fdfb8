"""Multimodal models against transformers (counts) and vLLM (names, tables, what a rank holds)."""

import pytest

from counted_models import counted_models
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.mixers import Attention, CrossAttention
from fitgauge.engine.model.spec import Part, RotaryTable, Split
from fitgauge.errors import MalformedModelError

MODELS = counted_models("multimodal.json")
QWEN3_VL = {
    "model_type": "qwen3_vl",
    "text_config": {"hidden_size": 2560},
    "vision_config": {"out_hidden_size": 2560},
}


def full_names(config):
    """Return the names of all tensors, the layer's number left as `{}`."""
    return {
        block.prefix + tensor.name
        for block in read_config(config).blocks
        for tensor in block.tensors
    }


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["config"]["model_type"])
def test_towers_keep_no_cache(model):
    """What sees and hears attends in both directions and is no part of the language
    model."""
    for block in read_config(model["config"]).blocks:
        if block.part in (Part.VISION, Part.AUDIO):
            assert all(isinstance(mixer, Attention) and not mixer.causal for mixer in block.mixers)


@pytest.mark.parametrize(
    ("model_type", "names"),
    [
        (
            "qwen3_vl",
            {
                "model.language_model.layers.{}.self_attn.q_proj.weight",
                "model.visual.blocks.{}.attn.qkv.weight",
                "lm_head.weight",
            },
        ),
        (
            "qwen3_5_moe",
            {
                "model.language_model.layers.{}.linear_attn.in_proj_qkv.weight",
                "model.visual.merger.linear_fc1.weight",
            },
        ),
        (
            "gemma3",
            {
                "language_model.model.layers.{}.self_attn.q_proj.weight",
                "multi_modal_projector.mm_input_projection_weight",
            },
        ),
        (
            "gemma4",
            {
                "model.language_model.layers.{}.per_layer_projection.weight",
                "model.language_model.embed_tokens_per_layer.weight",
            },
        ),
        (
            "kimi_k25",
            {
                "language_model.model.layers.{}.mlp.gate.weight",
                "mm_projector.proj.0.weight",
                "language_model.lm_head.weight",
            },
        ),
    ],
)
def test_names_are_the_checkpoints(model_type, names):
    """Quantizers exclude modules by these names."""
    assert names <= full_names({"model_type": model_type})


def test_tables_of_a_model_that_sees_are_those_vllm_registers():
    """Qwen3-VL in vLLM 0.33: the language model's context x 128 and the tower's 8192 x half of
    its heads' 72."""
    assert read_config(QWEN3_VL).rotary_tables == (
        RotaryTable(positions=128000, dim=128),
        RotaryTable(positions=8192, dim=36, tower=True),
    )


def test_a_flat_config_is_read_like_one_with_sections():
    """Qwen2-VL's first configs keep the language model's sizes at the top."""
    sizes = {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
    }
    vision = {"vision_config": {"hidden_size": 1536}}
    flat = read_config({"model_type": "qwen2_vl", **sizes, **vision})
    assert (
        flat.blocks
        == read_config({"model_type": "qwen2_vl", "text_config": sizes, **vision}).blocks
    )


def test_shared_caches_are_marked():
    """The last `num_kv_shared_layers` of Gemma 4 read an earlier layer's cache and have
    no keys of their own."""
    spec = read_config(
        {"model_type": "gemma4_text", "num_hidden_layers": 12, "num_kv_shared_layers": 4}
    )
    shared = [block for block in spec.blocks for mixer in block.mixers if mixer.shares_cache]
    assert sorted(number for block in shared for number in block.layers) == [8, 9, 10, 11]
    assert not [tensor for block in shared for tensor in block.tensors if ".k_proj" in tensor.name]


@pytest.mark.parametrize(
    ("text", "stored", "sharing"),
    [
        ({}, 7_849_978_192, 15),
        (
            {"num_hidden_layers": 30, "intermediate_size": 8192, "num_kv_shared_layers": 10},
            5_439_438_272,
            10,
        ),
    ],
    ids=["E4B", "E2B"],
)
def test_gemma_3n_is_what_its_repositories_store(text, stored, sharing):
    """google/gemma-3n-E4B-it and E2B-it as their safetensors count, less the keys and values that
    sharing layers store in vain.

    The counts are quoted from memory.
    """
    unused = sharing * (2 * 512 * 2048 + 256)
    assert read_config({"model_type": "gemma3n", "text_config": text}).parameters == stored - unused


def test_values_that_are_keys_are_loaded_but_not_counted():
    """Gemma 4 with attention_k_eq_v: vLLM fills a value projection with the keys, the checkpoint
    has none."""
    config = {
        "model_type": "gemma4_text",
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 2,
    }
    full = next(
        block
        for block in read_config(config).blocks
        for mixer in block.mixers
        if mixer.head_dim == 512
    )
    values = next(tensor for tensor in full.tensors if tensor.name == "self_attn.v_proj.weight")
    assert values.buffer
    assert values.split is Split.KV
    assert values.units == 2


def test_a_head_tied_by_the_wrapper_alone_is_loaded_and_not_counted():
    """Mistral Small 3.1 says nothing of tying: transformers ties by its default, the repository
    and vLLM have a head."""
    silent = read_config({"model_type": "mistral3"})
    told = read_config({"model_type": "mistral3", "tie_word_embeddings": True})
    assert silent.parameters == told.parameters
    heads = [
        tensor for block in silent.blocks if block.part is Part.HEAD for tensor in block.tensors
    ]
    assert [(tensor.name, tensor.buffer) for tensor in heads] == [
        ("language_model.lm_head.weight", True)
    ]
    assert not [block for block in told.blocks if block.part is Part.HEAD]


def test_opengvlabs_own_format_is_read():
    """InternVL3-8B: 7,944,373,760 parameters as its repository's safetensors count (quoted from
    memory)."""
    vision = {"hidden_size": 1024, "image_size": 448, "intermediate_size": 4096,
        "num_attention_heads": 16, "num_hidden_layers": 24,
              "qkv_bias": True, "qk_normalization": False, "norm_type": "layer_norm"}  # fmt: skip
    text = {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "vocab_size": 151674}  # fmt: skip
    assert (
        read_config(
            {"model_type": "internvl_chat", "llm_config": text, "vision_config": vision}
        ).parameters
        == 7_944_373_760
    )


def test_cross_attention_keeps_one_image():
    """Llama 3.2 Vision 11B: 4 tiles of (560 / 14)^2 + 1 tokens for each of its 8 cross attention
    layers."""
    spec = read_config({"model_type": "mllama", "vision_config": {"image_size": 560}})
    crossing = [
        mixer
        for block in spec.blocks
        for _ in block.layers
        for mixer in block.mixers
        if isinstance(mixer, CrossAttention)
    ]
    assert (len(crossing), crossing[0].source_tokens) == (8, 4 * 1601)


def test_a_language_model_nobody_taught_is_assumed():
    """The tower is known, its language model is not: the answer says so."""
    spec = read_config({"model_type": "llava",
        "text_config": {"model_type": "marsian", "hidden_size": 64, "vocab_size": 100,
                        "num_hidden_layers": 2, "num_attention_heads": 2,
                        "intermediate_size": 128}})  # fmt: skip
    assert spec.basis == "assumed"
    assert spec.notes


@pytest.mark.parametrize("size", ["large", [448, 448, 448], -1, {"height": 448}])
def test_a_broken_image_size_is_refused(size):
    """A tower whose size is not one number or two is malformed."""
    with pytest.raises(MalformedModelError):
        read_config({"model_type": "internvl", "vision_config": {"image_size": size}})


ERNIE_TEXT = {
    "model_type": "ernie4_5_vl_moe_text", "vocab_size": 103424, "hidden_size": 2560,
    "intermediate_size": 12288, "num_hidden_layers": 28, "num_attention_heads": 20,
    "num_key_value_heads": 4, "max_position_embeddings": 131072, "tie_word_embeddings": True,
    "moe_intermediate_size": [1536, 512], "moe_k": 6, "moe_num_experts": 64,
    "moe_num_shared_experts": 2,
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"moe_num_experts": [64, 64]}])
def test_ernie_vl_has_experts_of_text_and_experts_of_images(changes):
    """Counted: transformers 5.23.0, Ernie4_5_VLMoeForConditionalGeneration on the meta device."""
    text = {**ERNIE_TEXT, **changes}
    spec = read_config(
        {"model_type": "ernie4_5_vl_moe", "text_config": text, "tie_word_embeddings": True}
    )
    assert (spec.parameters, spec.basis, spec.sees_images) == (29_399_294_336, "exact", True)


@pytest.mark.parametrize("widths", [1536, [1536], [1536, 0], ["a", "b"]])
def test_ernie_vl_without_two_widths_of_experts_is_refused(widths):
    text = {**ERNIE_TEXT, "moe_intermediate_size": widths}
    with pytest.raises(MalformedModelError, match="moe_intermediate_size"):
        read_config({"model_type": "ernie4_5_vl_moe", "text_config": text})
