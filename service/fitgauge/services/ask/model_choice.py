"""Which of the models in a question is meant: one, or several on a par."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from fitgauge.catalog.name_parts import DESCRIPTIVE, Name
from fitgauge.services.ask.facts import Fact
from fitgauge.services.ask.formats import FORMAT
from fitgauge.services.ask.names import ModelNames
from fitgauge.services.ask.topics import DISTILLS, is_about
from fitgauge.services.ask.vocabulary import NOISE, PHRASES, SERVING, TRAINING

_JOINED = re.compile(
    r"[\s,、/&]*(?:(?:models?|llms?)\s*)?[\s,、/&]*(?:and|or|to|next to|alongside|besides?"
    r"|together with|,|plus|vs\.?|和|与|、|或者?|还是|及|以及|und|oder|et|ou|y|e|и|/|&|\+)"
    r"\s*(?:(?:the|an?|eine?[nmrs]?|une?|una)(?:\s[a-z-]+){0,2}(?:\s|$))?"
)
"""What stands between names that are on a par."""

_FORM = re.compile(rf"\b(?:in |at |@ ?)?{FORMAT.pattern}(?![a-z0-9])")
"""A number format behind a name: "qwen3 14b awq and gemma 3 12b q8_0"."""

_ALTERNATIVE = re.compile(
    r"[^.?!;\n]{0,12}\b(?:or|vs|oder|ou)\b[^.?!;\n]{0,40}|[^.?!;\n]*(?:还是|或者)"
)
"""The same with a few words of a sentence: "gemma 27b or should I look at the 12b"."""

_UNKNOWN_BETWEEN = re.compile(r"[,、] ?[\w.-]+(?: [\w.-]+){0,2}(?:,? and|[,、]|和)")
"""The same with a name that is not known: "whisper, kokoro tts and llama 3b"."""

_OWN_SIZE = re.compile(r"\d+(?:\.\d+)?b(?:[- ]a\d+b)?\b", re.IGNORECASE)
_MEMBER = re.compile(
    r"(?:\b(?:the|its|to|or|vs\.?|and|than|about|oder|ou|und|et|y)|[,/&、和与]|还是|或者?)"
    r"\s*(?:(?:the|its|an?)\s+)?$",
    re.IGNORECASE,
)
"""What stands before the size of another model of a family that is named."""

_DRAFT = re.compile(
    r"\W{0,2}(?:model )?(?:as |is |for )?(?:an? |the )?"
    r"(?:draft(?:er|ing)?|speculator|speculative)\b",
    re.IGNORECASE,
)
"""What follows the name of a draft model."""

_DATA = re.compile(r"\W{0,2}(?:data\b|dataset|数据)", re.IGNORECASE)
"""What follows the name of a data set."""

_CONTRAST = re.compile(
    r"\b(?:but|however|aber|mais)\b|但是?|却|不过|하지만"
    r"|\b(?:mov(?:ed?|ing)|switch(?:ed|ing)?|upgrad(?:ed?|ing)|chang(?:ed?|ing)|go(?:ing)?"
    r"|went) (?:(?:over|up|down) )?to\b(?! ?\d+ ?k)|\b(?:mov|migrat|switch|upgrad|chang"
    r"|go)\w*\b[^.?!]{0,60}? from [^.?!]{1,40}? to\b(?! ?\d+ ?k)"
    r"|\b(?:swap|replac|exchang)\w* (?:[^\s,;?!]+ ){0,4}?(?:for|with|by)\b"
    rf"|{DISTILLS.pattern}",
    re.IGNORECASE,
)
"""What stands between a model or GPUs that ran, or a teacher, and those in question."""

_WORKS = re.compile(
    r"(?<!\bit )(?<!\bit still )\b(?:sufficient|works?|worked|fine(?![- ]?tun)|no problem"
    r"|success\w*|runs? (?:well|ok))\b(?!\?)|没问题|可以跑|正常",
    re.IGNORECASE,
)
"""What says that something ran."""

_PAST = re.compile(
    r"(?:\bpreviously|\bused to\b|以前|之前|原来)[^,.;?!，。？！]{0,24}$", re.IGNORECASE
)
"""What stands before a model that somebody no longer runs."""

_BEFORE_NAMES = (
    *("an?", "the", "your", "my", "of", "for", "with", "does", "is", "will", "can", "load", "use"),
    *("runs?", "running", "serve", "host", "deploy", "try", "train", "fine-?tune"),
)
_LIKE_A_NAME = re.compile(
    rf"(?:^|\b(?:{'|'.join(_BEFORE_NAMES)}) )(?!(?:{'|'.join(_BEFORE_NAMES)}) )"
    r"([a-z][a-z-]{2,}[a-z]) $",
    re.IGNORECASE,
)
"""A word between one that names follow and a size."""
_DESCRIBING = NOISE | DESCRIPTIVE | set(SERVING) | set(TRAINING) | {
    *("model", "models", "other", "merged", "dense", "quantized", "multiple", "several", "typical"),
    *("private", "custom", "whole", "regular", "normal", "second", "bigger", "larger", "smaller"),
    *("uncensored", "coding", "hypothetical", "generic"),
}  # fmt: skip
"""Words there that name no model."""
_OUTDONE = re.compile(
    r"\b(?:models?|llms?|something|anything|one)\b[^.?]{0,16}\b"
    r"(?:better|smarter|stronger|newer) than\s+(?:the\s+)?$",
    re.IGNORECASE,
)
"""What stands before a model that somebody wants a better one than."""

_LEFT = re.compile(
    r"\b(?:instead of|rather than|(?:sell|replac|swap|ditch|return)\w*|trad\w+ in)"
    r"(?: (?:an?|the|my|our|your|this|one|old|current|\w+ing(?: on)?|\d{1,2} ?x?))*"
    r"(?: (?:nvidia|geforce|rtx|tesla))* ?$"
)
"""What stands before a model or a GPU that another one is taken for."""
_LOOKED_BACK = 40

_SIZED = re.compile(r"\d[bm](?![a-z])", re.IGNORECASE)

_BEFORE = 40
"""Characters before a name that say when it ran."""

_MOST_NAMES = 24
"""Models that are distinguished in one question."""


def choose_model(
    text: str, facts: Sequence[Fact], questions: Collection[int]
) -> tuple[str | None, list[str]]:
    """Return the model that is meant, or several that are on a par.

    facts: of models; questions: the numbers of the sentences that ask something."""
    facts = _in_question(text, facts)
    current = [
        fact for fact in facts if not _PAST.search(text[max(0, fact.start - _BEFORE) : fact.start])
    ]
    facts = current or facts
    named = _distinct(facts)
    if len(named) <= 1:
        return (str(named[0].value) if named else None), []
    groups = _on_a_par(text, facts, named)
    in_questions = [fact for fact in named if fact.sentence in questions]
    if len(in_questions) == 1 and not any(in_questions[0] in group for group in groups):
        return str(in_questions[0].value), []
    last = after_contrast(text, named)
    if last is not None and (last.kind != "size" or DISTILLS.search(text)):
        return str(last.value), []
    largest = max(groups, key=len, default=[])
    if len(largest) > 1 and (not in_questions or any(fact in largest for fact in in_questions)):
        return None, [str(fact.value) for fact in largest]
    options = in_questions or named
    if len(options) > 1 and is_about(text, "one gpu"):
        return None, [str(fact.value) for fact in options]
    return str(_most_said(options, facts).value), []


def is_left(text: str, fact: Fact) -> bool:
    """Return whether a text takes another model or GPU for this one: "instead of an 8B"."""
    before = text[max(0, fact.start - _LOOKED_BACK) : fact.start].lower()
    return _LEFT.search(before) is not None


def draft_model(text: str, facts: Sequence[Fact]) -> Fact | None:
    """Return the model that drafts tokens for another one; None where a text names no two.

    facts: of models."""
    drafts = [fact for fact in facts if _DRAFT.match(text, fact.end)]
    return drafts[0] if drafts and len(_distinct(facts)) > 1 else None


def teacher_model(text: str, facts: Sequence[Fact]) -> Fact | None:
    """Return the model that another one is distilled from; None where a text names no two.

    facts: of models."""
    distills = DISTILLS.search(text)
    if distills is None or len(_distinct(facts)) < 2:
        return None
    return next((fact for fact in facts if distills.start() < fact.start < distills.end()), None)


def without_other_words(facts: list[Fact], names: ModelNames) -> list[Fact]:
    """Return the models without the words that are only called like one, where another is surely
    one: of "LongLM" and a repository, the repository."""
    sure = [
        fact
        for fact in facts
        if fact.kind != "model"
        or _SIZED.search(str(fact.value))
        or "/" in str(fact.value)
        or names.has(str(fact.value))
    ]
    return sure if any(fact.kind == "model" for fact in sure) else facts


def in_families(text: str, facts: Sequence[Fact], names: ModelNames) -> Iterator[Fact]:
    """Yield models, a size as that of the family that a text names before, where there is such a
    one: "gemma3 27b or the 12b", "swap Qwen3-8B for the 14B". facts: of models."""
    models = [fact for fact in facts if fact.kind == "model"]
    named = next((str(fact.value) for fact in models), "")
    is_family = _OWN_SIZE.search(named) is None
    for fact in facts:
        size = str(fact.value)
        if is_family and len(models) == 1 and fact.kind == "size" and fact.end < models[0].start:
            own = f"{named} {size}"  # "from 32B to 4B, Qwen3"
            yield fact._replace(kind="model", value=own) if names.has(own) else fact
            continue
        other = f"{named} {size}" if is_family else _OWN_SIZE.sub(size, named, count=1)
        is_member = fact.kind == "size" and bool(
            _MEMBER.search(text[: fact.start]) or _DRAFT.match(text, fact.end)
        )
        if is_member and other != named and names.has(other):
            yield fact._replace(kind="model", value=other)
            continue
        named = str(fact.value) if fact.kind == "model" else named
        yield fact


def unknown_name(text: str, size: Fact) -> str | None:
    """Return the word that stands like a name before a size: "run foobar 13b"; None where a word
    of the language does, or none."""
    match = _LIKE_A_NAME.search(text[: size.start])
    word = match[1].lower() if match is not None else ""
    others = word in _DESCRIBING or (word,) in PHRASES
    return None if match is None or others else match[1]


def with_size(text: str, family: str) -> str:
    """Return a family with the size that stands one unknown word behind it, if any: "falcon h1
    34b" is no other Falcon."""
    match = re.search(rf"{re.escape(family)} (?:[a-z]\d )?\d+(?:\.\d+)?[bt]\b", text, re.IGNORECASE)
    return family if match is None else match[0]


