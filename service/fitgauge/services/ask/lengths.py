"""How many tokens a question is about, of a request with its prompt and answer or of a training
sequence, and how fast they come: speeds that are wanted and requests a second."""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.grammar import in_tens
from fitgauge.services.ask.meant import AGAINST, LISTED
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
_OF_NUMBERS = re.compile(
    r"\b(?:context|ctx|tokens?|users?|requests?|people|at|with|for)\b|[-?]", re.IGNORECASE
)
"""What may stand next to each of several lengths, or numbers of requests."""


_SEQUENCES = re.compile(
    r"\s?(?:parallel |concurrent )?(?:sequences|seqs|streams)\b(?!\s?(?:len|of))", re.IGNORECASE
)
"""What a number of requests counts."""
_OVER_TIME = re.compile(
    r"\W{0,2}(?:\w+\W)?(?:per|an?|each|every|/)\s?(?:min|hour|day|week|month)", re.IGNORECASE
)
"""What follows those who send requests over a time, not at once."""


def sized_requests(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts of a text, with a number in thousands before requests as the tokens of each
    where the text counts them besides, or asks how many: "20 concurrent 32k requests". Other
    thousands of requests are of ten."""
    facts = [
        one._replace(kind="users")
        if one.kind == "number"
        and one.value < _SMALLEST_BARE_LENGTH
        and _SEQUENCES.match(text, one.end)
        else one
        for one in facts
    ]
    facts = [
        one._replace(kind="other")
        if one.kind == "users" and _OVER_TIME.match(text, one.end)
        else one
        for one in facts
    ]
    users = [fact for fact in facts if fact.kind == "users"]
    if users or any(fact.kind == "output" for fact in facts):
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
    return _side_by_side(text, named, against)


def requests_side_by_side(text: str, facts: Sequence[Fact]) -> list[int]:
    """Return likewise how many requests at once: "1 user vs 16 users", "10 or 50 users"."""
    named = [
        fact
        for fact in facts
        if fact.kind == "users" or (fact.kind == "number" and fact.value < _SMALLEST_BARE_LENGTH)
    ]
    last = max((fact.end for fact in named if fact.kind == "users"), default=0)
    return _side_by_side(text, [fact for fact in named if fact.end <= last], AGAINST)


def _side_by_side(text: str, named: Sequence[Fact], against: re.Pattern[str]) -> list[int]:
    """Return the numbers of the longest run of facts with such words between them; empty for one
    alone."""
    groups = [list(named[:1])]
    for before, after in itertools.pairwise(named):
        between = _OF_NUMBERS.sub(" ", text[before.end : after.start])
        if not against.fullmatch(between.strip()):
            groups.append([])
        groups[-1].append(after)
    values = list(dict.fromkeys(int(fact.value) for fact in max(groups, key=len)))
    return values if len(values) > 1 else []


def lengths(
    text: str, facts: Sequence[Fact], questions: Collection[int], *, training: bool
) -> Mapping[str, object]:
    """Return the tokens that a text says: what a setting names, else a prompt with its answer,
    else a number of tokens, else a number in thousands where the text is about lengths; as fields
    of a request.

    facts: all of the text; questions: the indices of the sentences that ask something."""
    prompts, answers = (_of(facts, kind) for kind in ("prompt", "output"))
    field = "sequence_length" if training else "context_length"
    facts = lengths_asked_about(text, facts, questions, training)
    fields: dict[str, object] = {}
    labelled = _of(facts, "length")
    if prompts and answers:
        prompt, answer = _largest(prompts, questions), _largest(answers, questions)
        fields |= {"prompt_tokens": prompt, "output_tokens": answer}
        if not labelled:
            return fields | {field: prompt + answer}
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
            fields[field] = _largest(group, questions)
            if training and answers and group[-len(answers) :] == answers:
                fields["output_tokens"] = fields[field]
            break
    return fields


def lengths_asked_about(
    text: str, facts: Sequence[Fact], questions: Collection[int], training: bool
) -> Sequence[Fact]:
    """Return the facts without lengths outside of questions where a question says another one: "I
    have 8k. Would it hold 64k?"."""

    def is_length(fact: Fact) -> bool:
        return fact.kind in ("length", "tokens") or (
            fact.kind == "number" and _is_in_thousands(fact, text, training=training)
        )

    lengths = [fact for fact in facts if is_length(fact) and not is_budget(fact)]
    if not any(fact.sentence in questions for fact in lengths):
        return facts
    return [fact for fact in facts if fact not in lengths or fact.sentence in questions]


def _of(facts: Sequence[Fact], kind: str) -> list[Fact]:
    return [fact for fact in facts if fact.kind == kind and fact.value >= _MIN_LENGTH]


_TEXTS = re.compile(
    r"\b(?P<number>\d{1,9}(?:\.\d{1,3})?) ?(?P<unit>k|m|mio|thousand|million|万)? ?"
    r"(?:\w+ )?(?:docs?|documents?|passages|texts|chunks|sentences|articles|abstracts|文档)\b",
    re.IGNORECASE,
)
_AROUND = 24
"""Characters behind a number that say what it counts."""
_LEAST_TEXTS = 100_000
_UNITS = {"k": 1e3, "thousand": 1e3, "万": 1e4}


def texts_to_read(text: str) -> float | None:
    """Return how many texts there are to embed or to rank; None where a text does not say. A few
    thousand are the tokens of each: "8k chunks"."""
    match = _TEXTS.search(text)
    if match is None:
        return None
    unit = (match["unit"] or "").lower()
    number = float(match["number"]) * (_UNITS.get(unit, 1e6) if unit else 1)
    return number if number >= _LEAST_TEXTS else None


def _is_in_thousands(fact: Fact, text: str, *, training: bool) -> bool:
    return bool(
        fact.value >= _SMALLEST_BARE_LENGTH
        and texts_to_read(text[fact.start : fact.end + _AROUND]) is None
        and (
            re.search(r"\d\s?[kKmM万w]$", text[fact.start : fact.end])
            or (fact.value % 1024 == 0 and _CONTEXT_HINT.search(text))
            or fact.value in _WINDOWS
            or (training and fact.value in _USUAL_SEQUENCES)
        )
    )


def _largest(group: Sequence[Fact], questions: Collection[int]) -> float:
    """Return the largest number of those in sentences that ask something, else of all."""
    in_questions = [fact for fact in group if fact.sentence in questions]
    return max(float(fact.value) for fact in in_questions or group)


_RATE = re.compile(
    r"\b(\d{1,7}(?:\.\d{1,2})?)(k)? ?"
    r"(?:(?:requests?|reqs?|queries|prompts|calls|messages|chats|sessions) ?"
    r"(?:/|per|an?|each) ?(s|sec|second|m|min|minute|h|hr|hour|day)\b|[rq]ps\b)",
    re.IGNORECASE,
)
PERIODS = {"m": 60, "h": 3600, "d": 86_400}
"""Seconds of a period, by its first letter."""
_PARTS = {"half": 0.5, "a third": 1 / 3, "a quarter": 0.25}
_AT_ONCE = re.compile(
    r"\b(half|a third|a quarter|(\d{1,2}) ?%) (?:of )?(?:\w+ ){0,4}?"
    r"(?:online|active|at once|at the same time|concurrent\w*|simultaneous\w*|at peak)\b"
    r"|(\d{1,2}) ?% ?(?:同时)?(?:在线|并发)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;，；]")
_SIMULTANEOUS = re.compile(
    r"\b(?:concurren\w+|simultan\w+|at once|at (?:the same|a) time|at peak|in parallel|active)\b"
    r"|同时|并发|同時|동시",
    re.IGNORECASE,
)
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


def at_once(text: str, users: Sequence[Fact]) -> Sequence[Fact]:
    """Return those of several numbers of users in one sentence that a text has at once: "100 users,
    20 of them concurrent"; all where it does not tell."""
    if len({fact.sentence for fact in users}) != 1:
        return users
    ends = [fact.start for fact in users[1:]] + [len(text)]
    clauses = [
        _CLAUSE.split(text[: fact.start])[-1] + _CLAUSE.split(text[fact.start : end])[0]
        for fact, end in zip(users, ends, strict=True)
    ]
    simultaneous = [
        fact for fact, clause in zip(users, clauses, strict=True) if _SIMULTANEOUS.search(clause)
    ]
    return simultaneous or users


def requests_a_second(text: str) -> float | None:
    """Return how many requests a second a text sends, infinity where it asks for the most; None
    where it does not say."""
    if is_about(text, "most requests a second"):
        return math.inf
    match = _RATE.search(text)
    if match is None:
        return None
    number = float(match[1]) * (1000 if match[2] else 1)
    return number / PERIODS.get((match[3] or "s").lower()[0], 1) or None


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
        after = _end_of_speed(text, fact)
        if _OF_ALL.match(text, after):
            continue
        if _WANTED.search(before) or _OF_ONE.match(text, after):
            wanted.append(fact)
    return wanted


def is_seen(text: str, fact: Fact) -> bool:
    """Return whether a fact is a speed that a text tells of and asks for nothing."""
    return (
        fact.kind == "speed"
        and not wanted_speeds(text, [fact])
        and not _OF_ALL.match(text, _end_of_speed(text, fact))
    )


def _end_of_speed(text: str, fact: Fact) -> int:
    unit = _PER_SECOND.match(text, fact.end)
    return unit.end() if unit else fact.end
