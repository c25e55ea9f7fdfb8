"""Configs that no bundled model has, against SGLang's own classes and pools."""

import json
from pathlib import Path
from typing import Any

import pytest

from fitgauge.engine.model.families import read_config
from fitgauge.engine.quantization.published import published
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.sglang.pools import radix_pool
from fitgauge.engine.serving.sglang.weights import on_gpu, shard_weights
from fitgauge.engine.weights.rank_bytes import rank_weights
from workloads import workload_of

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "variants.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=[row["case"] for row in ROWS])
def test_bytes_of_a_rank(row: dict[str, Any]) -> None:
    spec = read_config(row["config"])
    scheme = published(spec) or Scheme(name="bf16")
    degrees = {name: row[name] for name in ("tensor_parallel", "expert_parallel")}
    sharded = on_gpu(spec, shard_weights(spec, scheme), "other")
    assert rank_weights(sharded, **degrees).bytes == pytest.approx(row["bytes"], rel=1e-3)


@pytest.mark.parametrize("row", [row for row in ROWS if "cell" in row or "windowed" in row])
def test_a_token_takes_what_the_class_pools(row: dict[str, Any]) -> None:
    """MiniCPM3 keeps latents, EmbeddingGemma 2 has a pool for its windows."""
    workload = workload_of("sglang", (0, 5, 23), tensor_parallel=row["tensor_parallel"])
    pool = radix_pool(read_config(row["config"]), workload, None)
    assert bool(pool.windowed) == row.get("windowed", False)
    assert row.get("cell", pool.cell) == pool.cell