def end_of_contrast(text: str) -> int:
    """Return where the part behind "but" begins; 0 without one, or where that is what works."""
    contrast = max((match.end() for match in _CONTRAST.finditer(text)), default=0)
    return 0 if _WORKS.search(text, contrast) else contrast


def after_contrast(text: str, named: Sequence[Fact]) -> Fact | None:
    """Return the one name after "but"; None where none or several follow, or none precedes."""
    contrast = end_of_contrast(text)
    after = [fact for fact in named if fact.start >= contrast]
    return after[0] if len(after) == 1 and len(named) > 1 else None


def _in_question(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the models but those of data, and those that a better one is wanted than."""
    return [
        fact
        for fact in facts
        if not (
            _DATA.match(text[fact.end :])
            or _OUTDONE.search(text[: fact.start])
            or is_left(text, fact)
        )
    ]


def not_among(text: str, facts: Sequence[Fact], names: Collection[str]) -> list[Fact]:
    """Return the models that a text asks about and none of some names contains."""
    keys = [re.sub(r"[^a-z0-9.]+", "", name.lower()) for name in names]
    models = _distinct(_in_question(text, facts))
    return [fact for fact in models if not any(_key(fact) in key for key in keys)]


def _on_a_par(text: str, facts: Sequence[Fact], named: Sequence[Fact]) -> list[list[Fact]]:
    """Return the names that stand side by side: "7B, 13B and 70B". A group of more than two has
    all names as they are written."""
    rows: list[list[Fact]] = []
    for one, other in itertools.pairwise(facts):
        between = _FORM.sub(" ", text[one.end : other.start].lower()).strip()
        ways = (_JOINED, _ALTERNATIVE, _UNKNOWN_BETWEEN)
        joined = any(way.fullmatch(between) for way in ways)
        if joined or between in (",", ""):
            if rows and rows[-1][-1] is one:
                rows[-1].append(other)
            else:
                rows.append([one, other])
    groups = []
    for row in rows:
        first = {_key(fact): fact for fact in reversed(row)}
        unlike = [fact for fact in row if first[_key(fact)] is fact]
        listed = unlike if len(unlike) > 2 else [fact for fact in unlike if fact in named]
        groups.append(listed)
    return [group for group in groups if len(group) > 1]


def _most_said(named: Sequence[Fact], facts: Sequence[Fact]) -> Fact:
    """Return the model that the text names most often, the fullest name first."""
    times = Counter(map(_key, facts))

    def often(fact: Fact) -> tuple[int, bool, int]:
        return times[_key(fact)], fact.kind != "size", -fact.start

    return max(named, key=often)


def _key(fact: Fact) -> str:
    return re.sub(r"[^a-z0-9.]+", "", str(fact.value).lower().rpartition("/")[2])


def _distinct(named: Sequence[Fact]) -> list[Fact]:
    """Return each model once, the first few; a bare size or family, or a name without its
    version, counts as the fuller name that has it."""
    first: dict[str, Fact] = {}
    for fact in named:
        if len(first) < _MOST_NAMES:
            first.setdefault(_key(fact), fact)
    names = {key: Name.of(str(fact.value)) for key, fact in first.items()}
    return [
        fact
        for key, fact in first.items()
        if not any(
            key != other and (key in other or _is_shorter(names[key], names[other]))
            for other in first
        )
    ]


def _is_shorter(one: Name, other: Name) -> bool:
    """Return whether a name is another one without its version: "llama-70B" of "llama-2-70b"."""
    return (
        bool(one.sizes)
        and one.sizes == other.sizes
        and one.numbers < other.numbers
        and one.words <= other.words
    )
