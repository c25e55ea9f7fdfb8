"""Read names of models."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from fitgauge.catalog.name_parts import DESCRIPTIVE, KINDS
from fitgauge.services.ask.formats import FORMAT, read_formats_within
from fitgauge.services.ask.gpu_spans import is_gpu_word
from fitgauge.services.ask.names import UNBUNDLED, is_size, is_version, joined
from fitgauge.services.ask.scan import GPU_CLASSIFIERS, MACHINES, MEMORY_UNITS, Scan

_COUNT = re.compile(r"\d+k?")
_TOWER = re.compile(r"[ -](?:vision|multimodal|vlm)$", re.IGNORECASE)
"""Words behind a name that say that it sees, where its name does not: "gemma 3 4b vision"."""
_EXL = re.compile(r"[-_ ]exl[23](?:[-_ ][\w.]+)?$", re.IGNORECASE)
"""ExLlama's format at the end of a name, which has bits of its own: "-exl2-4.0bpw"."""
_COUNTED = frozenset({
    "x", "*", "%", "gpu", "gpus", "-", "bit", "bits", "node", "nodes", "prefill", "decode",
})  # fmt: skip
"""What follows a number that is no version."""
_LIKENESS = frozenset({"style", "like", "class", "sized", "size", "type"})
_MOST_PIECES = 24
"""Words and signs of a name."""
_EXPERTS = re.compile(r"\s?[*x]\s?(\d+)\b", re.IGNORECASE)
_BARE_VERSION = re.compile(r"\d(?:\.\d{1,2})?")


def is_repository(scan: Scan, text: str) -> bool:
    """Return whether "owner/name" is a repository of a model, and no path or fraction."""
    name = text.partition("/")[2]
    parts = re.findall(r"[a-z]+\d*|\d+(?:\.\d+)?[bm]?", name.replace("_", "-"))
    return any(map(is_size, parts)) or (
        any(scan.models.family_in(part) for part in parts) and len(name) > 4
    )


def read_model(scan: Scan, index: int) -> int | None:
    """Read the name of a model that begins here."""
    first = scan.pieces[index]
    if not first.low[0].isalpha() or not scan.models_left:
        return None
    whole = _whole_name(scan, index)
    phrase = scan.longest_phrase(index) if whole is None else None
    if phrase is not None and (
        phrase[0] == "ENGINE" or phrase[2] > index or (first.low,) in scan.phrases
    ):
        return None
    start = _Start(scan, index)
    words = _words_of_model(scan, index, max(start.last, whole or 0), start.named or bool(whole))
    if words is None:
        return None
    last = _without_prose(scan, index, words.last, words.ends)
    is_complete = words.sized or start.titled or whole is not None
    family = words.named and (is_complete or first.low not in DESCRIPTIVE)
    if first.low.rstrip("s") in KINDS and not words.sized and whole is None:
        return None  # "embeddings v3" of a name that is unknown
    if first.low in UNBUNDLED and not is_complete:
        return None
    if not family and not (words.sized_by_dash and len(first.low) > 1):
        return None
    scan.models_left -= 1
    if (mixture := _mixture(scan, index, last)) is not None:
        return scan.emit("MODEL", mixture, index, last + 2)
    alone = last == index and first.low in scan.models.english
    scan.emit("FAMILY" if alone else "MODEL", _spelled(scan, index, last), index, last)
    read_formats_within(scan, index, last)
    return last + 1


class _Words(NamedTuple):
    """The words of a name of a model."""

    last: int
    """Index of the last one."""
    ends: list[int]
    """What stands before each word behind a space."""
    named: bool
    """Whether one of them is a family."""
    sized: bool
    """Whether one is a size."""
    sized_by_dash: bool
    """Whether a size follows a dash."""


def _words_of_model(scan: Scan, index: int, last: int, named: bool) -> _Words | None:
    """Return the words of the name that begins at an index and goes on behind its first ones; None
    for the likeness of a model. last: of the first ones; named: whether they name a family."""
    sized, sized_by_dash, ends = False, False, list[int]()
    for place in range(last + 1, min(len(scan.pieces), index + _MOST_PIECES)):
        piece = scan.pieces[place]
        glued, word = piece.glued, piece.low
        if piece.kind == "sign" and word in "-_:." and glued:
            continue
        if piece.kind != "word" or not (glued or _goes_on(scan, place, named)):
            break
        if not glued and FORMAT.fullmatch(word):
            break
        if glued and word in _LIKENESS:
            return None  # "a 350M llama-style model"
        named |= scan.models.family_in(word) is not None and (glued or named)
        sized |= is_size(word)
        sized_by_dash |= is_size(word) and glued
        if not glued:
            ends.append(last)
        last = place
    return _Words(last, ends, named, sized, sized_by_dash)


def _without_prose(scan: Scan, first: int, last: int, ends: Sequence[int]) -> int:
    """Return the last piece of a name without the words behind a space that make it unknown:
    "gpt-oss-120b native". ends: what stands before each such word."""
    if not ends or scan.models.has(_spelled(scan, first, last)):
        return last
    for end in ends[:-4:-1]:
        behind = [piece.low for piece in scan.pieces[end + 1 : last + 1]]
        if any(word in KINDS or not word.isalpha() for word in behind):
            break
        if is_size(scan.pieces[end].low) and scan.models.has(_spelled(scan, first, end)):
            return end
    return last


