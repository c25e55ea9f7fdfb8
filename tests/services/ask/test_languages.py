"""Numbers as they are spoken, in digits."""

import pytest

from fitgauge.services.ask.languages import in_digits


@pytest.mark.parametrize(
    "spoken, written",
    [
        ("llama three point one eight b", "llama 3.1 8b"),
        ("on my thirty sixty", "on my 3060"),
        ("two forty nineties", "2 4090s"),
        ("a seventy nine hundred xtx", "a 7900 xtx"),
        ("qwen three two thirty five b", "qwen 3 235b"),
        ("gpt oss one twenty b", "gpt oss 120b"),
        ("llama two seventy b", "llama 2 70b"),
        ("seventy billion parameters", "70 billion parameters"),
        ("a hundred and twenty eight k", "128k"),
        ("eight thousand tokens", "8000 tokens"),
        ("zero point nine five", "0.95"),
        ("twenty four gigs and two users", "24 gigs and two users"),
    ],
)
def test_spoken_numbers_are_in_digits(spoken, written):
    assert in_digits(spoken) == written


@pytest.mark.parametrize("text", ["two cards", "one of them", "three or four", "at one point"])
def test_small_numbers_that_count_things_stay(text):
    assert in_digits(text) == text
