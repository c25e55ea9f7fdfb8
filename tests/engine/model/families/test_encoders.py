"""Encoders and encoder-decoders against transformers, class by class."""

import pytest

from counted_models import counted_models
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.mixers import Attention, CrossAttention
from fitgauge.engine.model.spec import Part
from notes import codes

MODELS = counted_models("encoders.json", "encoder_decoders.json", "dual_encoders.json")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["config"]["model_type"])
def test_no_encoder_keeps_a_cache(model):
    """Attention is causal in decoders alone, and only they attend to another sequence."""
    for block in read_config(model["config"]).blocks:
        for mixer in block.mixers:
            in_decoder = block.prefix.startswith(("model.decoder", "decoder"))
            assert isinstance(mixer, CrossAttention) <= in_decoder
            assert not isinstance(mixer, Attention) or mixer.causal is in_decoder


def test_whisper_attends_to_1500_frames():
    """Whisper's encoder halves 3,000 frames of a 30 s window; every decoder layer keeps keys and
    values of them."""
    decoder = [
        block
        for block in read_config({"model_type": "whisper"}).blocks
        if block.part is Part.LANGUAGE and block.mixers
    ]
    assert [
        mixer.source_tokens
        for block in decoder
        for mixer in block.mixers
        if isinstance(mixer, CrossAttention)
    ] == [1500]
    assert read_config({"model_type": "whisper"}).max_context_length == 448


def test_t5_attends_to_its_longest_input():
    """The cross-attention of T5 is sized by n_positions, and a note says so."""
    spec = read_config({"model_type": "t5", "n_positions": 1024})
    sources = {
        mixer.source_tokens
        for block in spec.blocks
        for mixer in block.mixers
        if isinstance(mixer, CrossAttention)
    }
    assert sources == {1024}
    assert "1024 tokens" in spec.notes[0].message


def test_an_untied_t5_stores_its_head():
    """Flan-T5 says tie_word_embeddings false: google/flan-t5-base then holds 247,577,856
    numbers, a head beside its embeddings."""
    base = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 768,
        "d_ff": 2048,
        "num_layers": 12,
        "num_heads": 12,
    }
    flan = read_config({**base, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False})
    tied = read_config({**base, "feed_forward_proj": "gated-gelu"})
    assert flan.parameters == 247_577_856
    assert flan.parameters - tied.parameters == 32128 * 768


def test_albert_stores_shared_layers_once():
    """Twelve layers of ALBERT share one set of weights, and a note says so."""
    spec = read_config({"model_type": "albert"})
    assert spec.layers == 1
    assert "12 layers share 1 set" in spec.notes[0].message


def test_modernbert_slides_in_two_layers_of_three():
    """Every third layer of ModernBERT reads the whole text, the others 128 tokens."""
    spec = read_config({"model_type": "modernbert"})
    windows = {
        number: mixer.window
        for block in spec.blocks
        for mixer in block.mixers
        for number in block.layers
    }
    assert [windows[number] for number in range(4)] == [None, 128, 128, None]


@pytest.mark.parametrize(
    "model_type, context", [("bert", 512), ("roberta", 510), ("mpnet", 510), ("modernbert", 8192)]
)
def test_context_leaves_out_rows_no_token_uses(model_type, context):
    """RoBERTa's positions begin behind its padding index, so two rows of its table are never
    used."""
    assert read_config({"model_type": model_type}).max_context_length == context


@pytest.mark.parametrize("model_type", ["bert", "t5", "bart", "whisper", "modernbert"])
def test_an_encoder_without_a_dtype_is_full_precision(model_type):
    """Configs that name no dtype are older than the key, and their weights are F32."""
    assert read_config({"model_type": model_type}).dtype == "F32"


@pytest.mark.parametrize("model_type", ["t5", "t5gemma"])
def test_an_encoder_alone_says_nothing_of_cross_attention(model_type):
    name = "T5EncoderModel" if model_type == "t5" else "T5GemmaEncoderModel"
    both = read_config({"model_type": model_type})
    alone = read_config({"model_type": model_type, "architectures": [name]})
    assert codes(both.notes) == {("source-length-assumed", "context_length")}
    assert alone.notes == ()
