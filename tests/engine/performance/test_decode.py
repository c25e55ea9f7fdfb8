"""The roofline of decoding, on numbers a reader can check."""

import json
from collections import defaultdict
from math import log
from pathlib import Path
from statistics import mean, median, quantiles
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.engine.performance.decode import (
    EFFICIENCY,
    LAYER_SECONDS,
    NVLINK_GBPS,
    NVLINK_SECONDS,
    PCIE_SECONDS,
    SPREAD,
    decode_speed,
    is_desktop_chip,
    joined,
    step_bytes,
    step_weights,
    waiting_seconds,
)
from fitgauge.engine.performance.prefill import LINK_EFFICIENCY
from fitgauge.engine.quantization.requested import requested_scheme
from fitgauge.engine.quantization.scheme import Scheme
from fitgauge.engine.serving.llamacpp.engine import ENGINE as LLAMA_CPP
from fitgauge.engine.serving.llamacpp.offload import shard_weights as in_llama_cpp
from fitgauge.engine.weights.sharding import shard_weights


def laid(name):
    spec = spec_of(name)
    return spec, shard_weights(spec, Scheme(name="unquantized"))


def read(name, **workload):
    spec, shares = laid(name)
    return step_bytes(
        spec, shares, kv_cache_dtype="auto", **{"concurrency": 1, "context_length": 1, **workload}
    )


def test_one_request_reads_every_weight_but_the_embedding():
    """Llama 3.1 8B: 8,030,261,248 parameters less an embedding of 128,256 x 4,096, and 131,072
    bytes of cache for a token."""
    assert (
        read("meta-llama/Llama-3.1-8B-Instruct") == 2 * (8_030_261_248 - 128_256 * 4096) + 131_072
    )


def test_a_tied_embedding_is_read_as_the_head():
    spec, _ = laid("google/gemma-2-9b-it")
    assert read("google/gemma-2-9b-it") > 2 * spec.parameters


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("google/gemma-4-E2B-it", 2.3e9),
        ("google/gemma-4-E4B-it", 4.5e9),
        ("google/gemma-3n-E4B-it", 4.5e9),
        ("Qwen/Qwen3.8-Flash-Next", 6.7e9),
    ],
)
def test_of_tables_that_layers_look_up_a_step_reads_rows_alone(name, read):
    """Effective parameters as Google states them of Gemma (5.1e9, 8e9 and 8e9 with the tables); of
    Qwen3.8 Flash Next those of one token without 51.2e9 of n-grams."""
    spec, shares = laid(name)
    weights = step_weights(spec, shares, concurrency=1, tensor_parallel=1)
    assert weights == pytest.approx(2 * read, rel=0.04)


def test_a_mixture_reads_the_experts_a_token_visits_and_more_of_them_for_more_requests():
    one, many = read("Qwen/Qwen3-30B-A3B"), read("Qwen/Qwen3-30B-A3B", concurrency=10_000)
    assert one == pytest.approx(
        2 * 3.03e9, rel=0.02
    )  # 3.3e9 active parameters less the embedding of 0.31e9
    assert many > 2 * 29e9


def test_the_cache_is_read_once_for_every_request():
    cache = read("meta-llama/Llama-3.1-8B-Instruct", concurrency=4, context_length=1000) - read(
        "meta-llama/Llama-3.1-8B-Instruct"
    )
    assert cache == 131_072 * 3999


def test_tokens_a_second_are_requests_over_what_a_step_reads_and_waits():
    """10^10 bytes at 0.91 x 1,000 GB/s are 10.99 ms; 4 tokens of them 364 a second, and with 5
    ms of waiting 250.1."""
    speed = decode_speed(10**10, 4, 1000.0)
    assert (speed.low, speed.expected, speed.high) == (273.0, 364.0, 498.68)
    assert decode_speed(10**10, 4, 1000.0, waiting=0.005).expected == pytest.approx(
        4 / (0.01 / 0.91 + 0.005), abs=0.01
    )


@given(
    st.integers(1, 10**12),
    st.integers(1, 1000),
    st.floats(0, 0.1),
    st.floats(0, 0.1),
    st.floats(1, 30000),
    st.floats(1, 2),
)
def test_more_bandwidth_is_never_slower(size, concurrency, multiplying, waiting, bandwidth, times):
    one, more = (
        decode_speed(size, concurrency, gbps, multiplying, waiting)
        for gbps in (bandwidth, bandwidth * times)
    )
    assert one.low <= one.expected <= one.high
    assert one.low <= more.low
    assert one.expected <= more.expected
    assert one.high <= more.high


def test_an_unknown_bandwidth_gives_no_speed():
    assert decode_speed(10**10, 4, None) is None


