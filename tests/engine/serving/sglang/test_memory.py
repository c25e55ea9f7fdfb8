"""SGLang's room against posted start-up logs, by arithmetic alone, and against its own source.

A log prints pools to 0.01 GiB; a figure agrees where it rounds to what was printed.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundled_models import spec_of
from fitgauge.catalog.accelerators import load
from fitgauge.engine.accelerator import custom
from fitgauge.engine.quantity import GIB, Bytes
from fitgauge.engine.serving.sglang.mem_fraction import (
    default_batch,
    mem_fraction_static,
    prefill_graphs,
)
from fitgauge.engine.serving.sglang.memory import damped, with_engine_defaults
from fitgauge.engine.serving.sglang.pools import SglangPools, radix_pool
from fitgauge.engine.serving.workload import Workload
from workloads import workload_of

_USUAL: dict[str, Any] = {"version": (0, 5, 23), "gpu_memory_utilization": 0.0}


def workload(**fields: Any) -> Workload:
    return workload_of("sglang", **_USUAL | fields)


def pool_of(model: str, **fields: Any) -> SglangPools:
    return radix_pool(spec_of(model), workload(**fields), None)


@pytest.mark.parametrize(
    ("model", "tokens", "printed", "fields"),
    [
        ("Qwen/Qwen3-32B", 39_078, 9.54, {}),  # 0.5.19, H100
        ("Qwen/Qwen3-0.6B", 15_387, 1.64, {}),  # 0.4.6.post2
        ("Qwen/Qwen2.5-0.5B-Instruct", 2_658_165, 30.42, {}),
        ("Qwen/Qwen3-30B-A3B", 1_669_816, 152.88, {}),
        (
            "moonshotai/Kimi-K2.5",
            2_454_421,
            160.63,
            {"tensor_parallel": 8},
        ),  # MLA: the same on every rank
        ("nvidia/Kimi-K2.6-NVFP4", 209_413, 13.71, {}),
        ("deepseek-ai/DeepSeek-V3.2", 256_000, 18.68, {}),  # 576 x 2 + 132 bytes a layer
        (
            "zai-org/GLM-5",
            3_262_823,
            186.77,
            {"tensor_parallel": 8, "kv_cache_dtype": "F8_E4M3"},
        ),  # 656 + 132 bytes a layer
        (
            "deepseek-ai/DeepSeek-V3.2",
            975_424,
            43.67,
            {"tensor_parallel": 8, "kv_cache_dtype": "F8_E4M3"},
        ),  # 8 x B200
        (
            "google/gemma-4-E4B-it",
            997_846,
            79.94,
            {},
        ),  # 0.8 tokens of window each, pools for layers that share too
        ("nvidia/Qwen3.6-27B-NVFP4", 1_048_576, 16.00, {"tensor_parallel": 4}),
        ("nvidia/Qwen3.6-27B-NVFP4", 228_520, 6.98, {"kv_cache_dtype": "F8_E4M3"}),
        ("Qwen/Qwen3.5-9B", 327_310, 5.00, {"tensor_parallel": 2}),
    ],
)
def test_bytes_of_a_posted_pool(
    model: str, tokens: int, printed: float, fields: dict[str, Any]
) -> None:
    assert tokens * pool_of(model, **fields).cell / GIB == pytest.approx(printed, abs=0.0101)


@pytest.mark.parametrize(
    ("model", "slots", "printed", "fields"),
    [
        ("Qwen/Qwen3.5-9B", 186, 4.48, {"tensor_parallel": 2}),
        ("nvidia/Qwen3.6-27B-NVFP4", 360, 51.76, {}),
    ],
)
def test_bytes_of_posted_state_slots(
    model: str, slots: int, printed: float, fields: dict[str, Any]
) -> None:
    """One slot more than is usable: the padding."""
    assert (slots + 1) * pool_of(model, **fields).slot / GIB == pytest.approx(printed, abs=0.0101)


def test_a_posted_hybrid_from_its_free_memory() -> None:
    """Qwen3.5-9B, two ranks, mem_fraction_static 0.8: 22.93 GB before loading, 14.08 after; 186
    slots, 327310 tokens."""
    pool = pool_of("Qwen/Qwen3.5-9B", tensor_parallel=2)
    available = int((14.08 - 0.2 * 22.93) * GIB)
    assert pool.slots(available) == 186
    assert pool.tokens(available) == pytest.approx(327_310, rel=0.003)


def test_gemma_3_keeps_every_token_of_sliding_layers_and_gpt_oss_does_not() -> None:
    """Source: model_overrides/gemma2_gemma3.py, disable_hybrid_swa_memory."""
    assert pool_of("google/gemma-3-12b-it").windowed == 0
    assert pool_of("openai/gpt-oss-20b").windowed > 0


def test_the_automatic_share_is_sglangs() -> None:
    """H100, 81559 MiB: reserve = max(512 + 1.5 x 8192 + 128 + 2 x 256 + 8 x 58, 10 GiB) = 13904
    MiB, so 0.83."""
    card = custom(81_559 * 2**20, "81559 MiB")
    assert default_batch(card, 8192, (0, 5, 23), spec_of("Qwen/Qwen3-8B")) == (256, 8192)
    assert prefill_graphs(8192) == 8 + 14 + 8 + 8 + 12 + 8
    assert mem_fraction_static(spec_of("Qwen/Qwen3-32B"), workload(), card) == 0.83


def test_sparse_attention_is_cached_in_fp8_on_blackwell_alone() -> None:
    spec, catalog = spec_of("deepseek-ai/DeepSeek-V3.2"), load()
    formats = [
        with_engine_defaults(workload(), spec, catalog.get(card)).kv_cache_dtype
        for card in ("b200-192gb", "h200-sxm-141gb")
    ]
    assert formats == ["F8_E4M3", "auto"]


@pytest.mark.parametrize(
    "version, card, ranks, share",
    [
        ((0, 4, 4), 81_559, 1, 0.88),
        ((0, 4, 4), 81_559, 8, 0.81),
        ((0, 4, 4), 143_771, 8, 0.81),
        ((0, 4, 6), 143_771, 8, (143_771 - 18 * 1024) / 143_771),
        ((0, 4, 6), 97_871, 8, 0.88),
        ((0, 4, 8), 24_564, 1, round((24_564 - 2.9 * 1024) / 24_564, 3)),
        ((0, 4, 10), 81_559, 8, round((81_559 - 13.5 * 1024) / 81_559, 3)),
        ((0, 5), 183_359, 8, round((183_359 - 32 * 1024) / 183_359, 3)),
        ((0, 5, 3), 81_559, 1, round((81_559 - (512 + 12_288 + 128 + 512)) / 81_559, 3)),
    ],
)
def test_older_releases_share_by_ranks_and_then_by_the_card(
    version: tuple[int, ...], card: int, ranks: int, share: float
) -> None:
    work, spec = workload(version=version, tensor_parallel=ranks), spec_of("Qwen/Qwen3-32B")
    assert mem_fraction_static(spec, work, custom(card * 2**20, f"{card} MiB")) == pytest.approx(
        share
    )


@pytest.mark.parametrize(
    "version, card, batch",
    [
        ((0, 4, 4), 23_034, (8, 2048)),
        ((0, 4, 4), 81_559, (160, 8192)),
        ((0, 4, 8), 32_607, (8, 2048)),
        ((0, 5), 183_359, (160, 16384)),
    ],
)
def test_older_releases_batch_by_other_sizes_of_cards(
    version: tuple[int, ...], card: int, batch: tuple[int, int]
) -> None:
    assert (
        default_batch(custom(card * 2**20, f"{card} MiB"), 8192, version, spec_of("Qwen/Qwen3-32B"))
        == batch
    )


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(
        ["Qwen/Qwen3-0.6B", "openai/gpt-oss-20b", "Qwen/Qwen3.5-9B", "deepseek-ai/DeepSeek-V3.2"]
    ),
    pool=st.integers(0, 300 * GIB),
    more=st.integers(0, 50 * GIB),
    context=st.integers(1, 200_000),
    requests=st.integers(1, 200),
)
def test_more_memory_never_holds_less_and_the_least_pool_is_enough(
    model: str, pool: int, more: int, context: int, requests: int
) -> None:
    """A state slot is taken whole, from what tokens had: of three slots more, at most two are
    states."""
    cache = pool_of(model, context_length=context)
    larger = pool + more + 3 * cache.slot
    assert cache.tokens(pool) <= cache.tokens(larger)
    assert cache.requests(pool, context) <= cache.requests(larger, context)
    assert cache.requests(cache.pool_bytes(requests, context), context) >= requests


def test_what_is_taken_before_loading_costs_the_pools_only_their_share() -> None:
    """0.7 of 1 GiB more or less; the rest of it is taken off what is kept back."""
    spread = damped(Bytes(low=2 * GIB, expected=3 * GIB, high=5 * GIB), 0.7)
    assert spread == Bytes(low=int(2.3 * GIB), expected=3 * GIB, high=int(4.4 * GIB))
