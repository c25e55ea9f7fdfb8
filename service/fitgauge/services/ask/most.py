"""The most that a launch holds, where a question asks for that: the longest context, requests at
once, or sequences of a micro-batch."""

import re

from msgspec import structs

from fitgauge.services.ask.schemas import Understood
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.smallest import is_here
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest

_CONTEXT = re.compile(
    r"\b(?:what|which|how (?:long|much|big|large|many)|max(?:imum|imal)?|longest|largest|biggest)\b"
    r"[^.?,;]{0,24}?\b(?:context|ctx|tokens of context)\b"
    r"|\b(?:max|maximum)(?: tokens|[ _-]model[ _-]len(?:gth)?)\b"
    r"|\bhow many tokens (?:of context|can)\b"
    r"|\b(?:contexto|contesto) (?:m[aá]ximo|massimo)\b|\bcontexte maxim\w+|\bmaximale\w* kontext"
    r"|最大コンテキスト|최대 ?컨텍스트"
    r"|(?:多长|多大|多少|最长|最大)(?:的)?上下文|上下文.{0,8}(?:多长|多大|多少)",
    re.IGNORECASE,
)
_REQUESTS = re.compile(
    r"\bhow many\b[^.?,;]{0,16}?\b(?:users|requests|people|clients|sessions|streams|chats|agents"
    r"|devs|developers|conversations|sequences|concurrent|parallel|simultaneous)\b"
    r"|\bmax(?:imum)? (?:concurren\w+|number of (?:concurrent )?(?:users|requests))\b"
    r"|\bwhat concurrency\b|\bmax[- _]num[- _]seqs?\b(?!\W*\d)"
    r"|\b(?:cu[aá]nt[ao]s|quant[aoi]s?|combien d[e'’]|wie ?viele)\s*"
    r"(?:\w+ )?(?:usuarios|usu[aá]rios|utenti|utilisateurs|nutzer|benutzer)\b"
    r"|(?:多少|几)(?:个|路)?(?:并发|用户|人)|(?:最大|最高)并发",
    re.IGNORECASE,
)


_BATCH = re.compile(
    r"\b(?:max(?:imum|imal)?|largest|biggest|what|which|how (?:big|large))\b[^.?,;]{0,16}?"
    r"\b(?:micro[- ]?)?batch(?:[- _]?size)?\b(?!\W*\d)"
    r"|最大(?:的)?(?:批|batch)|batch ?size?.{0,6}(?:多大|多少)",
    re.IGNORECASE,
)


_SEQUENCE = re.compile(
    r"\b(?:max(?:imum|imal)?|longest|largest|what|which|how long(?: of)?(?: an?)?)\b[^.?,;]{0,16}?"
    r"\b(?:seq(?:uence)?s?(?:[- _]?len(?:gth)?)?|context(?: length)?|ctx)\b(?!\W*\d)"
    r"|(?:最长|最大|多长)(?:的)?(?:序列|上下文|长度)|序列.{0,6}(?:多长|多大)",
    re.IGNORECASE,
)
SEQUENCE_STEP = 512
"""Tokens between the lengths of sequences that are tried."""
LONGEST_SEQUENCE = 256
"""Steps up to the longest of them."""


def wants_longest_sequence(text: str, understood: Understood) -> bool:
    """Return whether a text about training asks how long sequences may be, and names no length."""
    return understood.sequence_length is None and _SEQUENCE.search(text) is not None


def largest_batch(
    text: str, understood: Understood, request: TrainingRequest, answer: TrainingAnswer
) -> tuple[TrainingRequest, str] | None:
    """Return the request for the largest micro-batch that fits, where a text asks for it, and a
    sentence that says it with a space behind it; None where it asks for no such thing, or
    nothing fits."""
    most = answer.limits.max_micro_batch_size if answer.limits else None
    if answer.verdict != "fits" or not most or understood.micro_batch_size is not None:
        return None
    if _BATCH.search(text) is None:
        return None
    each = f"{most:,} sequence{'s' if most > 1 else ''} in a micro-batch at most. "
    return structs.replace(request, micro_batch_size=most), each


def most_of(
    text: str, understood: Understood, request: FitRequest, answer: FitAnswer
) -> tuple[FitRequest, str] | None:
    """Return the request for the most that a text asks for, so that the command holds it, and a
    sentence that says it with a space behind it; None where it asks for no such thing, or
    nothing fits. Where the usual context does not surely fit, it is the one that is suggested."""
    if answer.verdict != "fits":
        wants = understood.context_length is None and _CONTEXT.search(text) is not None
        return _shorter(request, answer) if wants else None
    if answer.limits is None:
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


def _shorter(request: FitRequest, answer: FitAnswer) -> tuple[FitRequest, str] | None:
    """Return the request with the context that is suggested for the same model on the same GPUs,
    and a sentence that says it; None without."""
    for one in answer.suggestions:
        tokens = one.request.get("context_length")
        is_same = is_here(one) and "model" not in one.request
        if one.verdict == "fits" and tokens and is_same:
            changed = structs.replace(request, **one.request)
            return changed, f"{tokens:,} tokens of context at most. "
    return None
