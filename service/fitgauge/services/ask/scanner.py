"""Pieces of a question as the tokens of the grammar."""

import re
from functools import cached_property

from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.ask import vocabulary as v
from fitgauge.services.ask.formats import read_format, read_format_of
from fitgauge.services.ask.gpu_spans import read_gpu, read_instance
from fitgauge.services.ask.model_spans import is_repository, read_model
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.numbers import read_classified, read_count_after, read_number, split
from fitgauge.services.ask.pieces import pieces
from fitgauge.services.ask.scan import GPU_CLASSIFIERS, Phrases, Scan, Token

_SILENT = frozenset("-–—_=:~≈()（）[]'\"`*「」“”<>{}|#【】&约")
_HAN_USERS = tuple(text for text, (kind, _) in v.HAN_PHRASES.items() if kind == "USERS")
_HAN_PREFIXES = frozenset(
    text[:length] for text in (*v.HAN_PHRASES, *v.HAN_NUMBERS) for length in range(1, len(text) + 1)
)
_LONGEST_HAN = max(map(len, v.HAN_PHRASES))
_CLASSIFIERS = frozenset("台机个개대")
_FLAG = re.compile(r"--[A-Za-z][\w.-]*")
_LONG_NAME = 4
"""Letters from which on an engine is recognized within another word."""
_NOUNS = frozenset({"model", "models", "llm", "llms", "parameter", "parameters", "params", "paras"})


