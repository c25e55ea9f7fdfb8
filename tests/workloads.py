"""Workloads of serving, by what a test is about."""

from typing import Any

from fitgauge.engine.serving.workload import EngineName, Workload

_USUAL = {
    "context_length": 8192,
    "concurrency": 1,
    "kv_cache_dtype": "auto",
    "max_batched_tokens": 8192,
    "max_num_seqs": 256,
}


def workload_of(
    engine: EngineName = "vllm", version: tuple[int, ...] | None = (0, 33), **fields: Any
) -> Workload:
    """Return one request of 8,192 tokens on one GPU, but for what `fields` say."""
    return Workload(engine=engine, engine_version=version, **(_USUAL | fields))
