"""A config.json whose quantization names thousands of modules, groups or patterns: refused where
it costs too much, else answered."""

import json

import pytest

from hub_stand_in import Repository, llama_config
from hub_stand_in.formats import safetensors_header
from notes import codes

MIXTURE = llama_config(
    architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", num_experts_per_tok=2,
    moe_intermediate_size=256, head_dim=32,
    num_experts=512, num_hidden_layers=90,
)  # fmt: skip
DENSE = llama_config(num_hidden_layers=32)
COMPRESSED = {"quant_method": "compressed-tensors", "format": "float-quantized"}
WEIGHTS = {"weights": {"num_bits": 8, "type": "float"}}
SIZES = (1_000, 5_000, 20_000)


def a_pattern_for_every_group(size):
    groups = {f"g{number}": {"targets": [f"re:.*q{number}"], **WEIGHTS} for number in range(size)}
    return {**DENSE, "quantization_config": {**COMPRESSED, "config_groups": groups}}


def a_pattern_for_every_setting(size):
    dynamic = {f"+:.*layers.{number}.*": {"bits": 8} for number in range(size)}
    return {
        **DENSE,
        "quantization_config": {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "dynamic": dynamic,
        },
    }


def patterns_that_backtrack(size):
    ignored = [f"re:.*layer{number}.*(a|b)+" for number in range(2 * size)]
    groups = {"g": {"targets": ["Linear"], **WEIGHTS}}
    return {
        **DENSE,
        "quantization_config": {**COMPRESSED, "ignore": ignored, "config_groups": groups},
    }


def names_of_modules(size):
    names = [f"model.layers.{number % 32}.mlp.x{number}" for number in range(4 * size)]
    return {
        **DENSE,
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": names},
    }


def four_thousand_layers(size):
    return {**a_pattern_for_every_group(size // 25), "num_hidden_layers": 4000}


def names_of_experts(size):
    names = [f"model.layers.{number % 90}.mlp.experts.{number}*" for number in range(2 * size)]
    return {
        **MIXTURE,
        "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": names},
    }


def groups_of_every_size(size):
    dynamic = {f"+:q{number}": {"bits": 4, "group_size": number + 1} for number in range(size)}
    return {**DENSE, "quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": dynamic}}


STATUS = {
    a_pattern_for_every_group: (200, 422, 422),
    a_pattern_for_every_setting: (200, 422, 422),
    patterns_that_backtrack: (422, 422, 422),
    names_of_modules: (200, 200, 200),
    four_thousand_layers: (422, 422, 422),
    names_of_experts: (200, 200, 200),
    groups_of_every_size: (422, 422, 422),
}
ATTACKS = [
    (kind, size, status)
    for kind, statuses in STATUS.items()
    for size, status in zip(SIZES, statuses, strict=True)
]


def repository(name, config):
    """Return a repository with this config.json and weights of another model."""
    header, size = safetensors_header({"model.norm.weight": ("BF16", (256,))})
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": header}
    return Repository(name, files, {"model.safetensors": size})


@pytest.mark.parametrize(
    ("kind", "size", "status"),
    ATTACKS,
    ids=[f"{kind.__name__}-{size}" for kind, size, _ in ATTACKS],
)
def test_rules_are_answered_or_refused_by_what_they_cost(hub, http, kind, size, status):
    name = f"liar/{kind.__name__}-{size}"
    hub.repositories[name] = repository(name, kind(size))
    for path in ("/v1/fit", "/v1/training-fit"):
        answer = http.post(path, json={"model": name, "gpu": "H100"})
        assert answer.status_code == status, answer.text
        if status == 422:
            assert answer.json()["type"].endswith("malformed-model")


def test_a_few_patterns_that_backtrack_are_assumed(hub, http):
    name = "liar/few"
    hub.repositories[name] = repository(name, patterns_that_backtrack(5))
    answer = http.post("/v1/fit", json={"model": name, "gpu": "H100"}).json()
    assert ("quantization-unknown", "quantization") in codes(answer["warnings"])
