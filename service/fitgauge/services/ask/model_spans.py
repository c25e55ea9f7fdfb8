"""Read names of models."""

import re

from fitgauge.services.ask.formats import FORMAT, read_formats_within
from fitgauge.services.ask.gpu_spans import is_gpu_word
from fitgauge.services.ask.names import ENGLISH, is_size, is_version
from fitgauge.services.ask.scan import CARDS, MACHINES, Scan

_BARE_VERSION = re.compile(r"\d(?:\.\d{1,2})?")


def is_repository(scan: Scan, text: str) -> bool:
    """Return whether "owner/name" is a repository of a model, and no path or fraction."""
    owner, _, name = text.partition("/")
    if owner.isdigit() or name.isdigit():
        return False
    parts = re.findall(r"[a-z]+\d*|\d+(?:\.\d+)?[bm]?", name.replace("_", "-"))
    return any(map(is_size, parts)) or (
        any(scan.models.family_in(part) for part in parts) and len(name) > 4
    )


def read_model(scan: Scan, index: int) -> int | None:
    """Read the name of a model that begins here."""
    first = scan.pieces[index]
    if not first.low[0].isalpha() or not scan.models_left:
        return None
    phrase = scan.longest_phrase(index)
    if (first.low,) in scan.phrases or (phrase is not None and phrase[0] == "ENGINE"):
        return None
    after = scan.peek(index + 1)
    named = scan.models.family_in(first.low) is not None or (
        first.low in scan.models.common and after is not None and is_size(after.low)
    )
    second = scan.peek(index + 2)
    paired = (
        second is not None
        and after is not None
        and after.low == "-"
        and (first.low, second.low) in scan.models.pairs
    )
    named |= paired
    last, sized, sized_by_dash, versioned = index, False, False, False
    place = index + 1
    while place < len(scan.pieces) and place < index + 24:
        piece = scan.pieces[place]
        if piece.kind == "sign" and piece.low in "-_:." and piece.glued:
            place += 1
            continue
        glued = piece.glued
        if piece.kind != "word" or not (glued or _goes_on(scan, place, named)):
            break
        if glued and place == last + 1 and scan.gpus.anchors(piece.low):
            break
        word = piece.low
        if not glued and FORMAT.fullmatch(word):
            break
        named |= scan.models.family_in(word) is not None and (glued or named)
        if is_size(word):
            sized = True
            sized_by_dash |= glued
        elif is_version(word):
            versioned = True
        last = place
        place += 1
    common = first.low in ENGLISH
    family = named and (sized or versioned or paired or not common)
    if not family and not (sized_by_dash and len(first.low) > 1):
        return None
    scan.models_left -= 1
    scan.emit("MODEL", _spelled(scan, index, last), index, last)
    read_formats_within(scan, index, last)
    return last + 1


def _spelled(scan: Scan, first: int, last: int) -> str:
    """Return a name as it is written, with a space before a size that is glued to letters:
    "Qwen7B"."""
    text, end = "", scan.pieces[first].start
    for piece in scan.pieces[first : last + 1]:
        glued = text[-1:].isalpha() and piece.start == end and is_size(piece.low)
        text += scan.text[end : piece.start] + " " * glued + piece.text
        end = piece.end
    return text


def _goes_on(scan: Scan, index: int, named: bool) -> bool:
    """Return whether the word here, after a space, is a part of the name of a model."""
    word = scan.pieces[index].low
    if not named:
        return is_size(word) and not word.startswith("e")
    if is_size(word):
        return True
    if _BARE_VERSION.fullmatch(word) and is_size(scan.pieces[index - 1].low):
        return False
    if _BARE_VERSION.fullmatch(word) or re.fullmatch(r"v\d(\.\d)?", word):
        after = scan.peek(index + 1)
        followed = after is not None and (
            (
                after.low in ("x", "*", "%", "gpu", "gpus", "-", "bit", "bits")
                and not (after.low == "-" and scan.peek(index + 2) is not None)
            )
            or after.low in CARDS
            or after.low in MACHINES
            or scan.counts_something(index)
            or (after.kind == "word" and is_gpu_word(scan, after.low) and after.low not in ENGLISH)
        )
        return not followed
    return scan.models.continues(word, glued=False) and (word,) not in scan.phrases
