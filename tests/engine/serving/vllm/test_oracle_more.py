"""vLLM's layout and plan on other cards, in other releases and for other kinds of model, held to
vLLM's own answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from bundled_models import spec_of
from fitgauge.catalog.catalog import bundled
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm import compute_capability as cards
from fitgauge.engine.serving.vllm import weights as layout
from fitgauge.engine.serving.vllm.kv_cache import kernels
from fitgauge.engine.serving.vllm.kv_cache.layout import KvCacheConfig
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.engine.weights.rank_bytes import pipeline_stages, rank_weights
from fitgauge.engine.weights.sharding import ShardedWeights
from kv_layouts import kv_layout
from workloads import workload_of

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "oracle_more.jsonl").read_text().splitlines()
]

BYTES_EXCEPT = {
    (
        "google-bert/bert-base-cased",
        "0.33.0",
    ): "its masked head's output embedding is untied in vLLM's BertForMaskedLM",
    ("FacebookAI/xlm-roberta-base", "0.33.0"): "a masked head, served by transformers' own class",
    (
        "microsoft/Phi-3.5-MoE-instruct",
        "0.33.0",
    ): "served by transformers' own class, which has frequencies and no rotary table",
    (
        "allenai/Olmo-3-7B-Instruct",
        "0.19.0",
    ): "a rotary table of its own for sliding layers (0.014 %)",
    (
        "allenai/Olmo-3-7B-Instruct",
        "0.11.0",
    ): "a rotary table of its own for sliding layers (0.014 %)",
    (
        "openai/gpt-oss-20b",
        "0.11.0",
    ): "without the optional Triton kernels this release takes Marlin's padding on Hopper",
    ("deepseek-ai/DeepSeek-V3.2", "0.11.0"): "read as DeepSeek V3 by this release's transformers",
}
"""Models whose bytes are not ours, in a release, and why."""

TOKENS_EXCEPT = {
    (
        "meta-llama/Llama-4-Scout-17B-16E",
        "0.11.0",
    ): "this release keeps chunked layers whole unless an environment variable allows otherwise"
}
"""Models whose tokens are not ours, in a release, and why."""

STAGES_EXCEPT = {
    "openai/gpt-oss-20b": (
        "over two stages its experts are padded on Hopper as Marlin pads them; the cause is not"
        " known here"
    )
}

NOT_REFUSED = {
    (
        "Qwen/Qwen3-235B-A22B-FP8",
        "fp8",
        8,
    ): "no fp8 expert kernel of 8.0 takes the blocks that 8 ranks cut",
    (
        "XiaomiMiMo/MiMo-V2-Flash",
        "fp8",
        1,
    ): "FlashAttention of 10.0 has no fp8 cache for values narrower than keys",
}
"""Refusals of vLLM that are not derived here yet."""


def _name(row: dict[str, Any]) -> str:
    parts = [
        row["model"],
        row["vllm"],
        ".".join(map(str, row["capability"])),
        f"tp{row['tensor_parallel']}",
        row.get("kv_cache_dtype", ""),
    ]
    return " ".join(
        [*parts, *(key for key in ("pipeline_parallel", "speculative", "max_loras") if key in row)]
    )


def _version(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(map(int, row["vllm"].split(".")))


def _laid(row: dict[str, Any]) -> ShardedWeights:
    spec = spec_of(row["model"])
    sharded = layout.shard_weights(spec, published(spec) or Scheme(name="as published"))
    return cards.padded_for(sharded, spec, tuple(row["capability"]))


def _plan(row: dict[str, Any], stage: range | None = None) -> KvCacheConfig:
    return kv_layout(
        spec_of(row["model"]),
        tensor_parallel=row["tensor_parallel"],
        kv_cache_dtype=row.get("kv_cache_dtype", "auto"),
        max_model_len=row["context_length"],
        max_batched_tokens=row["batched"],
        layers=stage,
        compute_capability=tuple(row["capability"]),
        version=_version(row),
        pipeline_parallel=row.get("pipeline_parallel", 1),
    )


BUILT = [row for row in ROWS if "bytes" in row and (row["model"], row["vllm"]) not in BYTES_EXCEPT]
PLANNED = [
    row
    for row in ROWS
    if "tokens" in row
    and "speculative" not in row
    and (row["model"], row["vllm"]) not in TOKENS_EXCEPT
]
STAGED = [row for row in ROWS if "stages" in row and row["model"] not in STAGES_EXCEPT]
REFUSED = [row for row in ROWS if "refused" in row]


@pytest.mark.parametrize("row", BUILT, ids=_name)
def test_weights_and_buffers_are_those_of_vllm(row):
    spec, sharded, degree = spec_of(row["model"]), _laid(row), row["tensor_parallel"]
    layout.check_parallel(spec, sharded, tensor_parallel=degree, version=_version(row))
    ours = rank_weights(sharded, tensor_parallel=degree).bytes
    ours += layout.buffer_bytes(spec, version=_version(row))
    assert ours == pytest.approx(sum(row["bytes"]), rel=1e-4)


@pytest.mark.parametrize("row", STAGED, ids=_name)
def test_every_pipeline_stage_holds_what_vllm_gives_it(row):
    spec, sharded, degree = spec_of(row["model"]), _laid(row), row["tensor_parallel"]
    stages = pipeline_stages(spec.layers, row["pipeline_parallel"])
    for number, (layers, answer) in enumerate(zip(stages, row["stages"], strict=True)):
        first, last = number == 0, number == len(stages) - 1
        ours = rank_weights(
            sharded, tensor_parallel=degree, layers=layers, first=first, last=last
        ).bytes
        ours += layout.buffer_bytes(spec, layers=layers, version=_version(row))
        assert ours == pytest.approx(sum(answer), rel=1e-4), number


@pytest.mark.parametrize("row", PLANNED, ids=_name)
def test_blocks_and_tokens_of_a_pool_are_those_of_vllm(row):
    whole = _plan(row)
    pool = int(row["pool_gib"] * GIB)
    if "stages" not in row:
        assert whole.blocks(pool) == row["blocks"]
        assert whole.tokens(pool) == pytest.approx(row["tokens"], rel=1e-3)
        assert whole.pool_bytes(1, row["context_length"]) <= pool
        return
    stages = pipeline_stages(spec_of(row["model"]).layers, row["pipeline_parallel"])
    blocks = min(_plan(row, layers).blocks(pool) for layers in stages)
    assert blocks == row["blocks"]
    assert int(blocks / whole.blocks_per_request * row["context_length"]) == pytest.approx(
        row["tokens"], rel=1e-3
    )


def _refusal(row: dict[str, Any]) -> UnsupportedError | None:
    """Return why no attention kernel runs the row's model on a GPU of its compute capability."""
    capability = tuple(row["capability"])
    gpu = next(one for one in bundled().all() if one.compute_capability == capability)
    workload = workload_of(version=_version(row), kv_cache_dtype=row.get("kv_cache_dtype", "auto"))
    spec = spec_of(row["model"])
    return cards.refusal(spec, capability) or kernels.refusal(spec, workload, gpu)


