"""Drafts and LoRA slots as terms of their own, held to vLLM's own answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from bundled_models import spec_of
from fitgauge.catalog.sizes import nominal_model
from fitgauge.engine.quantity import GIB
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.vllm.lora import (
    RANKS,
    check_lora,
    lora_features,
    lora_term,
    recurrent_features,
)
from fitgauge.engine.serving.vllm.speculative import draft_term
from fitgauge.engine.serving.vllm.weights import shard_weights
from fitgauge.engine.serving.weights import Stage
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from kv_layouts import kv_layout

DATA = Path(__file__).parent / "data" / "oracle_more.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in DATA.read_text().splitlines()]
DRAFTED = [row for row in ROWS if "draft" in row]
ADAPTED = [row for row in ROWS if "lora_bytes" in row]


def _work(row: dict[str, Any], **changes: Any) -> Workload:
    asked = {
        "engine": "vllm",
        "engine_version": (0, 33),
        "context_length": row["context_length"],
        "concurrency": 1,
        "kv_cache_dtype": "auto",
        "tensor_parallel": row["tensor_parallel"],
        "max_batched_tokens": row["batched"],
        "max_num_seqs": 256,
        "lora_slots": row.get("max_loras", 0),
        "lora_rank": row.get("max_lora_rank", 16),
        "speculative_tokens": row.get("speculative", {}).get("num_speculative_tokens", 0),
    }
    return Workload(**asked | changes)


def _plan(row: dict[str, Any], speculative_tokens: int, stage: range | None = None) -> Any:
    return kv_layout(
        spec_of(row["model"]),
        tensor_parallel=row["tensor_parallel"],
        kv_cache_dtype="auto",
        max_model_len=row["context_length"],
        max_batched_tokens=row["batched"],
        layers=stage,
        compute_capability=tuple(row["capability"]),
        speculative_tokens=speculative_tokens,
    )


def _name(row: dict[str, Any]) -> str:
    return (
        f"{row['model']} tp{row['tensor_parallel']}"
        f" {row.get('max_loras', '')}x{row.get('max_lora_rank', '')}"
    )


@pytest.mark.parametrize("row", DRAFTED, ids=_name)
def test_a_draft_adds_the_bytes_that_vllm_loads_for_it(row):
    spec = spec_of(row["model"])
    scheme = shard_weights(spec, published(spec) or Scheme(name="as published")).scheme
    assert draft_term(spec, scheme, _work(row), tuple(row["capability"])).bytes == pytest.approx(
        sum(row["draft"]), rel=1e-4
    )


@pytest.mark.parametrize("row", DRAFTED, ids=_name)
def test_a_draft_takes_the_blocks_that_vllm_gives_it(row):
    pool = int(row["pool_gib"] * GIB)
    with_draft, without = (_plan(row, drafted) for drafted in (1, 0))
    assert with_draft.blocks(pool) == row["blocks"]
    assert with_draft.tokens(pool) == pytest.approx(row["tokens"], rel=1e-3)
    assert with_draft.tokens(pool) < without.tokens(pool)
    assert [group.layers for group in with_draft.groups] == [
        layers for layers, _, _ in row["groups"]
    ]


def test_the_last_stage_alone_keeps_the_layers_of_a_draft():
    row = next(row for row in DRAFTED if row["model"] == "deepseek-ai/DeepSeek-V3")
    layers = spec_of(row["model"]).layers
    stages = (range(30), range(30, layers + 1))
    assert [sum(group.layers for group in _plan(row, 1, stage).groups) for stage in stages] == [
        30,
        layers - 30 + 1,
    ]


@pytest.mark.parametrize("row", ADAPTED, ids=_name)
def test_lora_slots_take_the_bytes_that_vllm_allocates(row):
    term = lora_term(spec_of(row["model"]), _work(row), Stage(range(spec_of(row["model"]).layers)))
    assert (term.name, term.bytes) == ("lora_slots", row["lora_bytes"])


def test_slots_of_the_stages_add_up_to_those_of_the_whole():
    row = ADAPTED[0]
    spec, work = spec_of(row["model"]), _work(row)
    half = spec.layers // 2
    first = lora_term(spec, work, Stage(range(half), last=False)).bytes
    last = lora_term(spec, work, Stage(range(half, spec.layers), first=False)).bytes
    assert first + last == row["lora_bytes"]


def test_a_rank_that_vllm_does_not_know_is_refused_with_those_it_knows():
    with pytest.raises(UnsupportedError) as refused:
        check_lora(spec_of(ADAPTED[0]["model"]), _work(ADAPTED[0], lora_rank=24))
    assert refused.value.parameter == "lora_rank"
    (ranks,) = refused.value.alternatives
    assert ranks["lora_rank"] == (32, 64, 128, 256, 320, 512, 1, 8, 16)
    assert set(ranks["lora_rank"]) == set(RANKS)


def test_a_gated_delta_layer_adapts_its_convolution_and_three_parts_of_its_projection():
    """10,240 channels of kernel 4, and two more A's of 5,120 inputs than in_proj_qkv has
    weights."""
    blocks = [block for block in spec_of("Qwen/Qwen3.5-27B").blocks if recurrent_features(block, 1)]
    assert sum(len(block.layers) for block in blocks) == 48
    assert {recurrent_features(block, 1) for block in blocks} == {10_240 + 4 + 2 * 5_120}
    assert {recurrent_features(block, 2) for block in blocks} == {5_120 + 4 + 2 * 5_120}


def test_a_mixture_has_adapters_of_every_expert():
    """Qwen3-30B-A3B: 128 experts in 48 layers, each with A and B of gate, up and down."""
    spec = spec_of("Qwen/Qwen3-30B-A3B")
    hidden, width, layers, experts = 2048, 768, 48, 128
    stage, attention = Stage(range(layers)), 3 * hidden + 4096 + 2 * 512 + 4096 + hidden
    expected = layers * (experts * 3 * (hidden + width) + attention + hidden + experts) + 2 * (
        spec.vocabulary_size + hidden
    )
    assert lora_features(spec, stage) == expected
    divided = lora_features(spec, stage, tensor_parallel=4, expert_parallel=4)
    assert divided < lora_features(spec, stage, tensor_parallel=4) < expected


def test_slots_of_a_size_are_those_of_the_linears_of_its_shape():
    """Of a count of parameters one column would make adapters larger than the model."""
    size, whole = nominal_model("7b", 7_000_000_000).spec, spec_of("Qwen/Qwen2.5-7B")
    counted, features = (lora_features(spec, Stage(range(spec.layers))) for spec in (size, whole))
    assert counted == features
