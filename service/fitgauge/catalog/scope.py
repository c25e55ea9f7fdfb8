"""Models that are out of scope: data/out_of_scope.tsv, words of a name and what it does a line."""

import re
from functools import cache
from importlib.resources import files

_SEPARATORS = re.compile(r"[^a-z0-9.]+|(?<=[a-z])\.?(?=\d)")


def out_of_scope(text: str) -> str | None:
    """Return what the model of this name does, as "generates images", where that is not
    estimated; None for any other name."""
    written = f" {_words(text)} "
    return next((does for words, does in _table() if f" {words} " in written), None)


def out_of_scope_names() -> tuple[str, ...]:
    """Return the words of every such name, in one line each."""
    return tuple(words for words, _ in _table())


def _words(text: str) -> str:
    return " ".join(_SEPARATORS.split(text.lower()))


@cache
def _table() -> tuple[tuple[str, str], ...]:
    table = (files("fitgauge.catalog") / "data" / "out_of_scope.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    return tuple((_words(words), does) for words, does in rows)
