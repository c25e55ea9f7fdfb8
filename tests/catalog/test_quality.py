"""What quantization costs: every figure has a source and follows from what the source prints."""

import pytest

from fitgauge.catalog.quality import load, recovery
from fitgauge.engine.quantization.requested import canonical_name, scheme_names

ROWS = [row for one in load().values() for row in one.measurements]


def test_every_measurement_has_a_source_and_a_format_that_is_understood():
    for row in ROWS:
        assert row.source
        assert canonical_name(row.quantization) == row.quantization
        assert row.quantization in scheme_names()


def test_shares_follow_from_what_was_printed():
    for row in ROWS:
        if row.quantized is None:
            continue
        better, worse = (
            (row.quantized, row.unquantized)
            if row.measure == "benchmarks"
            else (row.unquantized, row.quantized)
        )
        assert row.recovered_percent == pytest.approx(100 * better / worse, abs=0.006)


def test_nothing_was_measured_twice_in_the_same_place():
    places = [(row.quantization, row.model, row.measured, row.source) for row in ROWS]
    assert len(places) == len(set(places))


def test_fewer_bits_recover_less():
    """llama.cpp's own table, one model: 8 bits lose next to nothing, 2 bits a third."""
    files = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
    shares = [
        next(
            row.recovered_percent
            for row in load()[name].measurements
            if row.model.endswith("Meta-Llama-3-8B")
        )
        for name in files
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 99.9
    assert shares[-1] < 70


def test_a_like_format_is_spoken_for_and_an_unmeasured_one_is_unknown():
    assert recovery("FP8 dynamic", "vllm") == recovery("fp8", "vllm")
    assert recovery("nf4", "vllm") is None
    assert recovery("int4", "mlx") is None
