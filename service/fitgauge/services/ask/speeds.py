"""Speeds in a question: those that are wanted, not those that were seen; and the speed as the
answer, where the question is what it is."""

import re
from collections.abc import Iterable, Sequence

from fitgauge.engine.quantity import rough
from fitgauge.services.ask.facts import Fact
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.fit.host_speed import rate_in_words

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


def speed_in_words(answer: FitAnswer) -> str:
    """Return how fast the launch of an answer is, as a sentence with a space behind it; empty
    where nothing tells, or the answer says it anyway."""
    if answer.texts is not None:
        texts = answer.texts.texts_per_second
        low, expected, high = map(rough, (texts.low, texts.expected, texts.high))
        return f"About {expected} texts a second ({low} to {high}). "
    if answer.speed is None or answer.speed.targets:
        return ""
    speed = answer.speed
    rate = rate_in_words(speed.tokens_per_second_per_request, speed.load.concurrency)
    return f"{rate[0].upper()}{rate[1:]}. "


def speeds_in_words(answers: Sequence[FitAnswer]) -> str:
    """Return the speeds of one model on several GPUs, the fastest first, as a sentence with a
    space behind it; empty where fewer than two are known."""
    rates = [
        (f"{one.gpu.count} x {one.gpu.name}", one.speed.tokens_per_second_per_request)
        for one in answers
        if one.gpu is not None and one.speed is not None
    ]
    if len(rates) < 2:
        return ""
    rates.sort(key=lambda pair: -pair[1].expected)
    parts = [
        f"{name} about {rough(rate.expected)} ({rough(rate.low)} to {rough(rate.high)})"
        for name, rate in rates
    ]
    stored = answers[0].understood_as["quantization"]
    return f"Tokens a second of one request, weights {stored}: {', '.join(parts)}. "


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
