"""Parsers of what strangers send, on spoilt seeds: FITGAUGE_FUZZ says how many of each."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import TARGETS

CASES = int(os.environ.get("FITGAUGE_FUZZ", "100"))
PIECES = (
    b"", b"null", b"-1", b"0", b"1e999", b"NaN", b'"x"', b"[]", b"{}", b"true", b"9" * 40, b"\xff",
    b"\0" * 8, b"\xff" * 8, b"[" * 2000, b'{"a":' * 2000,
)  # fmt: skip
"""what stands in the place of a piece of a seed"""


@st.composite
def spoilt(draw, seeds):
    """Return a seed in which some pieces are replaced, or any bytes."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 24))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=8))
        data[start : start + length] = piece
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_raises_its_own_errors_alone(name):
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    for seed in seeds:
        target(seed)

    @settings(
        max_examples=CASES, deadline=None, database=None, derandomize=CASES <= 100,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(spoilt(seeds) | st.binary(max_size=300))
    def holds(data):
        target(data)

    holds()
