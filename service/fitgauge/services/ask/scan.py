"""One pass over the pieces of a question: what every reader of tokens shares."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fitgauge.services.ask import vocabulary as v
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.pieces import Piece

Phrases = Mapping[v.Phrase, v.Meaning]
"""Phrases, each with its kind of token and its value where it has one."""

DASHES = frozenset("-–—_/~")
GPU_CLASSIFIERS = frozenset("张块片枚張塊卡장대")
MACHINES = frozenset("台机")
MEMORY_UNITS = frozenset({"gib", "gbs", "gb", "gigs", "gig", "g"})

_NAMES_BEFORE_NUMBERS = ("LENGTH", "PROMPT", "OUTPUT", "USERS", "BATCH")
"""Settings that are named before their number as often as after it."""

_MOST_GPUS = 12
_MOST_MODELS = 24
"""Names that are looked up in one question: the rest is read as other words."""

_LONGEST_PHRASE = 5


class Token(NamedTuple):
    """One token of the grammar."""

    kind: str
    """The terminal of the grammar."""
    value: object
    """What it says."""
    text: str
    """As it was written, for what nothing reads."""
    start: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""
    sentence: int
    """Index of its sentence."""

    def __str__(self) -> str:
        return self.text


class Scan:
    """The pieces of one text, and the tokens that were read so far."""

    def __init__(
        self,
        text: str,
        pieces: Sequence[Piece],
        gpus: GpuNames,
        models: ModelNames,
        phrases: Phrases,
    ) -> None:
        self.text = text
        self.pieces = pieces
        self.gpus = gpus
        self.models = models
        self.phrases = phrases
        self.tokens: list[Token] = []
        self.sentence = 0
        self.gpus_left = _MOST_GPUS
        self.models_left = _MOST_MODELS

    def emit(self, kind: str, value: object, first: int, last: int) -> int:
        """Add a token over the pieces from first to last; return the index of the next piece."""
        start, end = self.pieces[first].start, self.pieces[last].end
        if kind == "OTHER" and self.last_kind() == kind:
            before = self.tokens[-1]
            if before.sentence == self.sentence:
                self.tokens[-1] = before._replace(end=end)
                return last + 1
        self.tokens.append(Token(kind, value, self.text[start:end], start, end, self.sentence))
        return last + 1

    def part(self, index: int) -> None:
        """Let nothing before the piece here bind to what follows."""
        place = self.pieces[index].start
        if self.last_kind() != "OTHER":
            self.tokens.append(Token("OTHER", None, "", place, place, self.sentence))

    def peek(self, index: int) -> Piece | None:
        """Return a piece, None beyond the last one."""
        return self.pieces[index] if 0 <= index < len(self.pieces) else None

    def through(self, index: int, end: int) -> int:
        """Return the index of the last piece, from one on, that ends before a place of the text."""
        while index + 1 < len(self.pieces) and self.pieces[index + 1].end <= end:
            index += 1
        return index

    def last_kind(self) -> str:
        """Return the kind of the last token."""
        return self.tokens[-1].kind if self.tokens else ""

    def longest_phrase(self, index: int) -> tuple[str, str | None, int] | None:
        """Return the kind of token, the value and the last piece of the phrase that begins here;
        None where none does."""
        words: list[str] = []
        best: tuple[str, str | None, int] | None = None
        place = index
        while place < len(self.pieces) and len(words) < _LONGEST_PHRASE:
            piece = self.pieces[place]
            if piece.kind == "sign" and piece.low in DASHES and words:
                place += 1
                continue
            if piece.kind != "word":
                break
            words.append(piece.low)
            if entry := self.phrases.get(tuple(words)):
                best = (*entry, place)
            place += 1
        return best

    def kind_at(self, index: int) -> tuple[str, int]:
        """Return the kind of token that a phrase here is, and its last piece."""
        piece = self.peek(index)
        if piece is None or piece.kind not in ("word", "han"):
            return "", index
        kind = v.HAN_PHRASES.get(piece.low, ("", None))[0]
        phrase = self.longest_phrase(index)
        return (kind, index) if phrase is None else (phrase[0], phrase[2])

    def counts_something(self, index: int) -> bool:
        """Return whether the number here counts tokens, users or the like. In "4090 ctx 32k" it
        does not: the setting has a number of its own behind it."""
        kind, last = self.kind_at(index + 1)
        if kind in _NAMES_BEFORE_NUMBERS and self.number_begins(last + 1):
            return False
        return kind in ("TOKENS", "UNIT", "RATE", *_NAMES_BEFORE_NUMBERS)

    def number_begins(self, index: int) -> bool:
        """Return whether a number begins here that counts no GPUs, behind a sign such as "=" or
        not."""
        piece = self.peek(index)
        if piece is not None and piece.kind == "sign" and piece.low in "=:":
            piece = self.peek(index + 1)
        return piece is not None and piece.low[0].isdigit() and not piece.low.endswith("x")
