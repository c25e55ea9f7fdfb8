"""Architectures nobody taught: what is read from their configs, what is said about it, what is
refused."""

import pytest

from counted_models import counted_models
from fitgauge.engine.model.config import Config
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.families.fallback import read_fallback
from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import Part
from fitgauge.errors import MalformedModelError
from notes import codes

PUBLISHED = counted_models("dense_published.json")
BASE = {
    "model_type": "never_seen",
    "architectures": ["NeverSeenForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
ATTENTION = 2 * 64 * 64 + 2 * 16 * 64 + 2 * 64
AROUND = 2 * 1000 * 64 + 64


def nameless(config: dict) -> Config:
    """Return the config without what would give its family away."""
    return Config(
        {key: value for key, value in config.items() if key not in {"model_type", "architectures"}}
    )


@pytest.mark.parametrize(
    "model",
    [row for row in PUBLISHED if row["model"] != "google/gemma-2b-it"],
    ids=lambda model: model["model"],
)
def test_known_models_are_read_within_one_percent_when_their_type_is_hidden(model):
    """Dense models are sized by their keys alone; Gemma 2B, whose `gelu` MLP has a gate, is the
    exception."""
    spec = read_fallback(nameless(model["config"]), {})
    assert spec.parameters == pytest.approx(model["parameters"], rel=0.01)


def test_it_says_that_it_assumed():
    """The basis is `assumed`, and a note names the architecture."""
    spec = read_config(BASE)
    assert spec.basis == "assumed"
    assert ("architecture-unknown", "model") in codes(spec.notes)
    assert spec.parameters == AROUND + 4 * (ATTENTION + 3 * 64 * 160)


def test_older_names_mean_the_same():
    """n_embd, n_layer, n_head and their like are read like the usual names, and GPT-2's
    activation has no gate."""
    spec = read_config(
        {
            "n_embd": 64,
            "n_layer": 2,
            "n_head": 4,
            "vocab_size": 100,
            "activation_function": "gelu_new",
        }
    )
    assert (spec.hidden_size, spec.layers, spec.query_heads) == (64, 2, 4)
    assert {block.mlp for block in spec.blocks if block.mlp}.pop().intermediate_size == 256


@pytest.mark.parametrize(
    "name", ["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"]
)
def test_mixture_by_any_name(name):
    """Routed experts, their width, the shared one and the dense layers before them are found."""
    change = {
        name: 16,
        "moe_intermediate_size": 32,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "num_experts_per_tok": 2,
    }
    spec = read_config(BASE | change)
    routed = ATTENTION + 16 * 64 + 17 * 3 * 64 * 32
    assert spec.parameters == AROUND + (ATTENTION + 3 * 64 * 160) + 3 * routed
    mixture = next(block.mlp for block in spec.blocks if block.mlp and block.mlp.experts)
    assert (mixture.experts, mixture.experts_per_token, mixture.shared_intermediate_size) == (
        16,
        2,
        32,
    )


def test_latent_attention_by_its_rank():
    """A kv_lora_rank means MLA."""
    change = {
        "kv_lora_rank": 32,
        "q_lora_rank": None,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
    }
    mixers = {mixer for block in read_config(BASE | change).blocks for mixer in block.mixers}
    assert mixers == {
        LatentAttention(query_heads=8, latent_dim=32, rope_dim=8, nope_dim=16, value_dim=16)
    }


def test_windows_by_layer_types():
    """Layers called sliding have the window, the others have none."""
    kinds = ["sliding_attention", "full_attention"] * 2
    spec = read_config(BASE | {"sliding_window": 128, "layer_types": kinds})
    assert {m.window for b in spec.blocks for m in b.mixers if isinstance(m, Attention)} == {
        128,
        None,
    }


def test_a_window_without_layers_counts_as_full_attention_and_says_so():
    """The cache is not made smaller on a guess."""
    spec = read_config(BASE | {"sliding_window": 128})
    assert {m.window for b in spec.blocks for m in b.mixers if isinstance(m, Attention)} == {None}
    assert ("sliding-window-unused", "model") in codes(spec.notes)


def test_linear_layers_keep_a_state():
    """Layers called linear_attention with the usual sizes are gated delta networks."""
    sizes = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    }
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    spec = read_config(BASE | sizes | {"layer_types": kinds, "linear_conv_kernel_dim": 4})
    recurrent = [
        block for block in spec.blocks for mixer in block.mixers if not isinstance(mixer, Attention)
    ]
    assert len(recurrent[0].layers) == 3


def test_a_known_language_model_inside_is_read_by_its_reader():
    """An unknown wrapper around Qwen 2 has Qwen 2's biases and a rough vision tower."""
    text = {key: value for key, value in BASE.items() if key != "architectures"} | {
        "model_type": "qwen2"
    }
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "patch_size": 14,
    }
    spec = read_config(
        {"model_type": "never_seen_vl", "text_config": text, "vision_config": vision}
    )
    names = {tensor.name for block in spec.blocks for tensor in block.tensors}
    assert "self_attn.q_proj.bias" in names
    assert {Part.VISION, Part.PROJECTOR} <= {block.part for block in spec.blocks}
    assert spec.basis == "assumed"


