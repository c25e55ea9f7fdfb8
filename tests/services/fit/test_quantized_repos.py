"""Siblings are looked up once, kept while they are fresh, and looked up anew beside the answers."""

import asyncio

import pytest

from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.weights.rank_bytes import rank_weights
from fitgauge.hub import Hub, HubSettings, Reference
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.fit.quantized_repos import QuantizedRepos, kind_for, wants_quantized_repos
from hub_stand_in import HubStandIn, llama_config, safetensors_repository

FP8 = llama_config(quantization_config={"quant_method": "fp8"})


class Clock:
    """Seconds that pass when they are told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def stand_in():
    with HubStandIn(safetensors_repository("acme/tiny")) as hub:
        yield hub


def asked(stand_in, ask):
    """Return what `ask` gets from siblings over the stand-in, the model they are of, and their
    clock."""

    async def run():
        hub = Hub(
            HubSettings(
                endpoint=stand_in.url,
                offline=False,
                token=False,
                cache_dir=None,
                sibling_seconds=5.0,
                attempts=1,
            )
        )
        await hub.start()
        clock = Clock()
        siblings = QuantizedRepos(ModelResolver(hub, Snapshot()), clock)
        try:
            return await ask(siblings, await hub.resolve(Reference("acme/tiny")), clock)
        finally:
            await siblings.close()
            await hub.close()

    return asyncio.run(run())


async def renewed(siblings, model, before):
    """Return what is known once it is no longer `before`."""
    async with asyncio.timeout(10):
        while (known := siblings.peek(model, "vllm")) is before:
            await asyncio.sleep(0.01)
    return known


def test_what_is_published_later_is_found_when_the_list_is_no_longer_fresh(stand_in):
    async def ask(siblings, model, clock):
        none = await siblings.find(model, "vllm")
        stand_in.add(safetensors_repository("acme/tiny-FP8", FP8, quantizes="acme/tiny"))
        still = await siblings.find(model, "vllm")
        clock.now += 3600
        return none, still, await renewed(siblings, model, none)

    none, still, later = asked(stand_in, ask)
    assert none == still == ()
    assert [one.text for one in later] == ["acme/tiny-FP8"]


def test_what_is_found_again_is_the_very_same(stand_in):
    """Encoded answers that rest on it stay good."""
    stand_in.add(safetensors_repository("acme/tiny-FP8", FP8, quantizes="acme/tiny"))

    async def ask(siblings, model, clock):
        first = await siblings.find(model, "vllm")
        clock.now += 3600
        lists = [request.path for request in stand_in.requests].count("/api/models")
        siblings.peek(model, "vllm")
        async with asyncio.timeout(10):
            while [request.path for request in stand_in.requests].count(
                "/api/models"
            ) == lists or siblings._flights._tasks:
                await asyncio.sleep(0.01)
        return first, siblings.peek(model, "vllm")

    first, again = asked(stand_in, ask)
    assert first
    assert first is again


def test_a_search_that_failed_is_tried_again_before_long(stand_in):
    stand_in.add(safetensors_repository("acme/tiny-FP8", FP8, quantizes="acme/tiny"))

    async def ask(siblings, model, clock):
        stand_in.fault("/api/models", status=503)
        failed = await siblings.find(model, "vllm")
        stand_in.mend()
        clock.now += 31
        return failed, await renewed(siblings, model, failed)

    failed, later = asked(stand_in, ask)
    assert failed == ()
    assert [one.text for one in later] == ["acme/tiny-FP8"]


def test_many_who_ask_at_once_share_one_search(stand_in):
    stand_in.add(safetensors_repository("acme/tiny-FP8", FP8, quantizes="acme/tiny"))

    async def ask(siblings, model, clock):
        return await asyncio.gather(*(siblings.find(model, "vllm") for _ in range(50)))

    found = asked(stand_in, ask)
    assert all(one is found[0] for one in found)
    assert [request.path for request in stand_in.requests].count("/api/models") == 1


def test_of_the_snapshot_the_owners_own_come_first_the_larger_before_the_smaller():
    models = ModelResolver(Hub(HubSettings(offline=True, cache_dir=None, token=False)), Snapshot())
    base = models.bundled("Qwen/Qwen3-32B")
    found = asyncio.run(QuantizedRepos(models).find(base, "vllm"))
    assert [one.text for one in found] == ["Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B-AWQ"]
    assert [one.form for one in found] == ["fp8", "awq"]
    assert asyncio.run(QuantizedRepos(models).find(base, "llama.cpp")) == ()


def test_what_is_quantized_already_has_no_siblings():
    models = ModelResolver(Hub(HubSettings(offline=True, cache_dir=None, token=False)), Snapshot())
    assert wants_quantized_repos(models.bundled("Qwen/Qwen3-32B"), None)
    assert not wants_quantized_repos(models.bundled("Qwen/Qwen3-32B"), "fp8")
    assert not wants_quantized_repos(models.bundled("Qwen/Qwen3-32B-AWQ"), None)


@pytest.mark.parametrize(
    "engine, kind",
    [("vllm", "safetensors"), ("sglang", "safetensors"), ("ollama", "gguf"), ("mlx", "mlx")],
)
def test_an_engine_is_given_files_that_it_loads(engine, kind):
    assert kind_for(engine) == kind


def test_gptq_of_qwen_3_5_leaves_attention_and_shared_experts_in_16_bits(check_fit):
    """Source: quantization_config.dynamic of the repository's config.json."""

    def weights(model, **fields):
        answer = check_fit(model=model, gpu="H100", engine="vllm", **fields)
        return next(term.bytes for term in answer.terms if term.name == "weights")

    base = "Qwen/Qwen3.5-35B-A3B"
    linear = 30 * (2048 * (12288 + 64) + 4096 * 2048)
    attention = 10 * (2048 * (8192 + 2 * 512) + 4096 * 2048)
    shared = 40 * 3 * 2048 * 512
    saved = (linear + attention + shared) * (2 - (4 + (16 + 4) / 128) / 8)
    spec = Snapshot().model(base).spec
    whole = ENGINES["vllm"].shard_weights(spec, requested_scheme("gptq", spec), stored=None)
    difference = weights(f"{base}-GPTQ-Int4") - rank_weights(whole).bytes
    assert difference == pytest.approx(saved, rel=0.02)
    assert weights(base, quantization="gptq") == weights(f"{base}-GPTQ-Int4")


@pytest.mark.parametrize(
    ("model", "smaller"),
    [
        ("deepseek-ai/DeepSeek-V3", ["cognitivecomputations/DeepSeek-V3-AWQ"]),
        ("deepseek-ai/DeepSeek-V3.1", ["nvidia/DeepSeek-V3.1-NVFP4"]),
        ("Qwen/Qwen3-32B-AWQ", []),
        ("Qwen/Qwen3-32B", []),
    ],
)
def test_a_model_released_in_fp8_has_a_bundled_repository_of_4_bits(model, smaller):
    models = ModelResolver(Hub(HubSettings(offline=True, cache_dir=None, token=False)), Snapshot())
    found = QuantizedRepos(models).smaller(models.bundled(model))
    assert [one.text for one in found] == smaller
