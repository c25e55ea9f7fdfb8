"""What people call models: a name taken apart into words, and the one model that a few words
mean."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_TUNED = frozenset({"instruct", "chat", "it", "tuned"})
"""Words of a release that was tuned to follow instructions."""

_SILENT = _TUNED | frozenset({"meta", "hf", "nvidia", "c4ai", "uncased", "bf16", "en", "v1"})
"""Words of a name that people leave out and that tell no two models apart."""

_FILLERS = frozenset(
    {
        "the",
        "a",
        "an",
        "model",
        "models",
        "please",
        "ai",
        "llm",
        "weights",
        "params",
        "parameters",
        "will",
        "from",
    }
)
"""Words of a text that name no model."""

_SPELLINGS = {
    "r+": "r plus", "billion": "b", "4bit": "int4", "4-bit": "int4", "8bit": "int8",
    "8-bit": "int8", "code llama": "codellama",
    "tiny llama": "tinyllama", "star coder": "starcoder", "deep seek": "deepseek",
    "smol lm": "smollm", "gptoss": "gpt oss",
}  # fmt: skip
"""Two ways to write one thing, the second as the ids write it."""

_DATE = re.compile(r"\d{4}|v\d+(?:\.\d+)*|v0\d")
_GLUED = re.compile(r"(?<=[a-z]{2})(?=\d)")
_FORMAT = re.compile(r"(?:bf|fp|nvfp|mxfp|int)\d+")
_GAP = re.compile(r"(?<=\d) +(?=[bm]\b)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([bmt])")
_SCALE = {"m": 1e6, "b": 1e9, "t": 1e12}

_TOLERANCE = 0.1
"""How far the size that people say may lie from the parameters: "phi 4 14b" has 14.7e9."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of a name: "Qwen2.5-72B-Instruct" -> qwen, 2.5, 72b, instruct."""
    text = text.lower()
    for written, meaning in _SPELLINGS.items():
        text = text.replace(written, meaning)
    pieces = re.split(r"[^a-z0-9.]+", _GAP.sub("", text))
    return tuple(
        word.strip(".")
        for piece in pieces
        if piece.strip(".")
        for word in ([piece] if _FORMAT.fullmatch(piece) else _GLUED.split(piece))
    )


def plain(model_id: str) -> str:
    """Return the words of a name without its owner, in one line."""
    return " ".join(words(model_id.partition("/")[2] or model_id))


_SAME = 0.01
"""How far the parameters of two releases of one model may differ: Mistral 7B v0.3 has 768 words
more than v0.2."""


class Name(NamedTuple):
    """An id, the words of its name, and those of its owner."""

    id: str
    words: frozenset[str]
    owner: frozenset[str]

    @classmethod
    def of(cls, model_id: str) -> "Name":
        """Return the words of an id."""
        owner, _, name = model_id.partition("/")
        return cls(model_id, frozenset(words(name)), frozenset(words(owner)))


class Footprint(NamedTuple):
    """What tells whether two models need the same memory: parameters (None: not counted) and how
    they are stored."""

    parameters: int | None
    stored: str


class _Rank(NamedTuple):
    """How far a name lies from the words of a text, the nearest first.

    `unsaid`: words of the name that tell models apart and were not said. `dated`: it has a date
    or version that was not said. `untuned`: a base model. `oldness`: minus the date or version."""

    unsaid: int
    dated: bool
    untuned: bool
    oldness: tuple[float, ...]


def meant(text: str, names: Iterable[Name], footprint: Callable[[str], Footprint]) -> str | None:
    """Return the id of the one name that holds all words of `text`; None where there is none, or
    several that need different memory.

    A size that no name holds may be the parameters of one: "mistral nemo 12b".
    """
    said = frozenset(words(text)) - _FILLERS
    if not any(map(_names_something, said)):
        return None
    ranked = _ranked(said, names)
    sizes = frozenset(word for word in said if _SIZE.fullmatch(word))
    if not ranked and len(sizes) == 1:
        ranked = [
            (rank, model_id)
            for rank, model_id in _ranked(said - sizes, names)
            if _is_of_size(footprint(model_id), *sizes)
        ]
    best = [model_id for rank, model_id in ranked if rank.unsaid == ranked[0][0].unsaid]
    return (
        best[0]
        if best and all(_alike(footprint(best[0]), footprint(other)) for other in best[1:])
        else None
    )


def _ranked(said: frozenset[str], names: Iterable[Name]) -> list[tuple[_Rank, str]]:
    """Return the names that hold all these words, the nearest first."""
    return sorted(
        (_rank(said, name), name.id)
        for name in names
        if said <= name.words | name.owner | {"base"}
        and any(_names_something(word) for word in said & name.words)
    )


def _rank(said: frozenset[str], name: Name) -> _Rank:
    unsaid = name.words - said - _SILENT
    dates = sorted(word for word in unsaid if _DATE.fullmatch(word))
    tuned, wants_base = bool(name.words & _TUNED), "base" in said
    return _Rank(
        unsaid=len(unsaid) - len(dates) + (1 if wants_base and tuned else 0),
        dated=bool(dates),
        untuned=not tuned,
        oldness=tuple(-float(part) for word in dates for part in word.lstrip("v").split(".")),
    )


def _names_something(word: str) -> bool:
    """Return whether a word can tell a family: no size, number, format or word of tuning."""
    return (
        len(word) > 1 and word[0].isalpha() and word not in _SILENT and not _FORMAT.fullmatch(word)
    )


def _alike(one: Footprint, other: Footprint) -> bool:
    """Return whether it hardly matters which of two releases is taken: stored alike, and as
    large but for a few words of vocabulary."""
    if one.parameters is None or other.parameters is None:
        return False
    return one.stored == other.stored and abs(one.parameters / other.parameters - 1) <= _SAME


def _is_of_size(footprint: Footprint, word: str) -> bool:
    """Return whether a model has about the parameters that "12b" says."""
    size = _SIZE.fullmatch(word)
    if size is None or footprint.parameters is None:
        return False
    return abs(footprint.parameters / (float(size[1]) * _SCALE[size[2]]) - 1) <= _TOLERANCE
