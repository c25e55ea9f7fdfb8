"""The service over a Hub with a few made-up models."""

import pytest

from hub_stand_in import HubStandIn, gguf_repository, llama_config, safetensors_repository
from live import client, serving

LARGE = llama_config(
    hidden_size=4096,
    intermediate_size=11008,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
)


@pytest.fixture(scope="session")
def stand_in():
    values = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.embedding_length": 256,
        "llama.attention.head_count": 8,
    }
    with HubStandIn(
        safetensors_repository("acme/tiny"),
        safetensors_repository("acme/large", LARGE),
        safetensors_repository("acme/gated", gated=True),
        gguf_repository("acme/adapter", values, {}, files={"adapter_config.json": b"{}"}),
    ) as hub:
        yield hub


@pytest.fixture(scope="session")
def url(stand_in):
    with serving(stand_in) as address:
        yield address


@pytest.fixture
def http(url):
    with client(url) as opened:
        yield opened


@pytest.fixture
def ask(http):
    """Ask check_fit about acme/tiny on one RTX 4090; keywords change or add fields."""

    def asked(**fields):
        return http.post("/v1/fit", json={"model": "acme/tiny", "gpu": "RTX 4090", **fields})

    return asked
