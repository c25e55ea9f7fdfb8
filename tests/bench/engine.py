"""The engine alone: one estimate of a model that is laid out, and reading and laying out before
it."""

import statistics
import time

from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.model.families import read_config
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.weight_cache import scheme_of
from fitgauge.services.fit.workload import serving_workload

MODELS = (
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "openai/gpt-oss-20b",
    "google/gemma-2-9b-it",
    "Qwen/Qwen3-30B-A3B-FP8",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3.5-27B",
    "deepseek-ai/DeepSeek-V4-Pro",
)
RUNS, TIMES = 5, 100


def best_microseconds(call, times=TIMES):
    """Return the best of RUNS means over `times` calls [microseconds]."""
    runs = []
    for _ in range(RUNS):
        start = time.process_time()
        for _ in range(times):
            call()
        runs.append((time.process_time() - start) / times * 1e6)
    return min(runs)


def microseconds():
    """Return the lines to print: each model's read, lay-out and estimate, and the median
    estimate."""
    snapshot = Snapshot()
    profile = load_engines().profile("vllm", None)
    card = bundled().find("H100 SXM").accelerator
    estimates = []
    for name in MODELS:
        row = snapshot.get(name)
        spec = read_config(row.config, row.quantization)
        model = Model(id=name, source="snapshot", spec=spec)
        engine, scheme = ENGINES["vllm"], scheme_of(model, None)
        sharded = engine.shard_weights(spec, scheme)
        workload = serving_workload(
            FitRequest(model=name, gpu="H100", concurrency=4), spec, card, 1, profile
        )
        read = best_microseconds(lambda row=row: read_config(row.config, row.quantization), 5)
        lay = best_microseconds(
            lambda engine=engine, spec=spec, scheme=scheme: engine.shard_weights(spec, scheme), 5
        )
        estimate = best_microseconds(
            lambda spec=spec, sharded=sharded, workload=workload: ENGINES["vllm"].estimate(
                spec, sharded, workload, card, profile
            )
        )
        estimates.append(estimate)
        yield (
            f"  {name:<34} read {read:6.0f}  lay out {lay:6.0f}  estimate {estimate:4.0f}"
            " microseconds"
        )
    yield (
        f"one estimate, median            {statistics.median(estimates):8.0f} microseconds (at most"
        " 100)"
    )
