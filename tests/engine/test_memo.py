"""What a memo holds changes nothing but how often it is computed."""

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fitgauge.engine.memo import MOST_ENTRIES, Memo, WeakMemo


class Model:
    """Something to derive values from: equal to all others, and not to be hashed."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("value", [1, None])
def test_what_was_computed_is_not_computed_again(value: int | None) -> None:
    memo: Memo[str, int | None] = Memo()
    computed: list[int] = []

    def compute() -> int | None:
        computed.append(1)
        return value

    assert [memo.get_or_compute("key", compute) for _ in range(3)] == [value] * 3
    assert len(computed) == 1


def test_what_could_not_be_computed_is_computed_again() -> None:
    memo: Memo[str, float] = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.get_or_compute("key", lambda: 1 / 0)
    assert memo.get_or_compute("key", lambda: 2.0) == 2.0


def test_a_memo_stays_bounded() -> None:
    memo: Memo[int, int] = Memo()
    for number in range(3 * MOST_ENTRIES):
        memo.get_or_compute(number, lambda: 1)
    assert len(memo) == MOST_ENTRIES


def test_the_entry_used_longest_ago_is_evicted_first() -> None:
    memo: Memo[str, str] = Memo(3)
    for name in "abc":
        memo.put(name, name)
    memo.get("a")
    memo.get_or_compute("b", lambda: "another")
    memo.put("d", "d")
    assert [memo.get(name) for name in "abcd"] == ["a", "b", None, "d"]


def sized() -> Memo[Any, tuple[str, int]]:
    return Memo(1000, lambda key, value: value[1], largest=400)


def test_entries_take_the_size_they_have_and_no_more() -> None:
    memo = sized()
    for number in range(100):
        memo.put(number, ("value", 300))
        assert memo.size == 300 * len(memo) <= 1000
    assert [memo.get(number) is not None for number in (96, 97, 98, 99)] == [
        False,
        True,
        True,
        True,
    ]


def test_of_sized_entries_the_one_used_longest_ago_is_evicted_first() -> None:
    memo = sized()
    for name in "abc":
        memo.put(name, (name, 300))
    memo.get("a")
    memo.put("d", ("d", 400))
    assert [name for name in "abcd" if memo.get(name)] == ["a", "c", "d"]
    assert memo.size == 1000


def test_an_entry_that_is_too_large_is_not_stored_and_ends_the_one_before() -> None:
    memo = sized()
    memo.put("a", ("small", 100))
    memo.put("a", ("large", 401))
    assert memo.get("a") is None
    assert memo.size == 0


def test_an_entry_that_is_replaced_counts_once() -> None:
    memo = sized()
    memo.put("a", ("old", 100))
    memo.put("a", ("new", 150))
    assert memo.get("a") == ("new", 150)
    assert memo.size == 150


def test_threads_share_a_memo() -> None:
    memo: Memo[int, int] = Memo(8)

    def use(start: int) -> bool:
        return all(
            memo.get_or_compute(number % 32, lambda number=number: number % 32) == number % 32
            for number in range(start, start + 20_000)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))
    assert len(memo) <= 8


def test_models_are_told_apart_by_identity() -> None:
    memo: WeakMemo[Model, str, int] = WeakMemo()
    one, other = Model(), Model()
    assert memo.get_or_compute(one, "key", lambda: 1) == 1
    assert memo.get_or_compute(other, "key", lambda: 2) == 2
    assert memo.get(one, "key") == 1
    assert memo.get(one, "another key") is None


def test_what_was_derived_from_a_model_goes_with_it() -> None:
    memo: WeakMemo[Model, str, int] = WeakMemo()
    one, other = Model(), Model()
    for model in (one, other):
        for key in "abc":
            memo.get_or_compute(model, key, lambda: 1)
    del one, model
    gc.collect()
    assert len(memo) == 3
    assert memo.get(other, "a") == 1