def test_a_known_class_under_an_unknown_type_is_read_as_its_family():
    """`architectures` tells the family where `model_type` does not."""
    spec = read_config(
        BASE | {"architectures": ["Gemma2ForCausalLM"], "head_dim": 8, "sliding_window_pattern": 2}
    )
    assert any("as gemma2" in note.message for note in spec.notes)


def test_a_silent_config_is_tied():
    """transformers wrote tie_word_embeddings only where it was false."""
    silent = {key: value for key, value in BASE.items() if key != "tie_word_embeddings"}
    assert read_config(BASE).parameters - read_config(silent).parameters == 1000 * 64


@pytest.mark.parametrize(
    "missing",
    ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"],
)
def test_a_missing_size_is_refused_with_the_names_it_goes_by(missing):
    """What decides and is not there is asked for, not guessed."""
    with pytest.raises(MalformedModelError, match=missing) as refusal:
        read_config({key: value for key, value in BASE.items() if key != missing})
    assert missing in refusal.value.hint


def test_a_refusal_names_the_architecture_before_what_its_config_lacks():
    """Somebody who sends a hybrid of linear layers reads which one is not modelled."""
    with pytest.raises(MalformedModelError) as refusal:
        read_config(BASE | {"model_type": "linear_next", "head_dim": 0})
    assert refusal.value.detail.startswith("The architecture 'linear_next' is not modelled")


@pytest.mark.parametrize("value", [-1, 0, 10**12, "many", True, [8]])
def test_absurd_sizes_are_refused(value):
    """A stranger's number is bounded before it is believed."""
    with pytest.raises(MalformedModelError):
        read_config(BASE | {"num_attention_heads": value})


WEIRD = (
    None,
    -1,
    0,
    2**40,
    1.5,
    float("nan"),
    "",
    "x",
    [],
    [1],
    [[1, 2]],
    [{}],
    {},
    {"a": 1},
    True,
    [[["global"], 10**9]],
    ["x"] * 5000,
)
KEYS = (
    *BASE, "rope_scaling", "rope_parameters", "layer_types", "sliding_window",
    "sliding_window_pattern", "architectures", "attention_types",
    "block_configs", "num_experts", "moe_layer_freq", "mlp_only_layers", "kv_lora_rank",
    "vision_config", "text_config", "hidden_act",
    "no_rope_layers", "head_dim", "multi_query", "num_nextn_predict_layers", "torch_dtype",
)  # fmt: skip


@pytest.mark.parametrize(
    "model_type",
    [
        "never_seen",
        "llama",
        "gemma3_text",
        "smollm3",
        "gpt_neo",
        "falcon",
        "opt",
        "nemotron-nas",
        "chatglm",
    ],
)
def test_a_broken_config_is_refused_and_breaks_nothing(model_type):
    """Whatever stands under whichever key, a config is read or refused, never an accident."""
    for key in KEYS:
        for value in WEIRD:
            try:
                spec = read_config(BASE | {"model_type": model_type} | {key: value})
            except MalformedModelError:
                continue
            assert spec.parameters > 0
