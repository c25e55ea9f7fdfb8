"""Requests a second in a question, and how many of them run at once; what a month costs."""

import re

from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.recommend.schemas import RecommendAnswer

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


def month_in_words(answer: RecommendAnswer) -> str:
    """Return what the cheapest of an answer's options costs a month, as a sentence with a space
    behind it; empty where no price is known."""
    priced = [(one.cost.usd_per_hour_low, one.gpu) for one in answer.options if one.cost]
    if not priced:
        return ""
    price, gpu = min(priced, key=lambda pair: pair[0])
    month = f"{price * HOURS_OF_A_MONTH:,.0f} USD a month ({HOURS_OF_A_MONTH} hours)"
    return f"From {month}, on {gpu.count} x {gpu.name}. "


def seconds_of_each(answer: FitAnswer) -> float | None:
    """Return how long each request of an answer's load takes, from its arrival to its last token
    [s]; None where no speed is known."""
    if answer.speed is None or answer.speed.seconds_to_first_token is None:
        return None
    tokens = answer.speed.load.output_tokens
    speed = answer.speed.tokens_per_second_per_request.expected
    return answer.speed.seconds_to_first_token.expected + tokens / speed


def rate_in_words(rate: float, answer: FitAnswer, seconds: float, *, reached: bool) -> str:
    """Return how many requests at once a rate is, as a sentence with a space behind it. seconds:
    of each request; reached: whether the answer's load ends as many a second."""
    assert answer.speed is not None
    load = answer.speed.load
    each = f"each {load.prompt_tokens:,} + {load.output_tokens:,} tokens in {seconds:.1f} s"
    if reached:
        return f"{rate:g} requests a second are up to {load.concurrency} at once, {each}. "
    most = load.concurrency / seconds
    return (
        f"{rate:g} requests a second are too many: about {most:.2g} end a second with"
        f" {load.concurrency} at once, {each}. "
    )
