"""A tensor's name is matched once for all layers of a block where no name can tell its layers
apart."""

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.quantization.formats import FP8_TENSOR
from fitgauge.engine.quantization.scheme import Rule, RuleIndex, Scheme, named
from fitgauge.engine.weights import sharding as laid

SPEC = Snapshot().model("Qwen/Qwen3-30B-A3B").spec


def schemes(entries):
    return Scheme(
        name="left out", rules=(Rule(form=None, names=named(entries)), Rule(form=FP8_TENSOR))
    )


def of_every_layer(scheme):
    """Return the format of every tensor in every layer, by the number of the block, its place in
    it and the layer."""
    rules = RuleIndex(scheme.rules)
    return {
        (number, place, layer): form
        for number, block in enumerate(SPEC.blocks)
        for place, tensor in enumerate(block.tensors)
        for other, form, layers in laid.formats(SPEC, block, rules)
        if other is tensor
        for layer in layers
    }


@pytest.mark.parametrize(
    "entries",
    [
        ["lm_head", "self_attn.q_proj"],
        ["model.layers.3", "layers.17.mlp"],
        ["model.layers.1*", "*.o_proj"],
        ["re:.*self_attn.*", "re:mlp\\.gate$"],
        ["re:layers\\.[0-9]\\."],
        ["re:layers\\.\\d\\.mlp"],
        ["re:layers...self_attn"],
        ["re:layers\\.4?\\."],
    ],
)
def test_every_layer_has_the_format_that_matching_its_own_name_gives(entries, monkeypatch):
    scheme = schemes(entries)
    fast = of_every_layer(scheme)
    monkeypatch.setattr(RuleIndex, "layer_class", lambda self, layer: layer)
    assert fast == of_every_layer(scheme)
