"""Words into a command line."""

import re
import shlex
from collections.abc import Iterable, Mapping

from fitgauge.engine.model.model import Model

_VARIABLES = ("$NODE_RANK", "$MASTER_ADDR")
MODEL_PATH = "path/to/model"
"""The placeholder of a model that is only a size."""


def joined(words: Iterable[object]) -> str:
    """Return one line for a shell, in which the variables that every node sets for itself stay
    variables."""
    return " ".join(text if text in _VARIABLES else shlex.quote(text) for text in map(str, words))


def flags(settings: Mapping[str, object]) -> list[object]:
    """Return flags with their values as words: True is the flag alone, a list several values; None
    and False leave the flag out."""
    words: list[object] = []
    for flag, value in settings.items():
        if value is not None and value is not False:
            values = value if isinstance(value, list | tuple) else [value]
            words += [flag] if value is True else [flag, *values]
    return words


def path_of(model: Model) -> str:
    """Return what to load: the Hub ID; of a model that is only a size, a place to fill in."""
    return MODEL_PATH if model.source == "size" else model.id


def placeholders(command: str, words: Iterable[str]) -> str | None:
    """Return those of `words` that a command holds, in its order and joined by "and"; None where
    it holds none and runs as it stands."""
    places = ((re.search(rf"(?<!\w){re.escape(word)}(?!\w)", command), word) for word in words)
    return (
        " and ".join(word for _, word in sorted((m.start(), word) for m, word in places if m))
        or None
    )


def switch(value: bool) -> str:
    """Return a switch as Hugging Face's argument parsers read it."""
    return "true" if value else "false"


def turned_on(value: bool) -> str | None:
    """Return a switch that is off where the flag is left out."""
    return "true" if value else None
