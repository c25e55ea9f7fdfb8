"""Requests a second in a question, and how many of them run at once; what a month costs."""

import re
from collections.abc import Iterable

from fitgauge.services.ask.facts import Fact

_RATE = re.compile(
    r"\b(\d{1,5}(?:\.\d{1,2})?) ?(?:(?:requests?|reqs?|queries|prompts) ?(?:/|per|a|each) ?"
    r"(?:s|sec|second)\b|[rq]ps\b)",
    re.IGNORECASE,
)
_PARTS = {"half": 0.5, "a third": 1 / 3, "a quarter": 0.25}
_AT_ONCE = re.compile(
    r"\b(half|a third|a quarter|(\d{1,2}) ?%) (?:of )?(?:\w+ ){0,4}?"
    r"(?:online|active|at once|at the same time|concurrent\w*|simultaneous\w*|at peak)\b"
    r"|(\d{1,2}) ?% ?(?:同时)?(?:在线|并发)",
    re.IGNORECASE,
)
HOURS_OF_A_MONTH = 730
"""A twelfth of a year."""
MOST_AT_ONCE = 1024
"""Requests at once that are tried."""


def share_at_once(text: str) -> float:
    """Return which share of the people of a text it has at once: "10 % of them online"; 1 where it
    says none."""
    match = _AT_ONCE.search(text)
    if match is None:
        return 1.0
    percent = match[2] or match[3]
    return int(percent) / 100 if percent else _PARTS[match[1].lower()]


def requests_a_second(text: str) -> float | None:
    """Return how many requests a second a text sends; None where it does not say."""
    match = _RATE.search(text)
    return float(match[1]) or None if match is not None else None


_WANTED = re.compile(
    r"(?:\bat least|\bmin(?:imum)?|\bneeds?|\bwants?|\brequires?|\btarget\w*|\breach|"
    r"\b(?:can|could|will|would|to)\s(?:\w+\s)?get|"
    r"\bguarantee\w*|\bpromise\w*|\bsustain|\bmore than|\babove|\bover|[>≥]=?|\bwith|\bgives?|"
    r"至少|不低于|达到)\W*(?:\w+\W+){0,2}$",
    re.IGNORECASE,
)
"""Words before a speed that is asked for; others tell of one that was seen."""

_PER_SECOND = re.compile(
    r"\s*(?:(?:t|tok|tokens?)\s*(?:/|per|a)?\s*(?:s|sec|seconds?)|tps)\b", re.IGNORECASE
)
_OF_ONE = re.compile(
    r"\W*(?:(?:per|a|each|every|for each|for every)\s+)?"
    r"(?:users?|requests?|clients?|persons?|streams?|sessions?|each)\b|\W*每",
    re.IGNORECASE,
)
_OF_ALL = re.compile(r"\W*(?:in )?(?:total|aggregate|overall|altogether|throughput)", re.IGNORECASE)
_LONGEST_BEFORE = 32


def wanted_speeds(text: str, speeds: Iterable[Fact]) -> list[Fact]:
    """Return the speeds of one request that a text asks for."""
    wanted: list[Fact] = []
    for fact in speeds:
        before = text[max(0, fact.start - _LONGEST_BEFORE) : fact.start]
        unit = _PER_SECOND.match(text, fact.end)
        after = unit.end() if unit else fact.end
        if _OF_ALL.match(text, after):
            continue
        if _WANTED.search(before) or _OF_ONE.match(text, after):
            wanted.append(fact)
    return wanted
