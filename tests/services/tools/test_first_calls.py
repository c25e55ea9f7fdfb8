"""First calls in the manner of real ones are read rightly, and answered in few tokens."""

from statistics import median

import pytest

from first_calls import first_calls, rows

LEAST_RIGHT = 0.95
MEDIAN_TOKENS = 350
MOST_TOKENS = 600


@pytest.fixture(scope="module")
def results(questions):
    return list(first_calls(questions))


def test_first_calls_are_read_rightly(results):
    wrong = {one.question: one.wrong for one in results if one.wrong is not None}
    assert len(wrong) <= (1 - LEAST_RIGHT) * len(results), wrong


def test_answers_take_few_tokens(results):
    assert median(one.tokens for one in results) <= MEDIAN_TOKENS
    assert max(one.tokens for one in results) <= MOST_TOKENS


def test_every_call_is_put_once():
    calls = [(row["tool"], str(row["arguments"])) for row in rows()]
    assert len(set(calls)) == len(calls) == 120
