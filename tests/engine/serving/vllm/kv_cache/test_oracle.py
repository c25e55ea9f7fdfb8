"""vLLM's plan of its KV cache, held against vLLM's own planner and against posted logs."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB, largest_where
from fitgauge.engine.serving.vllm.kv_cache.layout import KvCacheConfig
from kv_layouts import HOPPER, kv_layout

DATA = Path(__file__).parents[1] / "data"


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


CONFIGS: dict[str, dict[str, Any]] = {
    row["model"]: row["config"] for row in _rows("kv_configs.jsonl")
}
PLANS: dict[str, list[dict[str, Any]]] = {
    model: [row for row in _rows("kv_plans.jsonl") if row["model"] == model] for model in CONFIGS
}


@functools.cache
def _spec(model: str) -> ModelSpec:
    return read_config(CONFIGS[model])


def _oracle_layout(row: dict[str, Any]) -> KvCacheConfig:
    return kv_layout(
        _spec(row["model"]),
        tensor_parallel=row["tensor_parallel"],
        kv_cache_dtype=row["cache_dtype"],
        max_model_len=row["context_length"],
        max_batched_tokens=row["max_batched_tokens"],
        compute_capability=HOPPER,
    )


def _as_asked(row: dict[str, Any]) -> bool:
    layout, pool, asked = _oracle_layout(row), int(row["pool_gib"] * GIB), row["context_length"]
    groups = sorted([group.layers, group.block, group.page_bytes] for group in layout.groups)
    if groups != sorted(row["groups"]):
        return False
    starts = layout.pool_bytes(1, asked) <= pool
    if "needed_gib" in row:
        needed = round(layout.blocks_per_request * layout.block_bytes / GIB, 2)
        longest = largest_where(asked, lambda tokens: layout.pool_bytes(1, tokens) <= pool)
        return (starts, needed, longest) == (False, row["needed_gib"], row["longest"])
    told = (layout.blocks(pool), layout.tokens(pool), layout.concurrency(pool))
    return starts and told == (row["blocks"], row["tokens"], row["concurrency"])


@pytest.mark.parametrize("model", CONFIGS)
def test_groups_blocks_tokens_and_refusals_are_vllms_own(model):
    assert [row for row in PLANS[model] if not _as_asked(row)] == []


def test_every_answer_of_the_oracle_is_held():
    assert sum(map(len, PLANS.values())) == 426


POSTED = [
    # model, version, tp, cc, dtype, context, batched, pool GiB as printed, tokens, concurrency;
    # source
    ("google/gemma-2-9b-it", (0, 19, 0), 1, HOPPER, "auto", 8192, 8192, 54.12, 168_880, 20.6),
    (
        "meta-llama/Llama-3.1-8B-Instruct",
        (0, 19, 0),
        2,
        HOPPER,
        "auto",
        8192,
        8192,
        63.76,
        1_044_688,
        127.53,
    ),
    (
        "meta-llama/Llama-3.1-8B-Instruct",
        (0, 19, 0),
        1,
        HOPPER,
        "fp8",
        8192,
        8192,
        58.11,
        952_032,
        116.21,
    ),
    (
        "meta-llama/Llama-3.1-8B-Instruct",
        (0, 31, 0),
        1,
        (8, 0),
        "auto",
        131_072,
        2048,
        56.21,
        460_496,
        3.51,
    ),
    ("mistralai/Mistral-7B-v0.1", (0, 14, 1), 1, (8, 9), "auto", 4096, 2048, 15.07, 123_472, 30.03),
    ("Qwen/Qwen3.5-27B", (0, 27, 1), 1, (8, 6), "fp8", 150_000, 2048, 6.5, 198_529, 1.32),
    ("Qwen/Qwen3.5-27B", (0, 28, 0), 1, None, "auto", 262_144, 2048, 19.54, 313_650, 1.2),
]
"""Start-up logs people posted: 0.19.0 from a campaign on one H100, 0.31.0 on an A100, 0.14.1 on
an L4; the last two are of Qwen3.8-27B, whose layers are Qwen3.5-27B's, on an RTX 3090 (its cache
dtype is not printed; of vLLM's only the 8-bit ones give these numbers) and on a ROCm card."""


@pytest.mark.parametrize(
    "model, version, tp, card, dtype, context, batched, pool, tokens, concurrency", POSTED
)
def test_posted_logs_are_met_within_the_rounding_of_the_printed_pool(
    model, version, tp, card, dtype, context, batched, pool, tokens, concurrency
):
    layout = kv_layout(
        _spec(model), tensor_parallel=tp, kv_cache_dtype=dtype, max_model_len=context,
        max_batched_tokens=batched, max_num_seqs=256,
        compute_capability=card, version=version,
    )  # fmt: skip
    low, high = int((pool - 0.005) * GIB), int((pool + 0.005) * GIB)
    assert layout.tokens(low) <= tokens <= layout.tokens(high)
    assert layout.concurrency(low) - 0.005 <= concurrency <= layout.concurrency(high) + 0.005


def test_a_cache_of_a_model_in_float32_takes_four_bytes_unless_it_has_a_format() -> None:
    def bytes_of(kv_cache_dtype: str, *, float32: bool) -> int:
        layout = kv_layout(
            _spec(next(iter(CONFIGS))),
            tensor_parallel=1,
            kv_cache_dtype=kv_cache_dtype,
            max_model_len=2048,
            max_batched_tokens=2048,
            float32=float32,
        )
        return layout.pool_bytes(1, 2048)

    assert bytes_of("auto", float32=True) == 2 * bytes_of("auto", float32=False)
    assert bytes_of("fp8", float32=True) == bytes_of("fp8", float32=False)
