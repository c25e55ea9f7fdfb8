"""A size keeps its count, and takes its shape from a named model of today."""

import pytest

from fitgauge.catalog.sizes import nominal_model, parse_size, shapes
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.mixers import Attention
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.model_readings import size_model


def model(text):
    return nominal_model(text, parse_size(text))


def attention(spec):
    return next(mixer for block in spec.blocks for mixer in block.mixers)


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.model)
def test_a_shape_is_the_config_of_its_model(shape):
    named = Snapshot().model(shape.model)
    mixer = attention(named.spec)
    assert isinstance(mixer, Attention)
    assert shape.hidden == named.spec.hidden_size == mixer.query_heads * mixer.head_dim
    assert (shape.layers, shape.heads) == (named.spec.layers, mixer.query_heads)
    assert shape.kv_heads == mixer.kv_heads
    assert shape.vocabulary == named.spec.vocabulary_size
    assert shape.context == named.spec.max_context_length
    assert {block.mlp.intermediate_size for block in named.spec.blocks if block.mlp} == {
        shape.intermediate
    }
    assert shape.parameters == pytest.approx(named.spec.parameters, rel=0.25)


@pytest.mark.parametrize("text", ["7b", "13b", "70b", "0.5B", "125m", "671b", "10m", "1t"])
def test_a_size_keeps_its_nominal_count(text):
    assert model(text).spec.parameters == parse_size(text)


def test_a_size_takes_the_shape_of_the_model_of_this_size():
    spec, named = model("7b").spec, Snapshot().model("Qwen/Qwen2.5-7B").spec
    assert (spec.layers, spec.hidden_size) == (named.layers, named.hidden_size)
    assert attention(spec).kv_heads == attention(named).kv_heads
    assert spec.max_context_length == named.max_context_length
    assert "Qwen2.5-7B" in spec.notes[0].message


def test_a_size_takes_after_no_neighbour_without_grouped_kv_heads():
    assert attention(model("13b").spec).kv_heads == 40
    for near in ("12b", "12.9b", "13.1b"):
        assert attention(model(near).spec).kv_heads == 8


def test_layers_grow_with_the_size():
    """13b is a row of its own and lends nothing to its neighbours."""
    sizes = [f"{size}b" for size in (8, 9, 10, 11, 12, 14, 16, 20, 24, 27, 30, 32)]
    layers = [model(size).spec.layers for size in sizes]
    assert layers == sorted(layers)
    assert len(set(layers)) > 6


@pytest.mark.parametrize("text", ["7", "b", "7bb", "7b model chat", "llama 7b"])
def test_other_texts_are_no_size(text):
    assert parse_size(text) is None


@pytest.mark.parametrize("text", ["0.0168b", "a 0.0168b model", "12345.6789m"])
def test_sizes_may_have_many_digits(text):
    model = size_model(text)
    assert model is not None
    assert model.spec.parameters in (16_800_000, 12_345_678_900)


@pytest.mark.parametrize(
    "text", ["0.000107b", "123456789b", "9" * 400 + "b", "0." + "0" * 190 + "1m"]
)
def test_sizes_out_of_range_are_refused(text):
    with pytest.raises(InvalidRequestError, match="out of range"):
        size_model(text)
