"""How many tokens a question is about: of a request with its prompt and answer, or of a training
sequence."""

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.formats_meant import AGAINST, LISTED
from fitgauge.services.ask.grammar import in_tens
from fitgauge.services.ask.topics import is_about

_MIN_LENGTH = 16
_SMALLEST_BARE_LENGTH = 1024
_LEAST_BUDGET = 10_000_000
"""A number of tokens from which on it is what a model is trained on, not the length of a text."""

_USUAL_SEQUENCES = frozenset(1024 << power for power in range(8))
"""What a bare number in a text about training is the tokens of a sequence from."""

_WINDOWS = frozenset(1024 << power for power in range(4, 11))
"""Contexts from 16k up, as which their thousands are read before users: "room for 128k users"."""

_HOW_MANY = re.compile(r"\bhow many\b|\bnumber of\b|多少|几个", re.IGNORECASE)

_AT_LENGTH = re.compile(
    r"\b(?:users|requests|people|sessions|clients|concurren\w+)\s+(?:at|with|@|of)\W*$",
    re.IGNORECASE,
)
"""What stands before a length behind those who send it: "users at 8k"."""

_CONTEXT_HINT = re.compile(r"context|ctx|token|length|长度|上下文|文本|input|prompt", re.IGNORECASE)
_OF_LENGTHS = re.compile(r"\b(?:context|ctx|tokens?|at|with|for)\b|[-?]", re.IGNORECASE)
"""What may stand next to each of several lengths."""


class Lengths(NamedTuple):
    """Tokens, under the names of the requests' fields."""

    fields: Mapping[str, object]
    """Their values."""
    used: Collection[int]
    """Where the facts begin that say them."""


def sized_requests(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts of a text, with a number in thousands before requests as the tokens of each
    where the text counts them besides, or asks how many: "20 concurrent 32k requests". Other
    thousands of requests are of ten."""
    users = [fact for fact in facts if fact.kind == "users"]
    if users:
        facts = [one._replace(kind="prompt") if one.kind == "prompts" else one for one in facts]
    thousands = {fact.start for fact in users if text[fact.start : fact.end][-1] in "kK"}
    is_size = bool(_HOW_MANY.search(text)) or 0 < len(thousands) < len(users)
    windows = {fact.start for fact in users if fact.value in _WINDOWS}
    return [
        fact
        if fact.kind != "users"
        else fact._replace(kind="tokens")
        if fact.start in thousands
        and (is_size or fact.start in windows or _AT_LENGTH.search(text[: fact.start]))
        else fact._replace(value=fact.value * in_tens(text[fact.start : fact.end]))
        for fact in facts
    ]


def is_budget(fact: Fact) -> bool:
    """Return whether a number of tokens is all that is trained on."""
    return bool(fact.value >= _LEAST_BUDGET)


def lengths_side_by_side(text: str, facts: Sequence[Fact]) -> list[int]:
    """Return the contexts that a text sets side by side, in its order: "8k vs 32k"; empty for
    one. facts: all of the text."""
    named = [
        fact
        for fact in facts
        if fact.kind in ("length", "tokens")
        or (fact.kind == "number" and _is_in_thousands(fact, text, training=False))
    ]
    against = LISTED if is_about(text, "comparison") else AGAINST
    groups = [named[:1]]
    for before, after in itertools.pairwise(named):
        between = _OF_LENGTHS.sub(" ", text[before.end : after.start])
        if not against.fullmatch(between.strip()):
            groups.append([])
        groups[-1].append(after)
    values = list(dict.fromkeys(int(fact.value) for fact in max(groups, key=len)))
    return values if len(values) > 1 else []


def lengths(
    text: str, facts: Sequence[Fact], questions: Collection[int], *, training: bool
) -> Lengths:
    """Return the tokens that a text says: what a setting names, else a prompt with its answer,
    else a number of tokens, else a number in thousands where the text is about lengths.

    facts: all of the text; questions: the indices of the sentences that ask something."""
    prompts, answers = (_of(facts, kind) for kind in ("prompt", "output"))
    field = "sequence_length" if training else "context_length"
    fields: dict[str, object] = {}
    used: list[Fact] = []
    labelled = _of(facts, "length")
    if prompts and answers:
        prompt, answer = _largest(prompts, questions), _largest(answers, questions)
        used += [*prompts, *answers]
        fields |= {"prompt_tokens": prompt, "output_tokens": answer}
        if not labelled:
            return Lengths(fields | {field: prompt + answer}, {fact.start for fact in used})
    bare = [
        fact
        for fact in facts
        if fact.kind == "tokens"
        and fact.value >= _SMALLEST_BARE_LENGTH / 8
        and not (training and is_budget(fact))
    ]
    thousands = [
        fact
        for fact in facts
        if fact.kind == "number" and _is_in_thousands(fact, text, training=training)
    ]
    alone = [] if prompts and answers else prompts
    for group in ([*labelled, *alone], [*bare, *answers], thousands):
        if group:
            used += group
            fields[field] = _largest(group, questions)
            if training and answers and group[-len(answers) :] == answers:
                fields["output_tokens"] = fields[field]
            break
    return Lengths(fields, {fact.start for fact in used})


def _of(facts: Sequence[Fact], kind: str) -> list[Fact]:
    return [fact for fact in facts if fact.kind == kind and fact.value >= _MIN_LENGTH]


def _is_in_thousands(fact: Fact, text: str, *, training: bool) -> bool:
    return bool(
        fact.value >= _SMALLEST_BARE_LENGTH
        and (
            re.search(r"\d\s?[kKmM万w]$", text[fact.start : fact.end])
            or (fact.value % 1024 == 0 and _CONTEXT_HINT.search(text))
            or (training and fact.value in _USUAL_SEQUENCES)
        )
    )


def _largest(group: Sequence[Fact], questions: Collection[int]) -> float:
    """Return the largest number of those in sentences that ask something, else of all."""
    in_questions = [fact for fact in group if fact.sentence in questions]
    return max(float(fact.value) for fact in in_questions or group)