def _mixture(scan: Scan, first: int, last: int) -> str | None:
    """Return a name whose experts are counted behind their size: "mixtral 7b*8"; None for any
    other."""
    name, size = _spelled(scan, first, last), scan.pieces[last].low
    count = _EXPERTS.match(scan.text, scan.pieces[last].end)
    if count is None or not is_size(size) or scan.models.has(name):
        return None
    mixture = f"{name[: -len(size)]}{count[1]}x{size}"
    return mixture if scan.models.has(mixture) else None


def _whole_name(scan: Scan, index: int) -> int | None:
    """Return the last piece of the longest bundled name that stands here whole, however its words
    are parted; None where none does. A number at its end that counts something is none of it."""
    text, place, last = "", index, None
    while place < len(scan.pieces) and len(text) < scan.models.longest_whole:
        piece = scan.pieces[place]
        if piece.kind == "word":
            text += joined(piece.low)
            counts = _COUNT.fullmatch(piece.low) and place > index
            if text in scan.models.whole and place > index and not counts:
                last = place
        elif not (piece.kind == "sign" and piece.low in "-_:" and piece.glued):
            break
        place += 1
    return last


class _Start:
    """How a name begins. `named`: with a family; `titled`: with two words or more that name one;
    `last`: the last piece of those words."""

    def __init__(self, scan: Scan, index: int) -> None:
        first, after, second = (scan.peek(index + offset) for offset in range(3))
        assert first is not None
        is_sized = after is not None and is_size(after.low)
        paired = (
            second is not None
            and after is not None
            and after.low == "-"
            and (first.low, second.low) in scan.models.pairs
        )
        title = max(
            (
                len(words)
                for words in scan.models.titles.get(first.low, ())
                if tuple(one.low for one in scan.pieces[index : index + len(words)]) == words
            ),
            default=0,
        )
        self.last = index + max(title - 1, 0)
        self.titled = paired or title > 1
        self.named = (
            self.titled
            or scan.models.family_in(first.low) is not None
            or (is_sized and first.low in scan.models.common)
            or (
                after is not None
                and (scan.models.mended(first.low), after.low) in scan.models.pairs
            )
            or (_has_size(scan, index + 1) and scan.models.mended(first.low) is not None)
        )


def _has_size(scan: Scan, index: int) -> bool:
    """Return whether a size stands here, behind a version that stands here too, or a version that
    begins with a letter: "r1"."""
    first, second = scan.peek(index), scan.peek(index + 1)
    if first is None or is_size(first.low):
        return first is not None
    is_named = not first.low[0].isdigit() or (second is not None and is_size(second.low))
    return is_named and is_version(first.low)


def _spelled(scan: Scan, first: int, last: int) -> str:
    """Return a name as it is written, but for misspelled families, and with a space before a
    size that is glued to letters: "Qwen7B". A family that has no such model was no misspelling:
    there is a Pixtral 12B, and no Mixtral of that size."""
    text, written, end = "", "", scan.pieces[first].start
    for piece in scan.pieces[first : last + 1]:
        glued = text[-1:].isalpha() and piece.start == end and is_size(piece.low)
        before = scan.text[end : piece.start] + " " * glued
        text += before + (scan.models.mended(piece.low) or piece.text)
        written += before + piece.text
        end = piece.end
    text = text if text == written or scan.models.has(text) else written
    text = _EXL.sub("", text)
    plain = _TOWER.sub("", text)
    if plain == text or scan.models.has(text) or not scan.models.sees(plain):
        return text
    return plain


def _goes_on(scan: Scan, index: int, named: bool) -> bool:
    """Return whether the word here, after a space, is a part of the name of a model."""
    word = scan.pieces[index].low
    if not named:
        return is_size(word) and not word.startswith("e")
    dash, behind = scan.peek(index + 1), scan.peek(index + 2)
    is_glued = dash is not None and behind is not None and dash.low in "-_" and dash.glued
    by_dash = is_glued and behind is not None and is_size(behind.low)  # I2V-14B
    if is_size(word) or (by_dash and not scan.models.family_in(word) and word not in DESCRIPTIVE):
        return not (word.endswith("m") and scan.counts_something(index))  # "1M context"
    if _BARE_VERSION.fullmatch(word) and is_size(scan.pieces[index - 1].low):
        return False
    has_unit = dash is not None and dash.low in MEMORY_UNITS
    if word.isdigit() and (has_unit or scan.counts_something(index)):
        return False  # "8b 16 GB", "phi 4 16 users"
    if dash and behind and dash.low == "-" and behind.low in ("bit", "bits"):
        return False  # "DeepSeek R1 2.51-bit"
    if _BARE_VERSION.fullmatch(word) or re.fullmatch(r"v\d(\.\d)?", word):
        after = scan.peek(index + 1)
        followed = after is not None and (
            (after.low in _COUNTED and not (after.low == "-" and scan.peek(index + 2) is not None))
            or after.low in GPU_CLASSIFIERS
            or after.low in MACHINES
            or scan.counts_something(index)
            or (
                after.kind == "word"
                and is_gpu_word(scan, after.low)
                and after.low not in DESCRIPTIVE
            )
        )
        return not followed
    form = scan.models.mended(word) or word
    return scan.models.continues(form, glued=False) and (word,) not in scan.phrases
