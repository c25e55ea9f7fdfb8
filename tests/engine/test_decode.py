"""The roofline of decoding, on numbers a reader can check."""

import json
from pathlib import Path
from statistics import median, quantiles

import pytest

from fitgauge.catalog import accelerators
from fitgauge.catalog.models import Snapshot
from fitgauge.engine import weights
from fitgauge.engine.decode import EFFICIENCY, decode_speed, step_bytes
from fitgauge.engine.families import read_config
from fitgauge.engine.schemes import Scheme
from fitgauge.engine.what_if import what_if


def laid(name):
    row = Snapshot().get(name)
    spec = read_config(row.config, row.quantization)
    return spec, weights.laid_out(spec, Scheme(name="unquantized"))


def read(name, **workload):
    spec, shares = laid(name)
    return step_bytes(spec, shares, cache_dtype="auto", **{"concurrency": 1, "context_length": 1, **workload})


def test_one_request_reads_every_weight_but_the_embedding():
    """Llama 3.1 8B: 8,030,261,248 parameters less an embedding of 128,256 x 4,096, and 131,072 bytes of cache for a token."""
    assert read("meta-llama/Llama-3.1-8B-Instruct") == 2 * (8_030_261_248 - 128_256 * 4096) + 131_072


def test_a_tied_embedding_is_read_as_the_head():
    spec, _ = laid("google/gemma-2-9b-it")
    assert read("google/gemma-2-9b-it") > 2 * spec.parameters


def test_a_mixture_reads_the_experts_a_token_visits_and_more_of_them_for_more_requests():
    one, many = read("Qwen/Qwen3-30B-A3B"), read("Qwen/Qwen3-30B-A3B", concurrency=10_000)
    assert one == pytest.approx(2 * 3.03e9, rel=0.02)  # 3.3e9 active parameters less the embedding of 0.31e9
    assert many > 2 * 29e9


def test_the_cache_is_read_once_for_every_request():
    cache = read("meta-llama/Llama-3.1-8B-Instruct", concurrency=4, context_length=1000) - read("meta-llama/Llama-3.1-8B-Instruct")
    assert cache == 131_072 * 3999


def test_tokens_a_second_are_requests_times_bandwidth_over_bytes():
    speed = decode_speed(10**10, 4, 1000.0)
    assert (speed.low, speed.expected, speed.high) == (192.0, 288.0, 328.0)


def test_an_unknown_bandwidth_gives_no_speed():
    assert decode_speed(10**10, 4, None) is None


def published():
    """(run, share of the bandwidth of one card) of every row of decode_speeds.jsonl."""
    for line in Path(__file__).parents[1].joinpath("accuracy", "decode_speeds.jsonl").read_text().splitlines():
        run = json.loads(line)
        row = Snapshot().get(run["model"])
        spec = read_config(row.config, row.quantization)
        shared = weights.laid_out(spec, what_if(run["format"], spec))
        read_bytes = step_bytes(spec, shared, concurrency=1, context_length=run["context_tokens"], cache_dtype="auto")
        bandwidth = accelerators.load().get(run["accelerator"]).bandwidth_gbps
        yield run, read_bytes * run["tokens_per_second"] / (bandwidth * 1e9)


def test_the_efficiency_is_that_of_published_runs_of_one_request():
    alone = [(run["engine"], share) for run, share in published() if run.get("cards", 1) == 1]
    shares = [share for _, share in alone]
    tenths = quantiles(shares, n=10, method="inclusive")
    assert len(shares) == 49
    assert pytest.approx((tenths[0], median(shares), tenths[8]), abs=0.006) == EFFICIENCY
    by_engine = {name: median(share for engine, share in alone if engine == name) for name in ("vllm", "llama.cpp")}
    assert by_engine["vllm"] == pytest.approx(by_engine["llama.cpp"], abs=0.02)


def test_pipeline_stages_take_their_turns():
    """Layers spread over 2 to 8 cards decode as fast as one card does that holds them all."""
    spread = [share for run, share in published() if run.get("cards", 1) > 1]
    whole = [share for run, share in published() if run.get("cards", 1) == 1 and "70B" in run["model"]]
    assert len(spread) == 8
    assert median(spread) == pytest.approx(median(whole), abs=0.06)
    assert EFFICIENCY[0] < min(spread) < max(spread) < 0.92


def test_every_run_has_a_source():
    assert all(run["source"] for run, _ in published())