@pytest.mark.parametrize("row", REFUSED, ids=_name)
def test_what_vllm_refuses_is_refused(row):
    spec = spec_of(row["model"])
    degree = row["tensor_parallel"]
    if (row["model"], "fp8", degree) in NOT_REFUSED:
        pytest.xfail(NOT_REFUSED[row["model"], "fp8", degree])
    if _refusal(row) is None:
        with pytest.raises(UnsupportedError):
            layout.check_parallel(spec, _laid(row), tensor_parallel=degree, version=_version(row))


def _has_kernels(row: dict[str, Any]) -> bool:
    """Return whether what vLLM builds on a fake card has kernels on a real one: those of DeepSeek
    V4 are called without the selection of backends, and fail before Hopper (vLLM issue 40851)."""
    return "DeepSeek-V4" not in row["model"] or tuple(row["capability"]) >= (9, 0)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "refused" not in row and _has_kernels(row)], ids=_name
)
def test_what_vllm_runs_is_not_refused(row):
    assert _refusal(row) is None


def test_the_answers_cover_five_cards_and_four_releases():
    assert {tuple(row["capability"]) for row in ROWS} == {(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)}
    assert {row["vllm"] for row in ROWS} == {"0.11.0", "0.19.0", "0.28.0", "0.33.0"}
