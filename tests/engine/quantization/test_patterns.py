"""Patterns against `re`, which they agree with, and against what makes `re` slow."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fitgauge.engine.quantization.patterns import MAX_STATES, Patterns, parse, parse_glob

ITEMS = [
    "a",
    "b",
    "\\.",
    ".",
    ".*",
    ".+",
    "a*",
    "b+",
    "a?",
    ".*?",
    "[ab]",
    "[^.]",
    "[a-c]+",
    "\\d+",
    "\\w",
    "a{2}",
    "b{1,2}",
    "a{1,}",
]
GROUPS = ["(a|b)", "(?:ab|b)", "(a|)", "(ab)?", "(a.*b|c)", "|"]


@given(
    pattern=st.lists(st.sampled_from([*ITEMS, *GROUPS]), min_size=1, max_size=7).map("".join),
    anchors=st.tuples(st.sampled_from(["", "^", "^.*"]), st.sampled_from(["", "$", ".*$"])),
    name=st.text("abc.1", min_size=1, max_size=10),
)
@settings(max_examples=500, deadline=None)
def test_a_pattern_matches_what_re_matches(pattern, anchors, name):
    whole = f"{anchors[0]}(?:{pattern}){anchors[1]}"
    try:
        patterns = Patterns([parse(whole)])
    except ValueError:
        assume(False)
        raise
    assert (patterns.first(name) is not None) == (re.search(whole, name) is not None)


def test_the_first_of_many_patterns_that_match_is_named():
    patterns = Patterns([parse("x"), parse("mlp|attn"), parse("attn"), parse_glob("layers.*.attn")])
    assert patterns.first("layers.0.attn.q_proj") == 1
    assert patterns.first("layers.0.norm") is None
    assert Patterns([parse_glob("layers.*.attn")]).first("layers.0.attn.q_proj") == 0
    assert Patterns([parse_glob("layers.*.attn")]).first("layers.0.attn_norm") is None


@pytest.mark.parametrize(
    "pattern",
    ["(a|a)*b", "(a+)+$", "(a|b)+", "((a))*", "(ab){1,1000}", "(a)\\1", "(?=a)b", "(?!a)b",
        "(?<=a)b", "(?i)a", "\\bx", "a**", "a*+", "a++",
     "[[:alpha:]]", "[z-a]", "a{2", "a{999999999}", "(", ")", "[", "*", "\\", "a|*", "x" * 301,
         "(a|b)" * 20, "a?" * 20],
)  # fmt: skip
def test_what_cannot_be_matched_in_linear_time_or_is_broken_is_refused(pattern):
    with pytest.raises(ValueError, match="pattern"):
        parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (".*.*.*x", False),
        (".*a" * 60, True),
        ("a{1,40}!$", True),
        ("a*" * 60 + "x", False),
        ("(a|b)c.*", False),
    ],
)
def test_what_makes_backtracking_slow_is_a_few_states_here(pattern, matched):
    patterns = Patterns([parse(pattern)])
    assert patterns.states <= MAX_STATES
    assert (patterns.first("a" * 200 + "!") is not None) == matched
