"""The two conditions of starting: within the budget, and beside it."""

import pytest

from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.fit import starting_probability


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
