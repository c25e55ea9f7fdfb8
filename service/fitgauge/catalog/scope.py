"""Models that are out of scope: data/out_of_scope.tsv, words of a name and what it does a line, and
those whose weights are not published, data/closed_models.tsv."""

import re
from functools import cache
from itertools import islice

from fitgauge.catalog import tables
from fitgauge.catalog.name_parts import DESCRIPTIVE

_SEPARATORS = re.compile(r"[^a-z0-9.]+|(?<=[a-z])\.?(?=\d)")
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?[mbt])\b")
_MOST_WORDS, _LONGEST_NAME = 400, 4
_CLOSED = "has no published weights"


def out_of_scope(text: str) -> str | None:
    """Return what the model of this name does, as "generates images", or that its weights are not
    published, where that is not estimated; None for any other name."""
    written = f" {_words(text)} "
    does = next((does for words, does in _generators() if f" {words} " in written), None)
    return does or (_CLOSED if _closed_name(text) else None)


def closed_size(text: str) -> str | None:
    """Return the size that a closed model is named with, else that its publisher says, as "175b";
    None for any other."""
    name = _closed_name(text)
    if name is None:
        return None
    named = _SIZE.search(text.lower())
    return named[1] if named else _closed()[name]


def closed_model_in(text: str) -> str | None:
    """Return the first closed model that a sentence names: "claude 3.5 sonnet"; None for none."""
    words = list(islice(re.finditer(r"[\w.]*\w", text), _MOST_WORDS))
    for place, first in enumerate(words):
        for last in reversed(words[place : place + _LONGEST_NAME]):
            if _closed_name(name := text[first.start() : last.end()]) is not None:
                return name
    return None


def out_of_scope_names() -> tuple[str, ...]:
    """Return the words of every name of a generator, in one line each."""
    return tuple(words for words, _ in _generators())


def _closed_name(text: str) -> tuple[str, ...] | None:
    """Return the closed model that a text names, alone or with a version, a size or a line of it
    behind: "gpt 4 turbo", not "gpt 4 all"; None where it names none."""
    written = tuple(_words(text).split())
    for name in _closed():
        rest = written[len(name) :]
        if written[: len(name)] == name:
            lines = {word for other in _closed() if other[0] == name[0] for word in other}
            continues = all(
                word in DESCRIPTIVE or word in lines or word[0].isdigit() for word in rest
            )
            return name if continues else None
    return None


def _words(text: str) -> str:
    return " ".join(_SEPARATORS.split(text.lower()))


@cache
def _generators() -> tuple[tuple[str, str], ...]:
    return tuple((_words(words), does) for words, does in tables.rows("out_of_scope"))


@cache
def _closed() -> dict[tuple[str, ...], str | None]:
    """Return the closed models, the longer names first, with the sizes that are published."""
    sizes = {
        tuple(_words(row[0]).split()): row[1] if len(row) > 1 else None
        for row in tables.rows("closed_models")
    }
    return dict(sorted(sizes.items(), key=lambda row: len(row[0]), reverse=True))
