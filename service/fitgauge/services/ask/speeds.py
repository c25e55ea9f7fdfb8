"""Speeds in a question: those that are asked for, not those that were seen."""

import re
from collections.abc import Iterable

from fitgauge.services.ask.facts import Fact

_WANTED = re.compile(
    r"(?:\bat least|\bmin(?:imum)?|\bneeds?|\bwants?|\brequires?|\btarget\w*|\breach|"
    r"\b(?:can|could|will|would|to)\s(?:\w+\s)?get|"
    r"\bguarantee\w*|\bpromise\w*|\bsustain|\bmore than|\babove|\bover|[>≥]=?|\bwith|\bgives?|"
    r"至少|不低于|达到)\W*(?:\w+\W+){0,2}$",
    re.IGNORECASE,
)
"""Words before a speed that is asked for; others tell of one that was seen."""

_RATE = re.compile(
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
        unit = _RATE.match(text, fact.end)
        after = unit.end() if unit else fact.end
        if _OF_ALL.match(text, after):
            continue
        if _WANTED.search(before) or _OF_ONE.match(text, after):
            wanted.append(fact)
    return wanted
