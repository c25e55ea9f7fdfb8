"""Published quantized siblings among the suggestions: found on the Hub, each estimated, and
never waited for."""

import time

import pytest

from hub_stand_in import HubStandIn, gguf_repository, llama_config, safetensors_repository
from live import client, serving

SHAPE = {
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
}  # fmt: skip
FP8, AWQ = {"quant_method": "fp8"}, {"quant_method": "awq", "bits": 4, "group_size": 128}
FULL = {"model": "acme/large", "gpu": "RTX 3060 12GB", "context_length": 4096}
"""12 GB and a model of some 12 GB in 16 bit."""


def quantized(repo_id, how, **options):
    return safetensors_repository(
        repo_id, llama_config(**SHAPE, quantization_config=how), quantizes="acme/large", **options
    )


@pytest.fixture
def hub():
    with HubStandIn(
        safetensors_repository("acme/large", llama_config(**SHAPE)),
        quantized("acme/large-FP8", FP8, downloads=5),
        quantized("other/large-AWQ", AWQ, downloads=9),
        quantized("third/large-AWQ", AWQ, downloads=3),
        quantized("third/large-abliterated-AWQ", AWQ, downloads=99),
    ) as stand_in:
        yield stand_in


@pytest.fixture
def ask(hub):
    """Ask check_fit; keywords change or add fields."""
    with serving(hub, sibling_seconds=5.0) as url, client(url) as http:
        yield lambda **fields: http.post("/v1/fit", json={**FULL, **fields}).json()


def sibling(answer):
    """Return the suggested repositories."""
    return [
        suggestion["request"]["model"]
        for suggestion in answer["suggestions"]
        if "model" in suggestion["request"]
    ]


def test_what_does_not_fit_names_a_published_sibling_that_does_with_its_own_bytes(ask):
    answer = ask()
    assert answer["verdict"] != "fits"
    assert sibling(answer)
    for suggestion in answer["suggestions"]:
        again = ask(**suggestion["request"])
        assert again["verdict"] == suggestion["verdict"]
        assert again["per_gpu"]["required_bytes"]["expected"] == suggestion["required_bytes"]


def test_a_published_sibling_that_fits_stands_in_the_place_of_a_supposed_format(ask):
    assert not [one for one in ask()["suggestions"] if "quantization" in one["request"]]


def test_a_look_costs_one_list_and_two_requests_for_each_of_two_siblings(ask, hub):
    ask()
    assert hub.count("/api/models") == 1 + 1 + 2
    assert hub.count("config.json") == 1 + 2
    assert hub.count("third/") == 0
    before = len(hub.requests)
    ask(concurrency=2)
    ask()
    assert len(hub.requests) == before


def test_a_model_that_fits_costs_two_requests(ask, hub):
    assert ask(gpu="H100")["verdict"] == "fits"
    assert len(hub.requests) == 2


def test_a_requested_format_is_served_from_the_repository_that_holds_it(ask):
    answer = ask(quantization="awq")
    assert "serve other/large-AWQ " in answer["launch"]["command"]
    assert answer["model"]["id"] == "acme/large"
    published = ask(model="other/large-AWQ")
    assert answer["per_gpu"] == published["per_gpu"]
    assert answer["terms"] == published["terms"]


def test_no_repository_of_another_format_is_served(ask):
    launch = ask(quantization="gptq")["launch"]
    assert launch["placeholder"] == "<a GPTQ checkpoint of acme/large>"


@pytest.mark.parametrize(
    "fields", [{"quantization": "bf16"}, {"model": "acme/large-FP8"}, {"model": "13b"}]
)
def test_what_is_quantized_or_only_a_size_has_no_siblings(ask, hub, fields):
    ask(**fields)
    assert "/api/models" not in [request.path for request in hub.requests]


def test_engines_for_gguf_files_are_given_files(hub):
    values = {
        "general.architecture": "llama", "llama.block_count": 32, "llama.embedding_length": 4096,
        "llama.attention.head_count": 32,
        "llama.attention.head_count_kv": 8, "llama.feed_forward_length": 11008,
        "llama.context_length": 4096, "llama.vocab_size": 1000,
    }  # fmt: skip
    files = {"large-Q8_0.gguf": 6_300_000_000, "large-Q4_K_M.gguf": 3_600_000_000}
    hub.add(gguf_repository("acme/large-GGUF", values, files, quantizes="acme/large", downloads=1))
    with serving(hub, sibling_seconds=5.0) as url, client(url) as http:
        asked = {**FULL, "engine": "llama.cpp", "concurrency": 8}
        wide = http.post("/v1/fit", json={**asked, "quantization": "as published"}).json()
        usual = http.post("/v1/fit", json=asked).json()
        file = http.post("/v1/fit", json={**asked, "model": "acme/large-GGUF:Q4_K_M"}).json()
    assert sibling(wide) == ["acme/large-GGUF:Q8_0"]
    assert "-hf acme/large-GGUF:Q4_K_M " in usual["launch"]["command"]
    assert usual["launch"]["command"] == file["launch"]["command"]
    assert usual["per_gpu"] == file["per_gpu"]


def test_an_answer_does_not_wait_for_a_list_that_hangs_and_a_later_one_has_it(hub):
    with serving(hub, sibling_seconds=0.05) as url, client(url) as http:
        http.get("/v1/models/acme/large")
        hub.fault("/api/models", times=1, delay=0.5)
        first = http.post("/v1/fit", json=FULL).json()
        assert sibling(first) == []
        assert first["suggestions"]
        end = time.monotonic() + 10
        while (
            not (later := sibling(http.post("/v1/fit", json=FULL).json()))
            and time.monotonic() < end
        ):
            time.sleep(0.02)
    assert later


@pytest.mark.parametrize(
    "fault",
    [{"status": 503}, {"status": 404}, {"body": b"[]"}, {"body": b"<html>"}, {"drop": True}],
)
def test_a_list_that_fails_costs_nothing_but_the_siblings(hub, fault):
    with serving(hub, sibling_seconds=5.0, attempts=1) as url, client(url) as http:
        http.get("/v1/models/acme/large")
        hub.fault("/api/models", **fault)
        answer = http.post("/v1/fit", json=FULL).json()
        hub.mend()
        assert answer["suggestions"]
        assert sibling(answer) == []
        assert http.get("/v1/models/acme/large-FP8").status_code == 200


def test_a_sibling_that_is_pruned_or_gated_is_not_suggested(hub):
    pruned = llama_config(**{**SHAPE, "num_hidden_layers": 20}, quantization_config=FP8)
    hub.repositories = {"acme/large": hub.repositories["acme/large"]}
    hub.add(safetensors_repository("acme/large-FP8", pruned, quantizes="acme/large"))
    hub.add(quantized("acme/large-AWQ", AWQ, gated=True))
    with serving(hub, sibling_seconds=5.0) as url, client(url) as http:
        assert sibling(http.post("/v1/fit", json=FULL).json()) == []


def test_without_the_hub_the_bundled_snapshot_gives_siblings(hub):
    with serving(hub, offline=True) as url, client(url) as http:
        answer = http.post(
            "/v1/fit", json={"model": "Qwen/Qwen3-32B", "gpu": "A100 40GB", "context_length": 8192}
        ).json()
    assert sibling(answer)[0].startswith("Qwen/Qwen3-32B-")
    assert hub.requests == []
