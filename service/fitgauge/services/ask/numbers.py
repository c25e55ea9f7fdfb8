"""Read numbers with their units, and take apart words that hold some."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from fitgauge.services.ask.formats import FORMAT
from fitgauge.services.ask.names import GpuNames, ModelNames
from fitgauge.services.ask.pieces import Piece
from fitgauge.services.ask.scan import GPU_CLASSIFIERS, MACHINES, MEMORY_UNITS, Scan

_NUMBER = re.compile(
    r"(?P<amount>\d{1,12}(?:\.\d{1,6})?)"
    r"(?P<unit>gib|gbs|gb|gigs|gig|g|mib|mb|tib|tb|bits|bit|bn|b|k|m|w|x|t)?(?P<rest>[a-z].*)?"
)
_MIXTURE = re.compile(r"(\d{1,3}x\d{1,4}(?:\.\d{1,3})?b)([a-z].*)?")
_PRODUCT = re.compile(
    r"(\d{1,3}) ?[*x] ?(\d{1,3}) ?(?:gi?b?)? ?= ?(\d{1,5}) ?gi?b?(?![a-z0-9])", re.IGNORECASE
)
_FACTORS = re.compile(r"([2-9]|1\d)\s?[x×*]\s?(\d{1,3})(?![\w.])(?!\s*gi?b)", re.IGNORECASE)
"""GPUs times the memory of each, without a unit."""
_RANGE = re.compile(r"\d+(?:\.\d+)?[-–~](?=\d+(?:\.\d+)? ?(?:gi?b|gbs|gigs?|g)\b)", re.IGNORECASE)
"""The start of a range of memory."""
_OWNED = re.compile(
    r"\b(?:on|have|got|across|over|own|auf|avec|con)\s+(?:an?\s+|my\s+)?$", re.IGNORECASE
)
"""Words by which a product is of GPUs: "fits on 2x24"."""
_LONGEST_PRODUCT = 24
_PIXELS = re.compile(r"\d{3,5}x(\d{3,5})")
_NUMBERED = frozenset({
    "windows", "win", "ubuntu", "debian", "macos", "ios", "android", "iphone", "pixel", "cuda",
    "driver", "python", "pytorch", "torch", "rocm", "ryzen", "hx", "gen", "gen.",
    "i3", "i5", "i7", "i9", "xeon", "epyc", "threadripper",
})  # fmt: skip
"""Words whose number is a part of their name: "Windows 10"."""
_NUMBERED_GPUS = frozenset({"rtx", "gtx"})
"""The same of GPUs: what the catalog has of them is read before."""
_LISTED = frozenset({"gpu", "device", "cuda"})
"""Words before the index of a GPU in a list."""
_FIRST_CPU = 2000
"""Of Ryzen's numbers, which end in an X: "5800X" counts no GPUs."""
_SMALLEST_MEMORY = 10
"""Of each GPU in a product [GB]: a smaller factor is bytes per parameter."""

