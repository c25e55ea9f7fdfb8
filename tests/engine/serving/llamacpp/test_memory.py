"""llama.cpp's room against llama.cpp itself, against posted logs, and against reason.

data/llamacpp_buffers.jsonl: what llama.cpp (the copy in llama-cpp-python 0.3.36) reports it
would allocate on each card, asked through common_get_device_memory_data with GGUF files that
hold shapes and no weights (Q8_0; gpt-oss with MXFP4 experts), outputs = n_parallel."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundled_models import spec_of
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.model.model import Stored
from fitgauge.engine.quantity import GIB, MIB
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.serving.engine_facts import Offload
from fitgauge.engine.serving.llamacpp.compute_buffer import compute_term
from fitgauge.engine.serving.llamacpp.kv_cache import (
    LlamaKvCache,
    Windows,
    interleaves,
    padded,
    width_bytes,
)
from fitgauge.engine.serving.llamacpp.offload import (
    cpu_layers,
    gpu_bytes,
    layer_split,
    shard_weights,
)
from fitgauge.engine.weights.sharding import ShardedWeights
from workloads import workload_of

ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data/llamacpp_buffers.jsonl").read_text().splitlines()
]


@cache
def laid_of(model: str) -> ShardedWeights:
    spec = spec_of(model)
    return shard_weights(spec, requested_scheme("q8_0", spec))


def cells_of(answer: dict[str, Any], layers: range) -> LlamaKvCache:
    windows = Windows(answer["n_parallel"], 0, answer["n_ubatch"])
    return LlamaKvCache(
        spec_of(answer["model"]), layers, answer["cache_type"].upper(), windows, answer["context"]
    )


def cards_of(answer: dict[str, Any]) -> tuple[tuple[range, ...], Offload]:
    layers = spec_of(answer["model"]).layers
    on_host = layers + 1 - answer["n_gpu_layers"] if answer["n_gpu_layers"] else 0
    return layer_split(layers, len(answer["cards"]), on_host).ranges, Offload(on_host, 0)


def test_keys_values_and_states_are_llamacpps_to_the_byte_on_every_card() -> None:
    """Dense, mixture, MLA, sliding window, gated delta; f16, q8_0, q4_0; one card, two cards,
    partly on the host."""
    for answer in ANSWERS:
        for layers, card in zip(cards_of(answer)[0], answer["cards"], strict=True):
            size = cells_of(answer, layers).pool_bytes(1, answer["context"])
            assert round(size / MIB, 3) == card["context_mib"], answer


def test_weights_on_every_card_are_llamacpps() -> None:
    """Embeddings stay on the host, tied ones are loaded twice, layers are split as llama.cpp
    splits them."""
    checked = 0
    for answer in ANSWERS:
        ranges, offload = cards_of(answer)
        for number, (layers, card) in enumerate(zip(ranges, answer["cards"], strict=True)):
            last = number == len(ranges) - 1
            size = gpu_bytes(
                laid_of(answer["model"]), layers, first=number == 0, last=last, offload=offload
            )
            assert size / MIB == pytest.approx(card["model_mib"], rel=1e-5), answer
            checked += 1
    assert checked > 100


def test_compute_buffers_of_flash_attention_lie_in_their_interval_and_mostly_on_the_spot() -> None:
    errors = []
    for answer in ANSWERS:
        if not answer["flash_attention"]:
            continue
        for number, (layers, card) in enumerate(
            zip(cards_of(answer)[0], answer["cards"], strict=True)
        ):
            term = compute_term(
                spec_of(answer["model"]),
                cells_of(answer, layers),
                ubatch=answer["n_ubatch"],
                tokens=answer["context"],
                concurrency=1,
                gpu_count=len(answer["cards"]),
                first=number == 0,
                streamed=0,
            )
            size = card["compute_mib"] * MIB
            assert term.low <= size <= term.high, answer
            errors.append(abs(term.bytes / size - 1))
    errors.sort()
    assert errors[len(errors) // 2] < 0.001
    assert errors[-1] < 0.10


POSTED = [
    # ggml-org/llama.cpp b9849: KV 256.00, RS 201.00
    ("Qwen/Qwen3.5-9B", 8192, "F16", Windows(4, 0, 2048), 256 * MIB, 201 * MIB),
    # KV 4352.00, RS 598.50
    ("nvidia/Qwen3.6-27B-NVFP4", 131072, "Q8_0", Windows(4, 0, 512), 4352 * MIB, 598.5 * MIB),
    # non-SWA 65536 cells, SWA 1024 cells
    ("openai/gpt-oss-120b", 65535, "F16", Windows(4, 0, 512), (2304 + 36) * MIB, 0),
    # 48.00 + 48.00, layers that share have none
    ("google/gemma-4-E2B-it", 8192, "F16", Windows(4, 0, 2048), 96 * MIB, 0),
    # ROCm0 KV 24576.00
    ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 262144, "F16", Windows(4, 0, 512), 24576 * MIB, 0),
    # Ollama, 4608 cells
    ("google/gemma-4-26B-A4B", 32768, "F16", Windows(1, 4096, 512, False),
        5 * 134217728 + 25 * 37748736, 0),
    # ollama 0.20.2
    ("google/gemma-4-26B-A4B", 131072, "F16", Windows(1, 4096, 512, False),
        5 * 536870912 + 25 * 37748736, 0),
]  # fmt: skip


@pytest.mark.parametrize(("model", "context", "dtype", "windows", "kv", "states"), POSTED)
def test_caches_that_people_posted(
    model: str, context: int, dtype: str, windows: Windows, kv: int, states: float
) -> None:
    spec = spec_of(model)
    cells = LlamaKvCache(spec, range(spec.layers), dtype, windows, context)
    assert cells.kv_bytes(1, context) == kv
    assert cells.state_bytes(1) == states


def test_posted_split_of_a_70b_over_two_cards() -> None:
    """Apertus-70B on two RX 7900 XTX: 41 of 80 layers and 3280 MiB of KV on the first. Llama 3
    70B has the same cache."""
    layers = layer_split(80, 2).ranges[0]
    assert len(layers) == 41
    cells = LlamaKvCache(
        spec_of("meta-llama/Llama-3.1-70B-Instruct"), layers, "F16", Windows(4, 0, 512), 20480
    )
    assert cells.kv_bytes(1, 20480) == 3280 * MIB


def test_posted_weights_of_a_q8_0_file() -> None:
    """Qwen3-Coder-30B-A3B Q8_0 (b7342): 30658.12 MiB on the card."""
    sharded = laid_of("Qwen/Qwen3-Coder-30B-A3B-Instruct")
    assert gpu_bytes(
        sharded, range(48), first=True, last=True, offload=Offload(0, 0)
    ) / MIB == pytest.approx(30658.12, abs=0.1)


def test_a_gguf_file_at_hand_sets_the_size() -> None:
    spec = spec_of("Qwen/Qwen3-32B")
    scheme = requested_scheme("q4_k_m", spec)
    sharded = shard_weights(spec, scheme, Stored(file_bytes=20 * GIB))
    whole = sum(
        gpu_bytes(sharded, layers, first=False, last=last, offload=Offload(0, 0))
        for layers, last in ((range(64), True),)
    )
    assert sharded.basis == "exact"
    assert 0.9 * 20 * GIB < whole < 20 * GIB


def test_ggml_types_cost_what_their_blocks_do() -> None:
    assert width_bytes(1024, "Q8_0") == 1024 // 32 * 34
    assert width_bytes(1024, "Q4_0") == 1024 // 32 * 18
    assert padded(1) == padded(256) == 256


def test_only_alternating_windows_count() -> None:
    assert interleaves(spec_of("google/gemma-3-12b-it"))
    assert not interleaves(spec_of("Qwen/Qwen3-32B"))


def test_experts_leave_before_layers_do() -> None:
    """Of a mixture the experts of the first layers stay on the host, of a dense model its first
    layers."""
    mixture, dense = laid_of("Qwen/Qwen3-30B-A3B"), laid_of("Qwen/Qwen3-32B")
    workload = workload_of(
        "llama.cpp",
        (1,),
        context_length=4096,
        max_batched_tokens=512,
        max_num_seqs=1,
        cpu_offload_bytes=5 * GIB,
    )
    of_mixture = cpu_layers(spec_of("Qwen/Qwen3-30B-A3B"), mixture, workload)
    offload = cpu_layers(spec_of("Qwen/Qwen3-32B"), dense, workload)
    assert of_mixture.layers == 0 < of_mixture.experts
    assert offload.experts == 0 < offload.layers
    kept = gpu_bytes(dense, range(offload.layers, 64), first=True, last=True, offload=offload)
    assert (
        gpu_bytes(dense, range(64), first=True, last=True, offload=Offload(0, 0)) - kept >= 5 * GIB
    )


@settings(max_examples=40, deadline=None)
@given(
    model=st.sampled_from(
        ["Qwen/Qwen3-0.6B", "google/gemma-3-12b-it", "Qwen/Qwen3.5-9B", "deepseek-ai/DeepSeek-V3"]
    ),
    pool=st.integers(0, 200 * GIB),
    more=st.integers(0, 50 * GIB),
    context=st.integers(1, 200_000),
)
def test_more_memory_never_holds_less_and_what_is_held_fits(
    model: str, pool: int, more: int, context: int
) -> None:
    spec = spec_of(model)
    cells = LlamaKvCache(spec, range(spec.layers), "F16", Windows(4, 0, 512), context)
    assert cells.tokens(pool) <= cells.tokens(pool + more)
    assert cells.requests(pool, context) <= cells.requests(pool + more, context)
    held = cells.requests(pool, context)
    assert held == 0 or cells.pool_bytes(held, context) <= pool
    tokens = cells.tokens(pool)
    assert tokens == 0 or cells.pool_bytes(1, tokens) <= pool


@given(layers=st.integers(1, 200), cards=st.integers(1, 16), start=st.integers(0, 50))
def test_every_layer_is_on_one_card(layers: int, cards: int, start: int) -> None:
    start = min(start, layers)
    ranges = layer_split(layers, cards, start).ranges
    assert len(ranges) == cards
    assert [number for held in ranges for number in held] == list(range(start, layers))


@pytest.mark.parametrize(
    ("model", "version", "posted"),
    [
        (
            "Qwen/Qwen3-Coder-30B-A3B-Instruct",
            (7342,),
            300.75,
        ),  # b7342: 512 x (vocabulary + hidden) x 4 B
        ("Qwen/Qwen2.5-7B-Instruct", (7342,), 304.0),  # 4096 tokens, Vulkan
    ],
)
def test_older_builds_hold_logits_of_the_whole_micro_batch(
    model: str, version: tuple[int, ...], posted: float
) -> None:
    spec, profile = spec_of(model), load_engines().profile("llama.cpp", version)
    cells = LlamaKvCache(spec, range(spec.layers), "F16", Windows(4, 0, 512), 4096)
    term = compute_term(
        spec,
        cells,
        ubatch=512,
        tokens=4096,
        concurrency=1,
        gpu_count=1,
        first=True,
        streamed=0,
        logits=profile.logits_copies,
    )
    assert term.bytes / MIB == pytest.approx(posted, abs=0.01)


@pytest.mark.parametrize(
    ("unified", "cells"),
    [
        # src/llama-kv-cache-iswa.cpp: min(size_base, n_swa * (unified ? n_seq_max : 1) + n_ubatch)
        (True, 1024 * 8 + 512),
        (False, 8 * (1024 + 512)),
    ],
)
def test_a_number_of_slots_gives_each_a_window_of_its_own(unified: bool, cells: int) -> None:
    windows = Windows(8, 0, 512, unified=unified)
    cache = LlamaKvCache(spec_of("google/gemma-3-12b-it"), range(48), "F16", windows, 4096)
    assert cache.window_cells(1024, 8 * 4096, 8) == cells