def test_ranks_wait_for_two_all_reduces_a_layer_and_longer_over_pcie():
    """Llama 3.1 8B, 32 layers of 4,096: one request sends 2 x 32 x 8,192 bytes of which 2 x 7/8
    pass a card's link."""
    spec, _ = laid("meta-llama/Llama-3.1-8B-Instruct")
    cards = accelerators.load()
    assert waiting_seconds(spec, 1, 1, cards.get("l40s-48gb")) == 32 * LAYER_SECONDS
    moved = 2 * 32 * 8192 * 2 * 7 / 8
    nvlink, pcie = cards.get("h100-sxm-80gb"), cards.get("l40s-48gb")
    for card, latency in ((nvlink, NVLINK_SECONDS), (pcie, PCIE_SECONDS)):
        sent = moved / (card.interconnect_gbps * 1e9 * LINK_EFFICIENCY)
        assert waiting_seconds(spec, 1, 8, card) == pytest.approx(
            32 * LAYER_SECONDS + 64 * latency + sent
        )
    assert waiting_seconds(spec, 64, 8, pcie) > waiting_seconds(spec, 1, 8, pcie)


@pytest.mark.parametrize(
    "name,expected",
    [
        ("l40s-48gb", False),
        ("a100-80gb-sxm", True),
        ("mi300x-192gb", True),
        ("rtx-4090-24gb", False),
    ],
)
def test_cards_are_joined_where_the_catalog_says_or_they_are_sold_by_the_node(name, expected):
    assert joined(accelerators.load().get(name)) is expected


def test_a_link_of_unknown_rate_is_the_slowest_known_one():
    known = [
        card.interconnect_gbps
        for card in accelerators.load().all()
        if card.nvlink and card.interconnect_gbps
    ]
    assert min(known) == NVLINK_GBPS


class Run(NamedTuple):
    """A row of decode_speeds.jsonl: seconds of a step as published, and of reading at the whole
    bandwidth."""

    row: dict
    took: float
    reading: float
    layers: int
    ranks: int

    @property
    def stages(self):
        return self.row.get("pipeline_parallel", 1)

    def expected(self, efficiency=EFFICIENCY, layer=LAYER_SECONDS):
        return self.reading / efficiency + self.layers * layer

    @property
    def is_of_community(self):
        return self.row["source"].startswith("AlexsJones/llmfit")

    def a_layer(self):
        return (self.took - self.reading / EFFICIENCY) / self.layers


@pytest.fixture(scope="module")
def published():
    found = []
    for line in (
        Path(__file__)
        .parents[3]
        .joinpath("service", "fitgauge", "catalog", "data", "decode_speeds.jsonl")
        .read_text()
        .splitlines()
    ):
        run = json.loads(line)
        spec, ranks = spec_of(run["model"]), run.get("tensor_parallel", 1)
        lay_out = in_llama_cpp if run["engine"] == LLAMA_CPP.name else shard_weights
        shared = lay_out(spec, requested_scheme(run["format"], spec))
        context = run["context_tokens"]
        size = step_bytes(
            spec,
            shared,
            concurrency=1,
            context_length=context,
            kv_cache_dtype="auto",
            tensor_parallel=ranks,
        )
        bandwidth = accelerators.load().get(run["accelerator"]).bandwidth_gbps
        found.append(
            Run(run, 1 / run["tokens_per_second"], size / (bandwidth * 1e9), spec.layers, ranks)
        )
    return found


@pytest.fixture(scope="module")
def alone(published):
    """Without those of llmfit's community, which are kept aside."""
    return [run for run in published if run.ranks == run.stages == 1 and not run.is_of_community]


def error(runs, efficiency, layer):
    return mean(abs(log(run.expected(efficiency, layer) / run.took)) for run in runs)


def test_efficiency_and_layer_time_are_the_pair_with_the_least_error_on_one_card(alone):
    pairs = [(share / 100, tens * 1e-5) for share in range(60, 101) for tens in range(21)]
    best = min(pairs, key=lambda pair: error(alone, *pair))
    assert len(alone) == 83
    assert best == pytest.approx((EFFICIENCY, LAYER_SECONDS))
    assert error(alone, *best) == pytest.approx(0.16, abs=0.005)
    assert min(error(alone, share / 100, 0.0) for share in range(30, 101)) > 0.4


def test_the_spread_is_that_of_published_runs_of_one_request(alone):
    shares = [run.expected() / run.took for run in alone]
    tenths = quantiles(shares, n=10, method="inclusive")
    assert pytest.approx((tenths[0], median(shares), tenths[8]), abs=0.006) == SPREAD
    for name in ("vllm", "llama.cpp", "sglang"):
        assert median(
            run.expected() / run.took for run in alone if run.row["engine"] == name
        ) == pytest.approx(1.0, abs=0.12)


