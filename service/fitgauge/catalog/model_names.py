"""The model that a few words mean."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from fitgauge.catalog.format_names import USUAL_GGUF
from fitgauge.catalog.name_parts import (
    DATE,
    FILLERS,
    KINDS,
    SILENT,
    Name,
    is_tag,
    parts_of,
    scaled,
    tokens,
    version_value,
    words,
)

_TOLERANCE = 0.1
"""How far the size that people say may lie from the parameters: "phi 4 14b" has 14.7e9."""

_SAME = 0.01
"""How far the parameters of two releases of one model may differ: Mistral 7B v0.3 has 768 words
more than v0.2."""

_USUAL_PARAMETERS = 8e9
"""The size of a name without one: the commonest of those people run."""

_MOST_OCTAVES = 3
"""Of models 8 times as large and larger the newest is meant, not the smallest."""

_LARGE = _USUAL_PARAMETERS * 2**_MOST_OCTAVES
"""Of a family that alone names such sizes only, a line may be meant: Devstral Small."""

_REPEATED = re.compile(r"(.)\1+")
_LONG_WORD = 5
"""Letters of a word that may be written with one too many or too few: "lllama"."""

_MOST_OTHERS = 4


class Footprint(NamedTuple):
    """What tells whether two models need the same memory."""

    parameters: int | None
    """Parameters; None where they are not counted."""
    stored: str
    """How weights and cache are stored: the quantization, and what the cache's size follows
    from."""


class ModelReading(NamedTuple):
    """The model that a text means."""

    id: str
    """Its Hub ID."""
    format: str | None = None
    """The number format that the text names, where the model is not published in it."""
    others: tuple[str, ...] = ()
    """Models that need other memory and may be meant as well."""
    is_default_format: bool = False
    """Whether only the tool's default names the format."""


class Names:
    """The names of the bundled models, and the words they are made of."""

    def __init__(self, ids: Iterable[str]) -> None:
        names = tuple(map(Name.of, ids))
        self._words = frozenset().union(*(name.words | name.owner for name in names))
        self.plain = tuple(name for name in names if "gguf" not in name.id.lower())
        """Those that are no files of another format."""
        self._repeated = {once(word): word for word in self._words if len(word) >= _LONG_WORD}
        self._split = {
            first + second: (first, second)
            for model_id in (name.id for name in names)
            for first, second in pairwise(words(model_id))
            if first.isalpha() and second.isalpha()
        }

    def read(self, text: str, footprint: Callable[[str], Footprint]) -> ModelReading | None:
        """Return the model that holds all words of `text`; None where there is none.

        A size that no name holds may be the parameters of one: "mistral nemo 12b". What is not
        said is guessed among releases of the family: the size nearest to the usual one, then the
        newest; never a quantization or another kind of model."""
        query = self._query(text)
        if not any(map(_names_something, query.words)):
            return None
        pool = self._pool(query, footprint)
        if _is_id(text) and not query.numbers and (query.tuned or query.format):
            pool = [name for name in pool if not name.versions]
        if not pool:
            return None
        fewest = min(_missing(query, name) for name in pool)
        nearest = [name for name in pool if _missing(query, name) == fewest]
        is_family = not (query.sizes or query.numbers)
        if is_family and all(max(map(scaled, name.sizes), default=0) > _LARGE for name in nearest):
            nearest = pool
        ranked = sorted(nearest, key=lambda name: _rank(query, name, footprint))
        first = ranked[0]
        form = query.format or (USUAL_GGUF if is_tag(text) else "")
        return ModelReading(
            id=first.id,
            format=form if form not in ("", first.format) else None,
            others=() if _is_sure(text, query, first) else _others(ranked, footprint),
            is_default_format=not query.format,
        )

    def _query(self, text: str) -> Name:
        """Return the parts of a text, with words joined and split as the names have them."""
        written, form = tokens(text)
        read: list[str] = []
        pending = [word for word in written if word not in FILLERS]
        while pending:
            word = pending.pop(0)
            joined = word + pending[0] if pending else ""
            if joined in self._words and word.isalpha() and word not in self._words:
                read.append(joined)
                pending.pop(0)
            elif word in self._words or not word.isalpha():
                read.append(word)
            elif len(word) >= _LONG_WORD and (single := self._repeated.get(once(word))):
                read.append(single)
            elif word in self._split:
                read.extend(self._split[word])
            elif pending and pending[0][0].isdigit() and word[:-1] in self._words:
                read.append(word[:-1])
                letter, number = word[-1], pending.pop(0)
                read.append(number if letter == "v" else letter + number)
            else:
                read.append(word)
        return parts_of(text, (read, form))

    def _pool(self, query: Name, footprint: Callable[[str], Footprint]) -> list[Name]:
        """Return the names that match the query, in its number format where there are any, else
        unquantized."""
        pool = [name for name in self.plain if _holds(query, name, query.numbers <= name.numbers)]
        if not pool and query.numbers:
            compact = frozenset(number.replace(".", "") for number in query.numbers)
            pool = [
                name
                for name in self.plain
                if _holds(
                    query, name, compact <= {number.replace(".", "") for number in name.numbers}
                )
            ]
        sized = [name for name in pool if query.sizes <= name.sizes and query.active <= name.active]
        if not sized and query.active:
            active = frozenset(word for word in query.active if not word.endswith("k"))
            sized = [name for name in pool if query.sizes <= name.sizes and active <= name.active]
        if not sized and len(query.sizes) == 1:
            (size,) = query.sizes
            sized = _nearest(pool, parameters, footprint) if (parameters := scaled(size)) else []
        return [name for name in sized if query.format and name.format == query.format] or [
            name for name in sized if name.format in ("", "bf16", "fp16")
        ]


