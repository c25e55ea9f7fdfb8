"""Sizes that no model has, in config.json, in GGUF key-values and in a draft: 422 on every path,
and never "fits"."""

import json

import pytest

from hub_stand_in import Repository, gguf_repository, llama_config, safetensors_repository
from hub_stand_in.formats import safetensors_header

FIELDS = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size",
)  # fmt: skip
MIXTURE = llama_config(
    architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", num_experts_per_tok=2,
    moe_intermediate_size=256, head_dim=32,
    num_experts=8,
)  # fmt: skip
ATTACKS = [
    *[(llama_config(), {field: value}) for field in FIELDS for value in (0, -1, 10**9)],
    *[(MIXTURE, {"num_experts": value}) for value in (-1, 10**9, 2**24, 2**24 + 1)],
    (MIXTURE, {"num_experts": 4096, "num_hidden_layers": 90}),
    (MIXTURE, {"num_experts_per_tok": 10**9}),
    (MIXTURE, {"moe_intermediate_size": 0}),
]
GGUF = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 256,
    "llama.feed_forward_length": 704,
    "llama.attention.head_count": 8, "llama.attention.head_count_kv": 4,
    "llama.context_length": 4096, "llama.vocab_size": 1000,
}  # fmt: skip


@pytest.fixture
def asked(http):
    """Provide the answers of every path that reads a model."""

    def ask(model):
        table = {"models": model, "gpus": "H100"}
        for path in ("/v1/fit", "/v1/training-fit", "/v1/training-plan"):
            yield http.post(path, json={"model": model, "gpu": "H100"})
        yield http.post("/v1/recommend", json={"model": model})
        yield http.post("/v1/compare", json=table)
        yield http.post(
            "/v1/fit", json={"model": "Qwen/Qwen3-8B", "gpu": "H100", "draft_model": model}
        )

    return ask


@pytest.mark.parametrize(
    "number", range(len(ATTACKS)), ids=[str(changes) for _, changes in ATTACKS]
)
def test_a_size_that_no_model_has_is_refused_on_every_path(hub, asked, number):
    config, changes = ATTACKS[number]
    name = f"liar/sizes-{number}"
    header, size = safetensors_header({"model.norm.weight": ("BF16", (256,))})
    files = {"config.json": json.dumps({**config, **changes}).encode(), "model.safetensors": header}
    hub.repositories[name] = Repository(name, files, {"model.safetensors": size})
    for answer in asked(name):
        assert answer.status_code == 422, answer.text
        assert answer.json()["type"].endswith("malformed-model")


@pytest.mark.parametrize(
    "key", [key for key in GGUF if key not in ("general.architecture", "llama.context_length")]
)
@pytest.mark.parametrize("value", [0, 10**9])
def test_a_gguf_file_of_such_sizes_is_refused_on_every_path(hub, asked, key, value):
    name = f"liar/{key}-{value}".replace("_", "-")
    hub.repositories[name] = gguf_repository(
        name, {**GGUF, key: value}, {"model-Q4_K_M.gguf": 2**20}
    )
    for answer in asked(name):
        assert answer.status_code == 422, answer.text
        assert answer.json()["type"].endswith("malformed-model")


def test_a_model_of_ordinary_sizes_is_answered_on_every_path(hub, asked):
    hub.repositories["honest/tiny"] = safetensors_repository(
        "honest/tiny", llama_config(vocab_size=151936)
    )
    *answers, drafted = asked("honest/tiny")
    assert [answer.status_code for answer in answers] == [200] * 5
    assert drafted.status_code < 500
