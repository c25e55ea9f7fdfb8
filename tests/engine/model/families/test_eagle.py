"""EAGLE-3 heads: counted from their config by hand, in both formats, and never taken for the
model they draft for."""

from typing import Any

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec, Part

HEAD: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
}
"""The sizes of a head for Llama 3.1 8B."""


LATENT_HEAD: dict[str, Any] = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_attention_heads": 64,
    "num_hidden_layers": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 163840,
    "max_position_embeddings": 262144,
    "torch_dtype": "bfloat16",
}
"""The sizes of a head with latent attention for Kimi K2.5."""


def elements(spec: ModelSpec) -> dict[str, int]:
    return {tensor.name: tensor.elements for block in spec.blocks for tensor in block.tensors}


def test_a_head_reads_embedding_and_hidden_state_side_by_side_and_three_hidden_states() -> None:
    counted = elements(read_config(HEAD))
    assert counted["self_attn.q_proj.weight"] == 4096 * 2 * 4096
    assert (
        counted["self_attn.k_proj.weight"] == counted["self_attn.v_proj.weight"] == 1024 * 2 * 4096
    )
    assert counted["fc.weight"] == 4096 * 3 * 4096
    assert counted["lm_head.weight"] == 32000 * 4096
    assert counted["d2t"] == 32000


def test_only_the_first_layer_reads_both() -> None:
    spec = read_config(HEAD | {"num_hidden_layers": 2})
    widths = [
        t.shape[1]
        for b in spec.blocks
        if b.mixers
        for t in b.tensors
        if t.name == "self_attn.q_proj.weight"
    ]
    assert widths == [8192, 4096]


def test_the_hidden_states_it_reads_are_as_many_and_as_wide_as_its_config_says() -> None:
    said = {
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]},
        "target_hidden_size": 8192,
    }
    assert elements(read_config(HEAD | said))["fc.weight"] == 4096 * 2 * 8192


def test_a_head_of_the_whole_vocabulary_maps_nothing() -> None:
    counted = elements(read_config(HEAD | {"draft_vocab_size": None}))
    assert "d2t" not in counted
    assert counted["lm_head.weight"] == 128256 * 4096


def test_the_format_of_the_speculators_library_is_the_same_head() -> None:
    layers = {
        key: value
        for key, value in HEAD.items()
        if key not in ("architectures", "draft_vocab_size")
    }
    wrapped = {
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 32000,
        "transformer_layer_config": layers,
    }
    assert elements(read_config(wrapped)) == elements(read_config(HEAD))


def test_a_model_of_the_same_type_stays_a_model() -> None:
    spec = read_config(HEAD | {"architectures": ["LlamaForCausalLM"]})
    assert "fc.weight" not in elements(spec)
    assert sum(block.part is Part.HEAD for block in spec.blocks) == 1


def test_the_speculators_format_has_norms_of_what_is_read_and_heads_of_qwen_3s_shape() -> None:
    layers = {key: HEAD[key] for key in HEAD if key not in {"architectures", "draft_vocab_size"}}
    said = {
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 32000,
        "norm_before_fc": True,
        "fc_norm": True,
        "transformer_layer_config": layers | {"model_type": "qwen3"},
    }
    counted = elements(read_config(said))
    assert counted["input_norm.weight"] == 3 * 4096
    assert counted["fc_norm.2.weight"] == 4096
    assert counted["self_attn.q_norm.weight"] == 128


def test_a_dflash_head_of_a_vocabulary_of_its_own_has_an_output_head() -> None:
    layers = {key: HEAD[key] for key in HEAD if key not in {"architectures", "draft_vocab_size"}}
    said = {
        "speculators_model_type": "dflash",
        "draft_vocab_size": 32000,
        "aux_hidden_state_layer_ids": [2, 10, 18],
        "transformer_layer_config": layers
        | {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 2048},
    }  # fmt: skip
    spec = read_config(said)
    assert elements(spec)["fc.weight"] == 4096 * 3 * 4096
    assert elements(spec)["lm_head.weight"] == 32000 * 4096
    windows = [mixer.window for block in spec.blocks for mixer in block.mixers]
    assert windows == [2048, None]


def test_latent_attention_of_a_head_reads_twice_the_width_and_keeps_one_latent() -> None:
    spec = read_config(LATENT_HEAD)
    counted = elements(spec)
    assert counted["self_attn.q_a_proj.weight"] == 1536 * 2 * 7168
    assert counted["self_attn.kv_a_proj_with_mqa.weight"] == 576 * 2 * 7168
    assert counted["self_attn.o_proj.weight"] == 7168 * 64 * 128
    mixers = [mixer for block in spec.blocks for mixer in block.mixers]
    assert [type(mixer).__name__ for mixer in mixers] == ["LatentAttention"]
