"""Engines that people name and that are not covered: data/other_engines.tsv."""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from fitgauge.catalog import tables


class OtherEngine(NamedTuple):
    """An engine without estimates."""

    title: str
    """Its name as its makers write it."""
    does: str
    """What it does, as "runs llama.cpp"."""
    instead: str | None
    """The engine whose estimates come nearest; None where none is alike."""

    def described(self) -> str:
        """Return in one sentence that it is not covered, and why."""
        return f"{self.title} is not covered: it {self.does}."


def other_engine(text: str) -> OtherEngine | None:
    """Return the engine of this name that is not covered; None for any other text."""
    return _table().get(re.sub(r"[^a-z0-9]", "", text.lower()))


@cache
def _table() -> Mapping[str, OtherEngine]:
    return {
        word: OtherEngine(title, does, instead or None)
        for words, title, does, instead, _ in tables.rows("other_engines")
        for word in words.split(",")
    }
