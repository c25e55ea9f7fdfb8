"""Names of tensors that stay in host memory, as numbers of layers."""

import pytest

from fitgauge.engine.serving.llamacpp.tensor_overrides import expert_layers
from fitgauge.engine.serving.options import ALL_LAYERS


@pytest.mark.parametrize(
    ("overrides", "layers"),
    [
        ([], 0),
        (["exps=CPU"], ALL_LAYERS),
        ([r"\.ffn_.*_exps\.=CPU"], ALL_LAYERS),
        ([r".ffn_(up|down|gate)_exps.=CPU"], ALL_LAYERS),
        ([r"blk\.[0-9]\.ffn_.*_exps=CPU"], 10),
        ([r"blk\.[0-4]\.ffn_.*_exps=CPU", r"blk\.[5-9]\.ffn_.*_exps=CPU"], 10),
        ([r"blk\.[0-4]\.ffn_.*_exps=CPU,blk\.[5-9]\.ffn_.*_exps=CPU"], 10),
        ([rf"blk\.{layer}\.ffn_.*_exps=CPU" for layer in range(30)], 30),
    ],
)
def test_experts_of_the_first_layers_are_a_number(overrides: list[str], layers: int) -> None:
    assert expert_layers(overrides) == layers


@pytest.mark.parametrize(
    "override",
    [
        r"blk\.(2[0-9]|3[0-9])\.ffn_.*_exps=CPU",
        "ffn_up_exps=CPU",
        "ffn=CPU",
        "attn=CPU",
        "output=CPU",
        "exps=CUDA0",
        "exps",
        "(exps=CPU",
        ",".join(["exps=CPU"] * 65),
    ],
)
def test_what_no_number_of_layers_says_is_none(override: str) -> None:
    assert expert_layers([override]) is None
