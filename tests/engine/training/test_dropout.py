"""Dropout as the config states it: which places keep a mask, a byte a number."""

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.training.autograd.layers.traits import TRAITS, traits_of
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.workload import TrainingWorkload

GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 2,
    "n_head": 4, "vocab_size": 512, "n_positions": 256,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
}  # fmt: skip


def masks(config, **settings):
    workload = TrainingWorkload(sequence_length=32, precision="bf16", **settings)
    saved = segments(read_config(config), workload).layers[-1].saved
    return {tensor.name: tensor.bytes for tensor in saved if tensor.name.endswith("dropout.mask")}


def test_a_rate_of_zero_keeps_no_mask_where_the_family_drops():
    rates = dict.fromkeys(("attn_pdrop", "resid_pdrop", "embd_pdrop"), 0.0)
    assert masks(GPT2, attention="eager")
    assert not masks(GPT2 | rates, attention="eager")
    assert masks(GPT2 | rates | {"resid_pdrop": 0.1}) == {
        "attention.dropout.mask": 32 * 64,
        "mlp.dropout.mask": 32 * 64,
    }


def test_a_rate_keeps_a_mask_of_the_scores_where_they_are_written_out():
    dropped = LLAMA | {"attention_dropout": 0.1}
    assert masks(dropped, attention="eager") == {"attention.weights_dropout.mask": 4 * 32 * 32}
    assert not masks(dropped, attention="sdpa")
    assert not masks(LLAMA, attention="eager")


@pytest.mark.parametrize("rate", ["a tenth", None, True])
def test_what_is_no_rate_leaves_the_family_s_own(rate):
    spec = read_config(GPT2 | {"resid_pdrop": rate})
    assert traits_of(spec).drops == TRAITS["gpt2"].drops


def test_rates_are_those_of_the_language_model():
    config = {
        "model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
        "text_config": LLAMA | {"attention_dropout": 0.2},
        "vision_config": {
            "model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 28, "patch_size": 14,
        },
    }  # fmt: skip
    assert read_config(config).dropout == {"weights": 0.2}


@pytest.mark.parametrize(("rate", "kept"), [(0.0, 0), (0.05, 32 * (6 * 64 + 176))])
def test_dropout_before_adapters_keeps_a_mask_of_what_each_of_them_reads(rate, kept):
    settings = {"method": "lora", "lora_dropout": rate}
    assert sum(masks(LLAMA, **settings).values()) == kept
