"""Words of questions about memory, in English, Chinese, Japanese and Korean, by what they mean:
vocabulary.tsv. Those of other languages are in `languages`.

No GPU and no model stands there: those words come from the catalog and the snapshot."""

import itertools
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from fitgauge.catalog import tables
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.training_fit.launchers.registry import TOOLS

Phrase = tuple[str, ...]
"""Latin words in small letters, without what separates them: ("max", "model", "len")."""
Meaning = tuple[str, str | None]
"""The kind of token, and what it names where it names anything."""


def rows(name: str) -> list[list[str]]:
    """Return the cells of each row of a table; lines with a number sign are comments."""
    return tables.cells(files("fitgauge.services.ask") / f"{name}.tsv")


_ROWS = [
    (kind, name or None, text)
    for kind, name, texts in rows("vocabulary")
    for text in texts.split("|")
]


def _texts(kind: str, *, latin: bool) -> tuple[str, ...]:
    return tuple(text for row, _, text in _ROWS if row == kind and text.isascii() is latin)


PHRASES: Mapping[Phrase, Meaning] = MappingProxyType(
    {tuple(text.split()): ("ENGINE", row.name) for row in ENGINES.values() for text in row.phrases}
    | {tuple(text.split()): ("TRAINER", tool.name) for tool in TOOLS for text in tool.phrases}
    | {
        phrase: (kind, name)
        for kind, name, text in _ROWS
        if kind.isupper() and text.isascii()
        for phrase in itertools.product(*(place.split("/") for place in text.split()))
    }
)
"""Latin phrases. Engines of the table have no row in the registry, and most no estimate."""

HAN_PHRASES: Mapping[str, Meaning] = MappingProxyType(
    {text: (kind, name) for kind, name, text in _ROWS if kind.isupper() and not text.isascii()}
)
"""Phrases of scripts without spaces."""

METHODS = ("full", "lora", "dora", "qlora")
"""Those of METHOD that are methods: the others are algorithms."""

TRAIN_ALONE = frozenset({"fsdp", "megatron"})
"""Frameworks that train and serve nothing."""

_NUMBERS = {text: int(number or 0) for kind, number, text in _ROWS if kind == "number"}
NUMBER_WORDS = {text: number for text, number in _NUMBERS.items() if text.isascii()}
HAN_NUMBERS = {text: number for text, number in _NUMBERS.items() if not text.isascii()}

MEMORY = frozenset(text for kind, _, text in _ROWS if kind == "memory")
"""Words of GPUs that mean their memory, which no number counts."""

TRAINING = _texts("training", latin=True)
HAN_TRAINING = _texts("training", latin=False)
"""Phrases of training."""
SERVING = _texts("serving", latin=True)

NOISE = frozenset(_texts("noise", latin=True))
HAN_NOISE = frozenset(_texts("noise", latin=False))
"""Words between a setting and its number that change nothing."""
