"""Kinds of GPUs as people name them: "a gaming card", "Blackwell", "the 50 series". A kind, what it
is a choice of, what finds its GPUs, how it is written and the source: data/gpu_kinds.tsv."""

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import NamedTuple

from fitgauge.catalog import tables
from fitgauge.engine.accelerator import Accelerator


class _Kind(NamedTuple):
    """A row of the table."""

    name: str
    """As requests and answers write it."""
    choice: str
    """What it is one of: a market, a generation, a series."""
    gpus: re.Pattern[str]
    """What finds its GPUs in "id sm=capability gfx=target"."""
    words: re.Pattern[str]
    """How people write it."""


def kinds_in(text: str, is_meant: Callable[[re.Match[str]], bool]) -> list[str]:
    """Return the kinds that a text names, in the order of the table. is_meant: whether it does not
    rule out what it names there."""
    return [kind.name for kind in _kinds() if any(map(is_meant, kind.words.finditer(text)))]


def kind_named(text: str) -> str | None:
    """Return the kind of this name; None for none."""
    word = text.strip().lower()
    named = (kind.name for kind in _kinds() if word == kind.name or kind.words.fullmatch(word))
    return next(named, None)


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds."""
    return tuple(kind.name for kind in _kinds())


def is_of(accelerator: Accelerator, names: Collection[str]) -> bool:
    """Return whether a GPU is of one of the kinds in each choice: of "consumer, blackwell, hopper"
    a consumer's that is Blackwell or Hopper."""
    capability = ".".join(map(str, accelerator.compute_capability or ()))
    described = f"{accelerator.id} sm={capability} gfx={accelerator.gfx}"
    chosen = [kind for kind in _kinds() if kind.name in names]
    held = {kind.choice for kind in chosen if kind.gpus.search(described)}
    return held == {kind.choice for kind in chosen}


@cache
def _kinds() -> tuple[_Kind, ...]:
    return tuple(
        _Kind(name, choice, re.compile(gpus), re.compile(rf"\b(?:{words})\b", re.IGNORECASE))
        for name, choice, gpus, words, _ in tables.rows("gpu_kinds")
    )
