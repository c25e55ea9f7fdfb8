"""The roofline of reading a prompt, on numbers a reader can check, and its efficiencies on
published runs."""

import json
from pathlib import Path
from statistics import median, quantiles

import pytest

from bundled_models import spec_of
from fitgauge.catalog import accelerators
from fitgauge.engine.performance.decode import decode_speed
from fitgauge.engine.performance.prefill import (
    COMPUTE_EFFICIENCY,
    EXPERT_EFFICIENCY,
    LINK_EFFICIENCY,
    PCIE_GBPS,
    activated,
    compute_efficiency,
    exchanged_bytes,
    multiplied,
    peak,
    prefill_seconds,
    prompt_flops,
)
from fitgauge.engine.quantization.requested import requested_scheme

ROWS = [
    json.loads(line)
    for line in (
        Path(__file__)
        .parents[3]
        .joinpath("tools", "accuracy", "speeds.jsonl")
        .read_text()
        .splitlines()
    )
]


LLAMA = spec_of("meta-llama/Llama-3.1-8B-Instruct")


def card(name):
    return accelerators.load().get(name)


def ideal(row):
    """(seconds of a request, of its multiplications at the peak, of its exchanges at the link's
    rate) of a published run."""
    one, accelerator = spec_of(row["model"]), card(row["accelerator"])
    answered, ranks = row.get("output_tokens", 0), row["tensor_parallel"]
    tokens = row["input_tokens"] + answered
    flops = prompt_flops(one, tokens) + answered * 2 * one.vocabulary_size * one.hidden_size
    fastest = peak(requested_scheme(row["format"], one), accelerator)
    exchanged = exchanged_bytes(one, tokens, ranks) / (
        (accelerator.interconnect_gbps or PCIE_GBPS) * 1e9
    )
    measured = row["seconds"] if "seconds" in row else answered / row["output_tokens_per_second"]
    return measured, flops / (ranks * fastest * 1e12), exchanged


@pytest.mark.parametrize("efficiency,count", [(COMPUTE_EFFICIENCY, 21), (EXPERT_EFFICIENCY, 7)])
def test_the_compute_efficiency_is_that_of_the_published_single_card_runs(efficiency, count):
    alone = [
        row
        for row in ROWS
        if row["tensor_parallel"] == 1 and compute_efficiency(spec_of(row["model"])) == efficiency
    ]
    shares = [multiplied / measured for measured, multiplied, _ in map(ideal, alone)]
    tenths = quantiles(shares, n=10, method="inclusive")
    assert len(shares) == count
    assert pytest.approx((tenths[0], median(shares), tenths[8]), abs=0.006) == efficiency


def test_the_link_efficiency_is_the_tenth_with_the_least_largest_error_on_several_cards():
    runs = [ideal(row) for row in ROWS if row["tensor_parallel"] > 1]

    def worst(link):
        told = [
            (multiplied / COMPUTE_EFFICIENCY[1] + moved / link) / measured
            for measured, multiplied, moved in runs
        ]
        return max(max(ratio, 1 / ratio) for ratio in told)

    assert len(runs) == 17
    assert min((tenth / 10 for tenth in range(1, 11)), key=worst) == LINK_EFFICIENCY
    assert worst(LINK_EFFICIENCY) < 1.5


def test_every_run_has_a_source():
    assert all(row["source"] for row in ROWS)


def test_a_short_prompt_costs_two_operations_a_weight_and_the_head_once():
    """Llama 3.1 8B: 8,030,261,248 parameters less embedding, head and 65 norms of 4,096; 32
    layers x 4 x 4,096 for the token read."""
    inside = 8_030_261_248 - 2 * 128_256 * 4096 - 65 * 4096
    assert prompt_flops(LLAMA, 1) == 2 * inside + 2 * 128_256 * 4096 + 32 * 4 * 4096


def test_attention_grows_with_half_the_prompt_that_stands_before_a_token():
    short, long = prompt_flops(LLAMA, 1024), prompt_flops(LLAMA, 2048)
    assert long - 2 * short == pytest.approx(2048 * 32 * 4 * 4096 * 512 - 2 * 128_256 * 4096)


def test_a_prompt_takes_its_operations_over_what_the_cards_deliver():
    seconds = prefill_seconds(0.48e15, 0.0, tensor_parallel=1, peak=1000.0, link_gbps=None)
    assert (seconds.low, seconds.expected, seconds.high) == (0.8571, 1.0, 1.3333)


def test_what_tensor_parallelism_exchanges_comes_on_top():
    """Two all-reduces of 4,096 numbers of 16 bit a layer; two ranks send each number
    once."""
    assert exchanged_bytes(LLAMA, 1, 2) == 32 * 2 * 4096 * 2
    alone = prefill_seconds(0.45e15, 0.0, tensor_parallel=2, peak=1000.0, link_gbps=100.0)
    together = prefill_seconds(0.45e15, 7e10, tensor_parallel=2, peak=1000.0, link_gbps=100.0)
    assert together.expected == pytest.approx(alone.expected + 1.0)


def test_reading_the_weights_is_the_least_time():
    assert (
        prefill_seconds(
            1.0, 0.0, tensor_parallel=1, peak=1000.0, link_gbps=None, read_seconds=0.02
        ).expected
        == 0.02
    )


@pytest.mark.parametrize(
    "quantization,name,expected",
    [
        ("bf16", "h100-sxm-80gb", "fp16"),
        ("fp8", "h100-sxm-80gb", "fp8"),
        ("fp8", "a100-80gb-sxm", "fp16"),
        ("w8a8", "a100-80gb-sxm", "int8"),
        ("awq", "h100-sxm-80gb", "fp16"),
        ("nvfp4", "b200-192gb", "fp4"),
        ("nvfp4", "h100-sxm-80gb", "fp16"),
        ("q4_k_m", "h100-sxm-80gb", "fp16"),
    ],
)
def test_narrow_arithmetic_needs_narrow_activations_and_a_card_that_has_it(
    quantization, name, expected
):
    assert multiplied(activated(requested_scheme(quantization, LLAMA)), card(name)) == expected


def test_many_requests_decode_no_faster_than_they_multiply():
    """Reading 10^9 bytes at 1,000 GB/s allows 1,000 x 1,000 x 0.91 tokens a second; a
    millisecond for each at the peak allows 480."""
    assert decode_speed(10**9, 1000, 1000.0, 0.001).expected == 480.0
    assert decode_speed(10**9, 1, 1000.0, 0.001).expected == 480.0
    assert decode_speed(10**9, 1, 1000.0, 1e-6).expected == 910.0