_SCALE = {"k": 1024, "m": 1024 * 1024, "w": 10_000, "千": 1000, "万": 10_000, "萬": 10_000}
_POWERS = {float((1 << power) // 1000): 1 << power for power in range(15, 21)}
"""Powers of two by their thousands: 131k is 131,072."""
_WORDS = {
    **dict.fromkeys(("million", "millions", "mio", "millionen"), "m"),
    **dict.fromkeys(("billion", "billions", "mrd", "milliarden", "milliards"), "b"),
    **dict.fromkeys(("trillion", "trillions"), "t"),
}
"""Units that are written out."""
_UNIT_BEHIND = re.compile(r"\s*(?:-\s*(gi?b|b)|([a-z]+|[千万萬]))(?![a-z\d])", re.IGNORECASE)
_UNITS_APART = MEMORY_UNITS | {"b", "bn", "k", "tb", "千", "万", "萬"}
"""Units that stand behind a number with a space or a dash."""
_MILLION, _TRILLION = 1_000_000, 1_000_000_000_000
_SECONDS = {
    **dict.fromkeys(("ms", "msec", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
}
_GLUED_SETTINGS = ("tp", "pp", "dp", "ep", "zero", "bs", "batch", "ctx", "batchsize")
_MOST_CUTS = 6


def read_count_after(scan: Scan, index: int) -> int | None:
    """Read "* 8" and "x 8" after a name or a size."""
    last = scan.last_kind()
    after = scan.peek(index + 1)
    if after is None or not after.low.isdigit() or last not in ("GPU", "SIZE", "GPUS"):
        return None
    return scan.emit("COUNT", int(after.low), index, index + 1)


def read_classified(scan: Scan, number: int, first: int, sign: int) -> int:
    """Emit a number before its classifier: cards, machines, or pieces of anything."""
    low = scan.pieces[sign].low
    last = scan.last_kind()
    if low in GPU_CLASSIFIERS or (low == "개" and last == "GPU"):
        after = scan.peek(sign + 1)
        return scan.emit("COUNT", number, first, sign + (after is not None and after.low == "卡"))
    if low in MACHINES:
        after, further = scan.peek(sign + 1), scan.peek(sign + 2)
        whole = after is not None and further is not None and after.low + further.low == "机器"
        return scan.emit("MACHINES", number, first, sign + 2 * whole)
    return scan.emit("NUM", float(number), first, sign)


def _is_memory_of(scan: Scan, amount: float, word: str) -> bool:
    """Return whether a number before the name of a GPU is its memory: "three 24 3090"."""
    return scan.gpus.anchors(word) and scan.gpus.find(f"{word} {amount:g}GB") is not None


def _is_of_a_name(scan: Scan, index: int) -> bool:
    """Return whether a number ends a name that is no GPU's: "Windows 10", "Ryzen 5800X"."""
    before, further = scan.peek(index - 1), scan.peek(index - 2)
    if before is not None and before.low == "-" and before.glued:
        before = further
    return before is not None and before.low in _NUMBERED


def _is_index(scan: Scan, index: int) -> bool:
    """Return whether a number is that of a GPU in a list: "GPU 0: NVIDIA A40", a row of
    nvidia-smi."""
    before, after = scan.peek(index - 1), scan.peek(index + 1)
    if before is None or after is None:
        return False
    if after.low == ":":
        return before.low in _LISTED
    return before.low == "|" and scan.gpus.belongs(after.low)


def _end_of_range(scan: Scan, index: int) -> int | None:
    """Return where the end of a range of memory begins, whose start is here: "18-20GB"."""
    return index + 2 if _RANGE.match(scan.text, scan.pieces[index].start) else None


def _read_product(scan: Scan, index: int) -> int | None:
    """Read GPUs and the memory of each from what they have together: "8*24=192G", "48GB (2x24)"."""
    start = scan.pieces[index].start
    match = _PRODUCT.match(scan.text, start, start + _LONGEST_PRODUCT)
    if match is not None and int(match[1]) * int(match[2]) != int(match[3]):
        return None
    if match is None:
        match = _FACTORS.match(scan.text, start, start + _LONGEST_PRODUCT)
        if match is None:
            return None
        total = int(match[1]) * int(match[2])
        is_total = re.search(rf"\b{total}\s?gi?b", scan.text, re.IGNORECASE) is not None
        if not (is_total or _OWNED.search(scan.text, max(0, start - 16), start)):
            return None
    if int(match[2]) not in scan.gpus.memories or int(match[2]) < _SMALLEST_MEMORY:
        return None
    scan.emit("COUNT", int(match[1]), index, index)
    return scan.emit("SIZE", float(match[2]), index + 1, scan.through(index + 1, match.end()))


def read_number(scan: Scan, index: int) -> int:
    """Read a number and its unit."""
    if (product := _read_product(scan, index)) is not None:
        return product
    number = None if _is_of_a_name(scan, index) else _number_at(scan, index)
    if number is None:
        return scan.emit("OTHER", None, index, index)
    return _read_bare(scan, number) if number.unit is None else _read_measured(scan, number)


class _Number(NamedTuple):
    """A number as it is written."""

    amount: float
    """What it says."""
    unit: str | None
    """Its unit, None without one."""
    is_spelled: bool
    """Whether the unit is written out: "8 billion"."""
    first: int
    """Index of its first piece."""
    last: int
    """Index of the last piece of it and its unit."""


def _is_fit_into(scan: Scan, number: _Number) -> bool:
    """Return whether a number at the end of a sentence is the memory of a GPU: "fits in 48?"."""
    before, after = scan.peek(number.first - 1), scan.peek(number.last + 1)
    ends = after is None or after.kind == "end"
    is_memory = number.amount in scan.gpus.memories
    return before is not None and before.low in ("in", "into") and ends and is_memory


def _number_at(scan: Scan, index: int) -> _Number | None:
    """Return the number here with the unit in it or after it; None for other words."""
    match = _NUMBER.fullmatch(scan.pieces[index].low.replace(",", ""))
    if match is None or match["rest"]:
        return None
    amount, unit = float(match["amount"]), match["unit"]
    if unit is not None:
        return _Number(amount, unit, False, index, index)
    behind = _UNIT_BEHIND.match(scan.text, scan.pieces[index].end)
    unit = (behind[1] or behind[2]).lower() if behind else ""
    spelled = _WORDS.get(unit)
    if behind is None or not (spelled or unit in _UNITS_APART):
        return _Number(amount, None, False, index, index)
    return _Number(amount, spelled or unit, bool(spelled), index, scan.through(index, behind.end()))


def _read_bare(scan: Scan, number: _Number) -> int:
    """Read a number without a unit by what is around it."""
    amount, index, last = number.amount, number.first, number.last
    after = scan.peek(last + 1)
    if after is not None and after.kind in ("word", "han"):
        if after.low == "x":
            following = scan.peek(index + 2)
            if following is not None and (
                not following.low.isdigit() or scan.gpus.anchors(following.low)
            ):
                return scan.emit("COUNT", int(amount), index, index + 1)
        elif after.low in GPU_CLASSIFIERS or after.low in MACHINES or after.low in "个개":
            return read_classified(scan, int(amount), index, index + 1)
        elif scan.last_kind() == "COUNT" and _is_memory_of(scan, amount, after.low):
            return scan.emit("SIZE", amount, index, last)
        elif scan.last_kind() == "COUNT" and scan.gpus.anchors(after.low):
            return scan.emit("COUNT", int(amount), index, index)  # "2x8 H100"
    before = scan.peek(index - 1)
    if _is_index(scan, index) or (before is not None and before.low in _NUMBERED_GPUS):
        return scan.emit("OTHER", None, index, index)
    if _is_fit_into(scan, number):
        return scan.emit("SIZE", amount, index, last)
    if (end := _end_of_range(scan, index)) is not None:
        scan.part(index)
        return end
    if after is not None and after.low in _SECONDS:
        return scan.emit("DURATION", amount * _SECONDS[after.low], index, last + 1)
    if scan.last_kind() in ("RATE", "USERS") and scan.counts_something(index):
        scan.part(index)  # "tokens per second with 32 users", "users with 8k input"
    return scan.emit("NUM", amount, index, last)


def _read_measured(scan: Scan, number: _Number) -> int:
    """Read a number by its unit."""
    amount, unit, spelled, first, last = number
    if unit in MEMORY_UNITS:
        return scan.emit("SIZE", amount, first, last)
    if unit in ("tb", "tib"):
        return scan.emit("SIZE", amount * 1024, first, last)
    if unit in ("b", "bn"):
        return scan.emit("PARAMS", f"{amount:g}b", first, last)
    after = scan.peek(last + 1)
    if unit == "t" and after is not None and after.low in ("tokens", "token"):
        return scan.emit("NUM", amount * _TRILLION, first, last)
    if unit == "t" and spelled:
        return scan.emit("PARAMS", f"{amount * 1000:g}b", first, last)
    behind = after.low if after is not None else ""
    counts = (amount < _FIRST_CPU and behind not in _NUMBERED) or scan.gpus.anchors(behind)
    if unit == "x" and counts:
        return scan.emit("COUNT", int(amount), first, last)
    if unit == "m" and amount > 20:
        return scan.emit("PARAMS", f"{amount:g}m", first, last)
    if unit == "m" and spelled:
        return scan.emit("NUM", amount * _MILLION, first, last)
    if unit == "k" and amount in _POWERS:
        return scan.emit("NUM", float(_POWERS[amount]), first, last)
    if unit in _SCALE:
        if scan.last_kind() == "USERS" and scan.kind_at(last + 1)[0] in ("PROMPT", "OUTPUT"):
            scan.part(first)  # "users with 8k input, 2k output"
        return scan.emit("NUM", amount * _SCALE[unit], first, last)
    return scan.emit("OTHER", None, first, last)


def split(piece: Piece, gpus: GpuNames, models: ModelNames) -> Iterator[Piece]:
    """Take apart words that are written as one: 8xH100, 80gA100, 72Bqwen, Qwen7B, tp8."""
    for _ in range(_MOST_CUTS):
        if piece.kind != "word" or piece.low.isalpha() or piece.low.isdigit():
            break
        boundary = _boundary(piece.low, gpus, models)
        if boundary is None:
            break
        middle = piece.start + boundary
        yield Piece(
            "word", piece.text[:boundary], piece.low[:boundary], piece.start, middle, piece.glued
        )
        piece = Piece("word", piece.text[boundary:], piece.low[boundary:], middle, piece.end, True)
    yield piece


def _boundary(low: str, gpus: GpuNames, models: ModelNames) -> int | None:
    """Return where to cut a word, None for nowhere."""
    if gpus.anchors(low) or gpus.belongs(low) or FORMAT.fullmatch(low) or gpus.is_instance(low):
        return None
    if mixture := _MIXTURE.fullmatch(low):
        return mixture.end(1) if mixture[2] else None
    if low[0].isdigit():
        pixels = _PIXELS.fullmatch(low)
        if pixels and not gpus.anchors(pixels[1]):
            return None
        if count := re.match(r"\d{1,4}x(?=[a-z0-9])", low):
            return count.end()
        match = _NUMBER.fullmatch(low)
        if match and match["rest"] and match["unit"] and match["unit"] not in ("t", "k", "m", "w"):
            return match.end("unit")
        if match and match["rest"]:
            return match.end("amount")
        return None
    stem = re.match(r"[a-z]+", low)
    letters = stem[0] if stem else ""
    if len(letters) > 3 and letters in gpus.vocabulary:
        return len(letters)
    if letters in _GLUED_SETTINGS:
        return len(letters)
    if low[len(letters) :].startswith("."):
        return None
    if len(letters) > 1 and models.family_in(letters):
        return len(letters)
    plural = re.match(r"([a-z]{1,2}\d{1,3})(?=[a-z])", low)
    if plural and gpus.anchors(plural[1]) and not low.endswith("s"):
        return plural.end()
    return None
