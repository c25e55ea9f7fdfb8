"""Which of the number formats in a question the weights are to have: one, or several set side by
side."""

import itertools
import re
from collections.abc import Collection, Sequence

from fitgauge.catalog.format_names import USUAL_GGUF
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.grammar import CACHE_TYPES
from fitgauge.services.ask.intent import is_quantized
from fitgauge.services.ask.topics import is_about
from fitgauge.services.ask.training_words import OPTIMIZERS

_TRAINED_IN = re.compile(r"[- ](?:training|pre-?training|fine-?tuning|recipe)\b", re.IGNORECASE)
"""What follows the precision of a training's products: "fp8 training"."""

PRECISIONS = frozenset({"bf16", "fp16", "fp32", "bfloat16", "float16"})
"""Formats that in training are a precision, of which a word does not say which parts have it."""

_FOUR_BITS = "int4"
"""What "quantized" means where no format is named."""

WIDTHS = frozenset({"int4", "int8"})
"""What "4 bit" says besides a format: "GPTQ 4bit" is GPTQ."""

_INSTEAD = re.compile(r"(?:\bnot|\bwithout|n't|不用|非|不)\s*(?:\w+\s)?$")
_RULED_OUT = re.compile(
    r"\s+(?:is|are)(?:n't| not| no)\s+(?:an? )?(?:option|possible|allowed|supported|acceptable)"
    r"|\s+is (?:out|ruled out)\b"
)
"""Words behind it that say the same."""
_BEFORE = 24
"""Characters before a word that say that it is not wanted."""

_IN = re.compile(r"\b(?:in|at|with|mit|en|em)\s+$", re.IGNORECASE)

AGAINST = re.compile(
    r"\b(?:vs\.?|versus|or|over|than|compared (?:to|with)|against|oder|ou)\b|还是|或|对比|、|/",
    re.IGNORECASE,
)
"""What stands between formats that are set side by side."""
_OWN = re.compile(r"[\s,(-]*(?:(?:in|at|as|@)\s+)?", re.IGNORECASE)
"""What stands between a model and the format that is its own."""
_OF_CACHES = re.compile(rf"(?:\s|kv|cache|-)*(?:{AGAINST.pattern})\s*", re.IGNORECASE)
"""The same between formats of a KV cache."""
LISTED = re.compile(rf"{AGAINST.pattern}|,|\b(?:and|und|et|y|e)\b|和|与", re.IGNORECASE)
"""The same in a text that compares."""


def is_refused(text: str, fact: Fact) -> bool:
    """Return whether a text says that it does not want something: "without quantization"."""
    before = text[max(0, fact.start - _BEFORE) : fact.start].lower()
    return bool(_INSTEAD.search(before) or _RULED_OUT.match(text.lower(), fact.end))


def wanted_formats(text: str, facts: Sequence[Fact], *, training: bool) -> list[Fact]:
    """Return the formats that the weights may have. facts: of formats."""
    return [
        fact
        for fact in facts
        if not is_refused(text, fact)
        and not (
            training
            and (
                fact.value in PRECISIONS
                or of_the_optimizer(text, fact)
                or is_of_products(text, fact)
            )
        )
    ]


def is_of_products(text: str, fact: Fact) -> bool:
    """Return whether a number format is that of a training's products, not of its base."""
    return fact.value == "fp8" and _TRAINED_IN.match(text, fact.end) is not None


def of_the_optimizer(text: str, fact: Fact) -> bool:
    """Return whether a number format is that of an optimizer's states: "8-bit Adam"."""
    return any(one.start() <= fact.start < one.end() for one in OPTIMIZERS.finditer(text))


def format_meant(text: str, facts: Sequence[Fact], *, training: bool) -> str | None:
    """Return the format of the weights that a text wants; None where it names none."""
    wanted = wanted_formats(text, facts, training=training)
    if wanted:
        return str(wanted[0].value)
    return _FOUR_BITS if not facts and not training and is_quantized(text) else None


def with_caches(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts with a format that is set against one of the KV cache as the same, "fp8 or
    fp16 kv cache", and that of a text about the cache: "KV cache of a 70b at 128k in fp8"."""
    result = list(facts)
    places = [at for at, fact in enumerate(facts) if fact.kind in ("format", "cache")]
    pairs = [
        pair
        for pair in itertools.pairwise(places)
        if _OF_CACHES.fullmatch(text[result[pair[0]].end : result[pair[1]].start])
        and "cache" in (result[pair[0]].kind, result[pair[1]].kind)
    ]
    if len(places) == 1 and is_about(text, "cache") and _IN.search(text[: result[places[0]].start]):
        pairs = [(places[0], places[0])]
    for at in itertools.chain.from_iterable(pairs):
        value = CACHE_TYPES.get(str(result[at].value), result[at].value)
        result[at] = result[at]._replace(kind="cache", value=value)
    return result


def with_own_formats(
    text: str, models: Sequence[Fact], facts: Sequence[Fact]
) -> tuple[list[str], list[Fact]]:
    """Return several models, each with the format in or behind its name where they have not all the
    same: "gemma 12b q8 or qwen 14b q6"; and the facts without those formats."""
    own: dict[str, Fact] = {}
    for form in (fact for fact in facts if fact.kind == "format"):
        before = next((one for one in reversed(models) if one.start <= form.start), None)
        if before and _OWN.fullmatch(text[before.end : form.start]):
            own.setdefault(str(before.value), form)
    names = [str(one.value) for one in models]
    behind = {
        str(one.value): f" {own[str(one.value)].value}"
        for one in models
        if str(one.value) in own and own[str(one.value)].start >= one.end
    }
    in_some_names = len(behind) < len(own) < len(models)
    if len({form.value for form in own.values()}) < 2 and not in_some_names:
        return names, list(facts)
    others = [fact for fact in facts if fact not in own.values()]
    return [f"{name}{behind.get(name, '')}" for name in names], others


def is_file(text: str, fact: Fact) -> bool:
    """Return whether a fact is the word GGUF, which names an engine by what it reads."""
    return fact.kind == "engine" and text[fact.start : fact.end].lower() == "gguf"


def formats_side_by_side(text: str, facts: Sequence[Fact]) -> list[str]:
    """Return the formats that a text sets side by side, in its order; empty for one: "GPTQ 4bit
    vs AWQ", "awq or gguf". facts: all of the text."""
    named = [
        fact._replace(value=USUAL_GGUF) if is_file(text, fact) else fact
        for fact in facts
        if fact.kind == "format" or is_file(text, fact)
    ]
    wanted = wanted_formats(text, named, training=False)
    groups = [wanted[:1]]
    against = LISTED if is_about(text, "comparison") else AGAINST
    for before, after in itertools.pairwise(wanted):
        if against.search(text[before.end : after.start]):
            groups.append([])
        groups[-1].append(after)
    names = list(dict.fromkeys(_most_exact([str(fact.value) for fact in one]) for one in groups))
    return names if len(groups) > 1 and len(names) > 1 else []


def _most_exact(names: Collection[str]) -> str:
    return next((name for name in names if name not in WIDTHS), next(iter(names), ""))
