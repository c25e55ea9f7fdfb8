"""Words into a command line."""

import shlex
from collections.abc import Iterable

from fitgauge.engine.model.spec import Model

_VARIABLES = ("$NODE_RANK", "$MASTER_ADDR")


def joined(words: Iterable[object]) -> str:
    """Return one line for a shell, in which the variables that every node sets for itself stay
    variables."""
    return " ".join(text if text in _VARIABLES else shlex.quote(text) for text in map(str, words))


def shell_quote(text: str) -> str:
    """Return a text as one word for a shell."""
    return shlex.quote(text)


def path_of(model: Model) -> str:
    """Return what to load: the Hub ID; of a model that is only a size, a place to fill in."""
    return "path/to/model" if model.source == "size" else model.id


def switch(value: bool) -> str:
    """Return a switch as Hugging Face's argument parsers read it."""
    return "true" if value else "false"