@pytest.fixture(scope="module")
def in_files(published):
    """Runs of llama.cpp on one GPU, by machine; not of chips for servers."""
    by_machine = defaultdict(list)
    for run in published:
        card = accelerators.load().get(run.row["accelerator"])
        is_alone = run.ranks == run.stages == 1 and is_desktop_chip(card)
        if run.row["engine"] == LLAMA_CPP.name and is_alone:
            by_machine[run.row["accelerator"], run.is_of_community].append(run)
    return by_machine


def best_layer(runs):
    return min(
        (tens * 1e-5 for tens in range(31)), key=lambda layer: error(runs, EFFICIENCY, layer)
    )


def test_llama_cpps_layer_time_is_that_with_the_least_error_also_without_any_machine(in_files):
    runs = [run for of_machine in in_files.values() for run in of_machine]
    assert len(runs) == 165
    assert best_layer(runs) == pytest.approx(LLAMA_CPP.layer_seconds)
    assert error(runs, EFFICIENCY, LLAMA_CPP.layer_seconds) == pytest.approx(0.09, abs=0.005)
    assert error(runs, EFFICIENCY, LAYER_SECONDS) > 0.14
    for of_machine in in_files.values():
        others = [run for run in runs if run not in of_machine]
        assert best_layer(others) == pytest.approx(LLAMA_CPP.layer_seconds, abs=1.1e-5)


def test_on_a_server_chip_a_layer_of_llama_cpp_takes_longer(alone):
    runs = [run for run in alone if run.row["accelerator"] == "a100-80gb-pcie"]
    in_files = [run.a_layer() for run in runs if run.row["engine"] == LLAMA_CPP.name]
    assert len(in_files) == 3
    assert median(in_files) > 2 * LLAMA_CPP.layer_seconds


def test_machines_that_the_efficiency_is_not_fitted_to_are_met(in_files):
    """Of llmfit's community: an AMD, an Apple and three of NVIDIA's, one of them of Turing. The
    layer time is fitted to them as well."""
    shares = {
        name: [run.expected(layer=LLAMA_CPP.layer_seconds) / run.took for run in runs]
        for (name, is_of_community), runs in in_files.items()
        if is_of_community
    }
    assert len(shares) == 5
    assert all(0.8 < median(of_machine) < 1.2 for of_machine in shares.values())
    every = [share for of_machine in shares.values() for share in of_machine]
    assert mean(SPREAD[0] <= share <= SPREAD[2] for share in every) > 0.9


def left(published, alone, link):
    """Return the seconds of one all-reduce [s]: what runs over this link took beside reading and
    what their engine waits a layer on one card."""
    engines = {run.row["engine"] for run in published}
    layer = {
        name: median(run.a_layer() for run in alone if run.row["engine"] == name)
        for name in engines
    }
    return [
        (run.a_layer() - layer[run.row["engine"]]) / 2
        for run in published
        if run.row.get("link") == link
    ]


def test_an_all_reduce_over_pcie_is_what_published_runs_leave_for_it(published, alone):
    seconds = left(published, alone, "pcie")
    tenths = quantiles(seconds, n=10, method="inclusive")
    assert len(seconds) == 17
    assert (tenths[0], median(seconds), tenths[8]) == pytest.approx(
        (50e-6, PCIE_SECONDS, 92e-6), abs=1e-6
    )


def test_an_all_reduce_over_nvlink_lies_within_what_published_runs_leave_for_it(published, alone):
    seconds = left(published, alone, "nvlink")
    tenths = quantiles(seconds, n=10, method="inclusive")
    assert len(seconds) == 10
    assert tenths[0] < NVLINK_SECONDS < tenths[8] == pytest.approx(17e-6, abs=1e-6)


def test_servers_on_several_nvlinked_cards_are_met_within_a_fifth(published):
    """vLLM and SGLang on 2 to 8 cards, to which neither the efficiency nor the layer time was
    fitted."""
    runs = [run for run in published if run.ranks > 1 and run.row["engine"] in ("vllm", "sglang")]
    assert len(runs) == 4
    for run in runs:
        assert (run.expected() + 2 * run.layers * NVLINK_SECONDS) / run.took == pytest.approx(
            1.0, abs=0.2
        )


def test_pipeline_stages_take_their_turns(published):
    """Layers spread over 2 to 8 cards decode as fast as one card does that holds them
    all."""
    spread = [run.expected() / run.took for run in published if run.stages > 1]
    assert len(spread) == 8
    assert median(spread) == pytest.approx(1.0, abs=0.06)
    assert all(0.9 < share < 1.1 for share in spread)


def test_every_run_has_a_source(published):
    assert all(run.row["source"] for run in published)
