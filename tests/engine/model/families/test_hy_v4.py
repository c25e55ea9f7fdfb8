"""HY V4 against the parameters that vLLM 0.33's own class makes of its configuration's defaults
(models/hy_v4/nvidia, counted under meta tensors)."""

from collections import Counter

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.mixers import LatentAttention
from fitgauge.engine.model.spec import ModelSpec, Part

CONFIG = {
    "model_type": "hy_v4",
    "architectures": ["HYV4ForCausalLM"],
    "dtype": "bfloat16",
    "layer_types": ["indexed_attention"] * 34,
}
GATES = 34 * 32 * 256 * 2816


def numbers(spec: ModelSpec) -> Counter[str]:
    counts: Counter[str] = Counter()
    for block in spec.blocks:
        if block.part is not Part.MTP:
            for tensor in block.tensors:
                counts[tensor.dtype or spec.dtype] += len(block.layers) * tensor.elements
    return counts


def indexers(spec: ModelSpec) -> int:
    return sum(
        len(block.layers)
        for block in spec.blocks
        for mixer in block.mixers
        if block.part is Part.LANGUAGE and isinstance(mixer, LatentAttention) and mixer.indexer
    )


def test_parameters_are_those_of_vllm() -> None:
    """Routers, sinks, indexers' norms and hyper-connections are in F32; every fourth layer has an
    indexer."""
    spec = read_config(CONFIG)
    assert numbers(spec) == {"BF16": 116_496_453_120 // 2, "F32": 119_900_084 // 4}
    assert indexers(spec) == 10


def test_gates_are_of_numbers_or_of_heads_or_none() -> None:
    whole, by_head, none = (
        numbers(read_config(CONFIG | changes))["BF16"]
        for changes in ({}, {"gating_type": "headwise"}, {"gated_mla": False})
    )
    assert whole - none == GATES
    assert by_head - none == GATES // 256


def test_layers_that_attend_to_all_have_no_indexer() -> None:
    kinds = ["full_attention"] * 17 + ["indexed_attention"] * 17
    assert indexers(read_config(CONFIG | {"layer_types": kinds})) == 5
    assert indexers(read_config({**CONFIG, "layer_types": ["full_attention"] * 34})) == 0


def test_heads_of_prediction_have_no_hyper_connections() -> None:
    spec = read_config(CONFIG | {"num_nextn_predict_layers": 1})
    (head,) = [block for block in spec.blocks if block.part is Part.MTP]
    names = {tensor.name for tensor in head.tensors}
    assert "self_attn.linear_gate.weight" in names
    assert not any("hc_" in name for name in names)
