"""Searches over numbers."""

from hypothesis import given
from hypothesis import strategies as st

from fitgauge.engine.quantity import largest_where


@given(
    ceiling=st.integers(1, 10**9), share=st.floats(0, 1.2), near=st.none() | st.floats(-1e12, 1e12)
)
def test_the_largest_number_is_the_same_wherever_the_search_starts(ceiling, share, near):
    most = int(ceiling * share)
    assert largest_where(ceiling, lambda number: number <= most, near) == min(most, ceiling)


def test_a_good_guess_saves_most_of_the_search():
    tried: list[int] = []

    def holds(number: int) -> bool:
        tried.append(number)
        return number <= 123_456_789

    assert largest_where(10**9, holds, 123_456_790) == 123_456_789
    assert len(tried) <= 4