def once(word: str) -> str:
    """Return a word with every repeated letter once: a letter too many is no other name."""
    return _REPEATED.sub(r"\1", word)


def _holds(query: Name, name: Name, numbers: bool) -> bool:
    """Return whether a name holds the words of the query, and is of no other kind of model."""
    return (
        numbers
        and query.words - SILENT <= name.words | name.owner | {"base"}
        and any(_names_something(word) for word in query.words & name.words)
        and name.words & KINDS <= query.words
        and ("distill" not in name.words or bool({"distill", name.family} & query.words))
    )


def _is_sure(text: str, query: Name, name: Name) -> bool:
    """Return whether a text can mean no other model than this one. A family and a size in words
    may mean a later generation: "qwen 7b" is Qwen-7B, and as often Qwen2.5-7B."""
    may_be_later = query.sizes and not name.versions and not _is_id(text) and " " in text.strip()
    return _names_all(query, name) and not may_be_later


def _missing(query: Name, name: Name) -> int:
    """Return how many words of a name tell models apart and are missing in the query."""
    missing_words = len(name.words - query.words - SILENT)
    versions = len(name.versions - query.numbers) if query.numbers else 0
    sizes = len(name.sizes - query.sizes) if query.sizes & name.sizes else 0
    base = 0
    if "base" in query.words:
        base = int(name.tuned) + int("base" not in name.words)
    return missing_words + versions + sizes + base


def _rank(
    query: Name, name: Name, footprint: Callable[[str], Footprint]
) -> tuple[bool, bool, int, float, float, bool, bool, tuple[float, ...], int, str]:
    """Return the sort key of a match, the nearest first: of the query's generation, of the usual
    size, the newest, undated, tuned, of the latest date, plain."""
    octaves = 0.0
    if not query.sizes:
        octaves = abs(math.log2(max(_parameters(name, footprint), 1.0) / _USUAL_PARAMETERS))
    dates = sorted(number for number in name.numbers - query.numbers if DATE.fullmatch(number))
    return (
        bool(query.sizes and not query.numbers and name.versions),
        not _names_all(query, name),
        min(int(octaves), _MOST_OCTAVES),
        -name.newest,
        octaves,
        bool(dates),
        not name.tuned,
        tuple(-version_value(date) for date in dates),
        len(name.active - query.active),
        name.id,
    )


def _names_all(query: Name, name: Name) -> bool:
    """Return whether a text is the whole name but for words of tuning."""
    return name.words - SILENT <= query.words and (name.numbers, name.sizes, name.active) == (
        query.numbers,
        query.sizes,
        query.active,
    )


def _others(ranked: Sequence[Name], footprint: Callable[[str], Footprint]) -> tuple[str, ...]:
    """Return the models that may be meant instead of the first, each of another memory need."""
    seen = [footprint(ranked[0].id)]
    others = []
    for name in ranked[1:]:
        one = footprint(name.id)
        if not any(_alike(one, other) for other in seen):
            seen.append(one)
            others.append(name.id)
        if len(others) == _MOST_OTHERS:
            break
    return tuple(others)


def _parameters(name: Name, footprint: Callable[[str], Footprint]) -> float:
    """Return the parameters of a model: by its name, else counted; the usual size where neither
    is there."""
    named = [scaled(size) for size in name.sizes]
    return max(named) if named else footprint(name.id).parameters or _USUAL_PARAMETERS


def _is_id(text: str) -> bool:
    """Return whether a text is written as a Hub name is: one word with dashes."""
    return "-" in text.strip() and not re.search(r"\s", text.strip())


def _names_something(word: str) -> bool:
    """Return whether a word can tell a family: no word of tuning, no single letter."""
    return len(word) > 1 and word not in SILENT and word != "base"


def _alike(one: Footprint, other: Footprint) -> bool:
    """Return whether it hardly matters which of two releases is taken: stored alike, with as
    large a cache, and as large but for a few words of vocabulary."""
    if one.parameters is None or other.parameters is None:
        return one == other
    return one.stored == other.stored and abs(one.parameters / other.parameters - 1) <= _SAME


def _nearest(
    pool: Sequence[Name], parameters: float, footprint: Callable[[str], Footprint]
) -> list[Name]:
    """Return the models with about so many parameters, of those the nearest."""
    distances = {
        name: abs(counted / parameters - 1)
        for name in pool
        if (counted := footprint(name.id).parameters) is not None
    }
    nearest = min(distances.values(), default=1.0)
    return [
        name for name, distance in distances.items() if distance <= min(nearest + _SAME, _TOLERANCE)
    ]
