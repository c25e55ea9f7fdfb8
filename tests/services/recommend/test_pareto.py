"""What is known to fit dominates what it should, and nothing else."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from fitgauge.services.recommend.pareto import ParetoFronts, criteria, dominates

MARKS = st.lists(
    st.builds(
        criteria,
        st.integers(1, 3),
        st.integers(1, 5),
        st.sampled_from([None, 1.0, 2.0, 3.0]),
        st.sampled_from([4.0, 8.0, 16.0]),
        st.sampled_from([None, 0.5, 1.0, 2.0]),
    ),
    max_size=25,
)


def test_what_is_unknown_is_worse_than_any():
    assert dominates(criteria(1, 1, 0.1, 4.0, 1e9), criteria(1, 1, None, 4.0, None))
    assert criteria(1, 1, None, 4.0, None)[4] == inf


@given(MARKS)
def test_a_mark_is_dominated_where_one_of_those_before_it_dominates_it(marks):
    """Asked in the order of their cards and bits, each mark is held against all before it, one
    by one."""
    asked = sorted(marks, key=lambda mark: (mark[0], mark[3]))
    known = ParetoFronts({-mark[3] for mark in asked})
    kept = []
    for mark in asked:
        beaten = known.front(-mark[3]).dominates(mark)
        assert beaten == any(dominates(other, mark) for other in kept)
        if not beaten:
            kept.append(mark)
            known.add(mark)