class Scanner:
    """Reads tokens with the names of one catalog and one snapshot."""

    def __init__(self, gpus: GpuNames, models: ModelNames) -> None:
        self._gpus = gpus
        self._models = models

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of a plain text."""
        parts = [part for piece in pieces(text) for part in split(piece, self._gpus, self._models)]
        scan = Scan(text, parts, self._gpus, self._models, self._phrases)
        index = 0
        while index < len(parts):
            index = _read(scan, index)
        return scan.tokens

    @cached_property
    def _phrases(self) -> Phrases:
        """Every phrase with its kind of token and value."""
        engines = {
            phrase: name
            for name, row in ENGINES.items()
            for word in (name, *row.words)
            for phrase in (tuple(re.findall(r"[a-z]+|\d+", word.lower())), (word.lower(),))
            if not word.isdigit() and word.lower() not in self._models.families
        }
        phrases: dict[v.Phrase, v.Meaning] = {
            phrase: ("ENGINE", name) for phrase, name in engines.items() if phrase
        }
        phrases |= v.PHRASES
        return phrases


def _read(scan: Scan, index: int) -> int:
    piece = scan.pieces[index]
    if piece.kind == "end":
        after = scan.emit("OTHER", None, index, index)
        if piece.low not in (",", "、"):
            scan.sentence += 1
        return after
    if piece.kind == "sign":
        return _read_sign(scan, index)
    if piece.kind == "hub":
        image = scan.phrases.get((piece.low.partition("/")[2],))
        if image is not None and image[0] == "ENGINE":
            return scan.emit(*image, index, index)  # "ollama/ollama"
        if is_repository(scan, piece.low):
            scan.emit("MODEL", piece.text, index, index)
            read_format_of(scan, piece)
            return index + 1
        kind, value = scan.phrases.get(tuple(piece.low.split("/")), ("OTHER", None))
        return scan.emit(kind if kind == "RATE" else "OTHER", value, index, index)
    if piece.kind == "han":
        return _read_han(scan, index)
    for read in (read_instance, read_gpu, _read_engine, read_model, read_format, _read_phrase):
        if (following := read(scan, index)) is not None:
            return following
    if piece.low[0].isdigit():
        return read_number(scan, index)
    return _read_word(scan, index)


def _read_sign(scan: Scan, index: int) -> int:
    piece = scan.pieces[index]
    if piece.low in "$€£":
        return scan.emit("MONEY", None, index, index)
    if piece.low == "%":
        return scan.emit("PERCENT", None, index, index)
    if piece.low == "*":
        if (count := read_count_after(scan, index)) is not None:
            return count
        return index + 1
    if piece.low == "/" and scan.last_kind() in ("NUM", "MONEY") and _is_time(scan, index + 1):
        return index + 1
    if piece.low == "-" and not piece.glued and _FLAG.match(scan.text, piece.start):
        scan.part(index)  # the number before it is of another one
    if piece.low in _SILENT:
        before = scan.peek(index - 1)
        if piece.low in "=~≈" and before is not None and before.low.isdigit():
            return scan.emit("OTHER", None, index, index)
        return index + 1
    return scan.emit("OTHER", None, index, index)


def _is_time(scan: Scan, index: int) -> bool:
    """Return whether that of which a price is stands here: "$5/h"."""
    phrase = scan.longest_phrase(index)
    return phrase is not None and phrase[0] in ("HOURLY", "MONTHLY")


def _read_han(scan: Scan, index: int) -> int:
    """Read a phrase of a script without spaces, the longest that begins here."""
    texts = [scan.pieces[index].low]
    while len(texts) < _LONGEST_HAN and (after := scan.peek(index + len(texts))) is not None:
        if (longer := texts[-1] + after.low) not in _HAN_PREFIXES:
            break
        texts.append(longer)
    for last, text in reversed(list(enumerate(texts, index))):
        if text in v.HAN_PHRASES:
            kind, value = v.HAN_PHRASES[text]
            return scan.emit(kind, int(value or 1) if kind == "COUNT" else value, index, last)
        if text in v.HAN_NUMBERS:
            number = v.HAN_NUMBERS[text]
            after = scan.peek(last + 1)
            if after is not None and (after.low in GPU_CLASSIFIERS or after.low in _CLASSIFIERS):
                return read_classified(scan, number, index, last + 1)
            ahead = "".join(piece.low for piece in scan.pieces[last + 1 : last + 5])
            if ahead.startswith(_HAN_USERS):
                return scan.emit("NUM", float(number), index, last)
    if texts[0] in v.HAN_NOISE:
        return index + 1
    return scan.emit("OTHER", None, index, index)


def _read_engine(scan: Scan, index: int) -> int | None:
    """Read an engine within a word, as that of a site or a client: ollama.com, ollamajs."""
    piece = scan.pieces[index]
    stem, _, rest = piece.low.partition(".")
    if not rest:
        stem = re.sub(r"(?:js|py|rs|sharp|s)$", "", stem)
    entry = scan.phrases.get((stem,))
    if stem == piece.low or len(stem) < _LONG_NAME or entry is None or entry[0] != "ENGINE":
        return None
    return scan.emit("ENGINE", entry[1], index, index)


def _read_phrase(scan: Scan, index: int) -> int | None:
    """Read the longest phrase that begins here."""
    best = scan.longest_phrase(index)
    if best is None:
        singular = scan.pieces[index].low.removesuffix("s")
        entry = scan.phrases.get((singular,))
        if entry is None or entry[0] != "METHOD":
            return None
        best = (*entry, index)
    kind, value, last = best
    sign = scan.peek(last + 1)
    if sign is not None and sign.low in "=:" and scan.number_begins(last + 1):
        scan.part(index)  # "lr: 1 max_length: 512"
    return scan.emit(kind, value, index, last)


def _read_word(scan: Scan, index: int) -> int:
    piece = scan.pieces[index]
    low = piece.low
    if low == "pair":
        return scan.emit("COUNT", 2, index, index)
    if low in v.NUMBER_WORDS:
        return scan.emit("NUM", float(v.NUMBER_WORDS[low]), index, index)
    if low in ("x", "x") and (after := read_count_after(scan, index)) is not None:
        return after
    if re.fullmatch(r"x\d{1,3}", low):
        return scan.emit("COUNT", int(low[1:]), index, index)
    if low == "x" and scan.last_kind() == "MACHINES":
        return index + 1  # "2 nodes x 8 H100"
    if low in _NOUNS:
        return scan.emit("NOUN", None, index, index)
    if low in v.NOISE and not (low == "at" and scan.last_kind() == "BATCH"):
        return index + 1
    return scan.emit("OTHER", None, index, index)
