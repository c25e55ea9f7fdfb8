"""Models that are out of scope: data/out_of_scope.tsv, words of a name and what it does a line, and
those whose weights are not published, data/closed_models.tsv."""

import re
from functools import cache
from importlib.resources import files

from fitgauge.catalog.name_parts import DESCRIPTIVE

_SEPARATORS = re.compile(r"[^a-z0-9.]+|(?<=[a-z])\.?(?=\d)")
_CLOSED = "has no published weights"


def out_of_scope(text: str) -> str | None:
    """Return what the model of this name does, as "generates images", or that its weights are not
    published, where that is not estimated; None for any other name."""
    written = f" {_words(text)} "
    does = next((does for words, does in _generators() if f" {words} " in written), None)
    return does or (_CLOSED if _is_closed(_words(text).split()) else None)


def out_of_scope_names() -> tuple[str, ...]:
    """Return the words of every name of a generator, in one line each."""
    return tuple(words for words, _ in _generators())


def _is_closed(written: list[str]) -> bool:
    """Return whether words are the name of a closed model, alone or with a version or a line of it
    behind them: "gpt 4 turbo", not "gpt 4 all"."""
    for name in _closed():
        rest = written[len(name) :]
        if written[: len(name)] == list(name):
            return all(word in DESCRIPTIVE or word[0].isdigit() for word in rest)
    return False


def _words(text: str) -> str:
    return " ".join(_SEPARATORS.split(text.lower()))


def _lines(name: str) -> list[str]:
    table = (files("fitgauge.catalog") / "data" / name).read_text("utf-8")
    return [line for line in table.splitlines() if not line.startswith("#")]


@cache
def _generators() -> tuple[tuple[str, str], ...]:
    rows = (line.split("\t") for line in _lines("out_of_scope.tsv"))
    return tuple((_words(words), does) for words, does in rows)


@cache
def _closed() -> tuple[tuple[str, ...], ...]:
    """Return the closed models, the longer names first."""
    names = (tuple(_words(line).split()) for line in _lines("closed_models.tsv"))
    return tuple(sorted(names, key=len, reverse=True))
