"""Encoders and encoder-decoders: how long a source is, what cross-attention keeps of it, and
what an encoder's head holds."""

import msgspec
import pytest

from accuracy import training_truth as truth
from fitgauge.engine.training.autograd.passes import activations
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.workload import TrainingWorkload

BATCH, TOKENS = 2, 128
BF16 = TrainingWorkload(precision="bf16", sequence_length=TOKENS, micro_batch_size=BATCH)


def cut(name, **changes):
    return segments(truth.own_model(name, None), msgspec.structs.replace(BF16, **changes))


def saved(segment, name):
    return [tensor for tensor in segment.saved if tensor.name == name]


@pytest.mark.parametrize(
    ("name", "source", "width"),
    [("google-t5/t5-small", TOKENS, 512), ("openai/whisper-tiny", 1500, 384)],
)
def test_cross_attention_keeps_keys_of_the_source(name, source, width):
    decoder, *_ = cut(name).layers
    module = {
        "google-t5/t5-small": "layer.1.EncDecAttention.k",
        "openai/whisper-tiny": "encoder_attn.k_proj",
    }[name]
    (keys,) = saved(decoder, module)
    assert keys.elements == BATCH * source * width


def test_the_encoder_lives_through_the_decoder():
    small = cut("google-t5/t5-small")
    assert small.embedding.forward.end > sum(layer.forward.end for layer in small.layers)


def test_a_classifier_has_no_logits_over_the_vocabulary():
    masked = cut("google-bert/bert-base-uncased").head
    pooled = cut("sentence-transformers/all-MiniLM-L6-v2").head
    assert saved(masked, "logits.log_softmax")
    assert not saved(pooled, "logits.log_softmax")


def test_norms_after_the_sum_keep_the_sum():
    layer, *_ = cut("google-bert/bert-base-uncased").layers
    assert len(saved(layer, "attention.residual")) == len(saved(layer, "mlp.residual")) == 1


def test_gradients_of_an_encoder_decoder_are_those_of_its_parameters():
    spec = truth.own_model("facebook/bart-large-cnn", None)
    passes = activations(spec, BF16)
    assert passes.left == pytest.approx(2 * spec.parameters, rel=0.001)


def test_dropout_keeps_a_byte_a_number():
    layer, *_ = cut("google-bert/bert-base-uncased").layers
    (mask,) = saved(layer, "attention.dropout.mask")
    assert (mask.elements, mask.width) == (BATCH * TOKENS * 768, 1)
