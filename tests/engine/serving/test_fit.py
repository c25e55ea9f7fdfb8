"""The two conditions of starting: within the budget, and beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitgauge.engine.quantity import GIB, Bytes, Term, total
from fitgauge.engine.serving.doubt import Doubt, doubted
from fitgauge.engine.serving.fit import best_verdict, fit_probability, starting_probability, verdict

RANK = {"does_not_fit": 0, "tight": 1, "fits": 2}


def term(low: int, size: int, high: int) -> Term:
    return Term(
        name="weights", bytes=size, low=low, high=high, basis="assumed", formula="", source=""
    )


def exact(size: int) -> Bytes:
    return Bytes(low=size, expected=size, high=size)


@pytest.mark.parametrize("outside, chance", [(4, 1.0), (5, 1.0), (6, 0.0)])
def test_what_lies_outside_the_budget_must_find_room_beside_it(outside: int, chance: float) -> None:
    assert starting_probability(exact(90), exact(95), exact(outside), exact(100)) == chance


def test_room_beside_the_budget_does_not_help_what_outgrows_it() -> None:
    assert starting_probability(exact(96), exact(95), exact(0), exact(100)) == 0.0


def test_an_interval_that_straddles_the_room_is_neither_sure_nor_hopeless() -> None:
    assert (
        0.05
        < starting_probability(exact(90), exact(95), Bytes(low=1, expected=4, high=7), exact(100))
        < 0.95
    )


@st.composite
def terms(draw: st.DrawFn, most: int) -> Term:
    size = draw(st.integers(0, most))
    low = draw(st.integers(0, size))
    return term(low, size, size + draw(st.integers(0, most)))


@given(
    stages=st.lists(st.tuples(terms(100 * GIB), terms(40 * GIB)), min_size=1, max_size=5),
    share=st.floats(0, 0.2),
    room=st.integers(1, 100 * GIB),
    spread=st.integers(0, 4 * GIB),
)
def test_no_launch_beats_the_best_verdict_of_its_weights(stages, share, room, spread) -> None:
    """Whatever a stage holds besides its weights, and however uncertain that is."""
    budget = Bytes(low=max(0, room - spread), expected=room, high=room + spread)
    needs = [total(held) for held in stages]
    fullest = max(needs, key=lambda need: need.expected)
    required = doubted(fullest, fullest.expected, Doubt(share, 1.0))
    loaded = [(weights,) for weights, _ in stages]
    best = best_verdict(loaded, budget, Doubt(share, 1.0))
    assert RANK[verdict(fit_probability(required, budget))] <= RANK[best]


def test_weights_alone_rule_out_what_they_exceed() -> None:
    def of(size: int) -> tuple[tuple[Term, ...], ...]:
        return ((term(size * GIB, size * GIB, size * GIB),),)

    room, by = exact(72 * GIB), Doubt(share=0.04, ceiling=0.97)
    assert [best_verdict(of(size), room, by) for size in (70, 73, 80)] == [
        "fits",
        "tight",
        "does_not_fit",
    ]
