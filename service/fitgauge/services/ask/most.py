"""The most that a launch holds, where a question asks for that: the longest context, or requests
at once."""

import re

from msgspec import structs

from fitgauge.services.ask.schemas import Understood
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest

_CONTEXT = re.compile(
    r"\b(?:what|which|how (?:long|much|big|large|many)|max(?:imum|imal)?|longest|largest|biggest)\b"
    r"[^.?,;]{0,24}?\b(?:context|ctx|tokens of context)\b"
    r"|\b(?:max|maximum) (?:model len(?:gth)?|tokens)\b|\bhow many tokens (?:of context|can)\b"
    r"|(?:多长|多大|多少|最长|最大)(?:的)?上下文|上下文.{0,8}(?:多长|多大|多少)",
    re.IGNORECASE,
)
_REQUESTS = re.compile(
    r"\bhow many\b[^.?,;]{0,16}?\b(?:users|requests|people|clients|sessions|streams|chats|agents"
    r"|devs|developers|conversations|sequences|concurrent|parallel|simultaneous)\b"
    r"|\bmax(?:imum)? (?:concurren\w+|number of (?:concurrent )?(?:users|requests))\b"
    r"|\bwhat concurrency\b|\bmax[- _]num[- _]seqs?\b(?!\W*\d)"
    r"|(?:多少|几)(?:个|路)?(?:并发|用户|人)|(?:最大|最高)并发",
    re.IGNORECASE,
)


def most_of(
    text: str, understood: Understood, request: FitRequest, answer: FitAnswer
) -> tuple[FitRequest, str] | None:
    """Return the request for the most that a text asks for, so that the command holds it, and a
    sentence that says it with a space behind it; None where it asks for no such thing, or
    nothing fits."""
    if answer.verdict != "fits" or answer.limits is None:
        return None
    tokens, requests = answer.limits.max_context_length, answer.limits.max_concurrency
    if understood.context_length is None and tokens and _CONTEXT.search(text):
        longest = structs.replace(request, context_length=tokens)
        return longest, f"{tokens:,} tokens of context at most. "
    if understood.concurrency is None and requests and _REQUESTS.search(text):
        most = structs.replace(request, concurrency=requests)
        noun = "request" if requests == 1 else "requests"
        return most, f"{requests:,} {noun} at once at most. "
    return None
