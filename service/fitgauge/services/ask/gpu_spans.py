"""Read names of GPUs and of the clouds' machines."""

import re

from fitgauge.catalog.gpu_names import VENDORS
from fitgauge.services.ask.scan import DASHES, Scan

_RUN = re.compile(r"[A-Za-z][A-Za-z0-9.]*(?:[-_][A-Za-z0-9.]*[A-Za-z0-9])+")
"""A word of several parts."""

_SERIES = re.compile(r"N[CD]\w{0,10}[ _-]?[A-Z]{1,2}\d{1,3}X?[ _-]v\d\b", re.IGNORECASE)
"""Machines of Azure, and their series: "NC24ads A100 v4", "ND H100 v5"."""

_CPU = re.compile(r"i[3579]|xeon|core|ryzen|epyc|threadripper|cpu")
"""What follows a vendor of GPUs where a CPU of it is named."""

_DESKTOPS = frozenset({"framework desktop"})
"""Machines with one GPU, whose words alone name none."""

_MEMORY = re.compile(r"(?:\s+|-)(\d{1,3})s?(?!\w|[.,]\d)(?!\s*(?:[x*%/]|k\b))", re.IGNORECASE)
"""A number behind a name, which counts nothing."""
_CHIPS = re.compile(r"-\d+\b")
_APART = re.compile(r"([A-Za-z]{1,2})-(\d+)\b|([A-Z]{1,2}) (\d+)\b")
_TPU = re.compile(r"tpu|\bv\d(?:e|p|litepod)\b", re.IGNORECASE)
"""Cloud names of TPUs end in how many chips or cores a slice has."""


_MOST_PIECES = 12
"""Words and signs of a name."""
_MOST_ENDS = 6
"""Names that are looked up from one word on."""


def read_instance(scan: Scan, index: int) -> int | None:
    """Read the name of a cloud's machine: p5.48xlarge, a2-highgpu-8g, Standard_ND96isr_H100_v5."""
    piece = scan.pieces[index]
    run = _SERIES.match(scan.text, piece.start) or _RUN.match(scan.text, piece.start)
    if run and scan.gpus_left and scan.gpus.is_instance(run[0]):
        scan.gpus_left -= 1
        return scan.emit("GPU", run[0], index, scan.through(index, run.end()))
    if "." in piece.low:
        name = re.sub(r"large[a-z]?$|larg$|(?<=\dx)l$", "large", piece.low)
        if "large" in name and scan.gpus_left:
            scan.gpus_left -= 1
            if scan.gpus.find(name):
                return scan.emit("GPU", name, index, index)
    return None


def read_gpu(scan: Scan, index: int) -> int | None:
    """Read the name of a GPU that begins here."""
    low = scan.pieces[index].low
    if not scan.gpus_left or (low.isdigit() and not scan.gpus.anchors(low)):
        return None
    if not is_gpu_word(scan, low) and _letters_and_digits(scan, index) is None:
        return None
    last, ends = _words_of_gpu(scan, index)
    if not ends:
        return _read_unanchored(scan, index, last)
    for end in reversed(ends[:_MOST_ENDS]):
        if not scan.gpus_left:
            return None
        scan.gpus_left -= 1
        text = scan.text[scan.pieces[index].start : scan.pieces[end].end]
        if scan.gpus.find(text):
            return _emit(scan, text, index, end)
    return None


def _words_of_gpu(scan: Scan, index: int) -> tuple[int, list[int]]:
    """Return the last of the words from here that may be of one GPU's name, and the places where a
    name with a number of GPUs may end."""
    last, before, place = index, "", index
    ends: list[int] = []
    while place < min(len(scan.pieces), index + _MOST_PIECES):
        piece = scan.pieces[place]
        joined = _letters_and_digits(scan, place)
        plus = piece.low == "+" and piece.glued and before.isalpha()  # "Ryzen AI Max+ 395"
        if joined is not None:
            last, before = joined, ""
            ends.append(joined)
            place = joined
        elif piece.kind == "word" and (
            is_gpu_word(scan, piece.low) or (before, piece.low) == ("max", "q")
        ):
            if ends or scan.gpus.anchors(piece.low, before):
                ends.append(place)
            last, before = place, piece.low
        elif not (piece.kind == "sign" and (piece.low in DASHES or plus)):
            break
        place += 1
    return last, ends


def _read_unanchored(scan: Scan, index: int, last: int) -> int | None:
    """Read words of GPUs of which none alone tells one: a Mac, a machine, a vendor."""
    first = scan.pieces[index]
    text = scan.text[first.start : scan.pieces[last].end]
    has_number = last > index + 1 and any(map(str.isdigit, text))
    if (has_number or text.lower() in _DESKTOPS) and scan.gpus.find(text):
        return scan.emit("GPU", text, index, last)
    if _is_mac(scan, index, last):
        size = re.match(r"(\d{1,4})\s?gi?b", text, re.IGNORECASE)
        if size is not None:
            scan.emit("SIZE", float(size[1]), index, index)
            index += 1
        return scan.emit("MAC", None, min(index, last), last)
    if first.low not in VENDORS:
        return None
    after = scan.peek(index + 1)
    is_cpu = after is not None and _CPU.fullmatch(after.low) is not None
    return scan.emit("RAM" if is_cpu else "GPUS", None, index, index)


def _emit(scan: Scan, text: str, first: int, last: int) -> int:
    """Emit a GPU; the number after a TPU's name ("TPU v5e-8") is that of its chips, that after
    another one ("A100 40") its memory where the catalog has such a one."""
    end = scan.pieces[last].end
    memory = _MEMORY.match(scan.text, end)
    place = scan.through(last, memory.end()) if memory else last
    if memory and float(memory[1]) in scan.gpus.memories and not scan.longest_phrase(place + 1):
        sized = f"{text} {memory[1]}GB"
        if scan.gpus.find(sized) is not None:
            return scan.emit("GPU", sized, first, place)
    chips = _CHIPS.match(scan.text, end) if _TPU.search(text) else None
    if chips and scan.gpus.find(text + chips[0]):
        return scan.emit("GPU", text + chips[0], first, last + 2)
    return scan.emit("GPU", text, first, last)


def is_gpu_word(scan: Scan, word: str) -> bool:
    """Return whether a word may stand in the name of a GPU."""
    return scan.gpus.belongs(word) or scan.gpus.anchors(word)


def _letters_and_digits(scan: Scan, index: int) -> int | None:
    """Return the last piece of "h-200" or "A 100": letters and digits that are one word."""
    apart = _APART.match(scan.text, scan.pieces[index].start)
    if apart is None or not scan.gpus.anchors("".join(filter(None, apart.groups())).lower()):
        return None
    return scan.through(index, apart.end())


def _is_mac(scan: Scan, first: int, last: int) -> bool:
    return any(
        scan.pieces[place].low.startswith(("mac", "imac")) for place in range(first, last + 1)
    )
