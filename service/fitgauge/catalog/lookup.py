"""Resolve the name of a GPU to a row of the catalog and a count."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from fitgauge.catalog.accelerators import Accelerators
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.gpu_names import FILLERS, VENDORS, Spelling, clean, counts, read
from fitgauge.catalog.gpu_phrases import parts, phrases
from fitgauge.catalog.instances import Offer, Offers
from fitgauge.catalog.memory_sizes import largest_first, size_distance, sizes_as_words, sold_with
from fitgauge.catalog.memory_sizes import note as size_note
from fitgauge.catalog.near_gpus import near_gpus
from fitgauge.engine.accelerator import Accelerator, most_gpus
from fitgauge.engine.quantity import GB
from fitgauge.errors import (
    FitgaugeError,
    InvalidRequestError,
    UnknownAcceleratorError,
    UnlikeGpusError,
)

MAX_COUNT = 4096
MAX_CUSTOM_BYTES = 16_384 * GB

_SIZE_TOLERANCE = 0.03
"""A size in a name may be the marketed one, the tool's or the process's: 80 GB, 81559 MiB and 79.2
GiB are one GPU."""

_MOST_OTHERS = 4
_LOOSE_TOLERANCE = 0.06
"""The same within a phrase: people round what a tool shows, as 23 GB for a GPU sold with 24."""

_HOST_MEMORY = re.compile(r"(?!.*(?:\bgpus?\b|\bcards?\b|vram|显)).*\bram\b")
"""RAM alone is the memory of the host."""

_TYPO_SIMILARITY = 0.75
"""Least similarity of a word for a typo to be corrected: "gefroce", never "foo"."""

_PLURAL = re.compile(r"(?<=\d{4})s\b")
"""The s of "two 3090s"; of one GPU it says SUPER first, as in "4070s"."""

_REMARK = re.compile(r"\s*\((?![^()]*\d\s*(?:[gmt]i?b|gpu|node|card|x\b))[^()]*\)$")
"""A remark at the end that names no size and no number of GPUs: "L4 24GB (g6.xlarge)"."""

_WINDOWS = re.compile(r"\s+(?:\(|(?:on|under|in|with)\s+)?(?:wsl ?2?|windows(?: 1[01])?)\)?$")
_OF_WINDOWS = (
    "What Windows and its desktop hold of the GPU is not counted: send `other_memory_gib`, as its"
    " task manager shows it."
)

_DGX = re.compile(r"(?:nvidia )?dgx[ -](?!spark)")
"""A machine of NVIDIA's, which is named after the GPUs in it."""

_RACK = re.compile(r"\bnvl ?(36|72|144)\b")
"""Racks of Grace Blackwell and Vera Rubin."""

_HINT = (
    'Send a name such as "RTX 4090", "2x L40S" or "p5.48xlarge", or a memory size such as "24GB".'
    " GET /v1/gpus lists all accelerators."
)


class Lookup:
    """Resolves names in one catalog."""

    def __init__(
        self,
        accelerators: Accelerators,
        offers: Offers,
        names: Mapping[str, tuple[Accelerator, int]],
    ) -> None:
        """names: clean texts with the GPU and count they stand for, which take precedence."""
        self._accelerators = accelerators
        self._offers = offers
        self._names = names
        self._cached = lru_cache(maxsize=4096)(self._find)

    def find(self, text: str) -> GpuMatch:
        """Return the accelerator and the count that `text` means: "2x4090",
        "NVIDIA-H100-80GB-HBM3", "aws p5.48xlarge", "24GB".

        Raise UnknownAcceleratorError, with close matches, for an unknown or ambiguous name, and
        InvalidRequestError for an invalid text or a count outside 1 to 4096."""
        return self._cached(clean(text))

    def find_unlike(self, text: str) -> GpuMatch:
        """Return the same, also of GPUs of several kinds that one maker's driver runs together:
        "RTX 4090 + RTX 3060". Raise as `find`."""
        matches = self._parts(clean(text))
        gpus = tuple(one.accelerator for one in matches for _ in range(one.count))
        alone = any(most_gpus(gpu, 2) < 2 for gpu in gpus)
        if len(set(gpus)) < 2 or len({gpu.vendor for gpu in gpus}) > 1 or alone:
            return self.find(text)
        smallest = min(gpus, key=lambda gpu: gpu.usable.expected)
        notes = " ".join(one.note for one in matches if one.note) or None
        return _match(smallest, len(gpus), notes, unlike=gpus)

    def _find(self, text: str) -> GpuMatch:
        """`find` for a clean text."""
        if match := self._several(text):
            return match
        for reading, remark in self._readings(text):
            for count, name in counts(reading, self._vocabulary):
                if machine := self._machine(name):
                    offer, accelerator = machine
                    note = f"{offer.cloud} {offer.instance} has {offer.count} x {accelerator.name}."
                    return _match(
                        accelerator, count * offer.count, " ".join(filter(None, (remark, note)))
                    )
                singular = _PLURAL.sub("", name)
                for form in (name, singular) if count == 1 else (singular, name):
                    rows, each = self._candidates(form)
                    if rows:
                        whole = _gpus_of_one(name, rows[0]) if count == 1 else 1
                        return _match(
                            rows[0],
                            count * each * whole,
                            " ".join(filter(None, (remark, _note(name, rows)))) or None,
                            rows[1:],
                        )
        for count, name in counts(text, self._vocabulary):
            if family := self._family(name):
                offer, accelerator = family
                counted = "one is" if count == 1 else f"{count:g} are"
                return _match(
                    accelerator,
                    count,
                    f"{offer.cloud} instances such as {offer.instance} have {accelerator.name};"
                    f" {counted} counted.",
                )
        if match := self._phrase(text):
            return match
        spelling = read(text, self._vocabulary)._replace(sizes=())
        of_the_name = self._matching(spelling, 0) if spelling.words else []
        near = near_gpus(text, of_the_name, self._accelerators.all(), self._offers.all())
        raise UnknownAcceleratorError(
            f"Unknown accelerator {text!r}.",
            hint=_HINT,
            matches=near,
            field="gpu",
            send={"gpu": near[0]} if near else None,
        )

    def _readings(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Yield the ways to read a clean text, the plainest first, each with its note."""
        yield text, None
        if (plain := _WINDOWS.sub("", text)) != text:
            yield plain, _OF_WINDOWS
        if (plain := _REMARK.sub("", text)) != text:
            yield plain, "Text in brackets is ignored."
        if (mended := self._mend(text)) != text:
            yield mended, f"Read as {mended!r}."

    def _machine(self, name: str) -> tuple[Offer, Accelerator] | None:
        """Return the cloud's machine that a text without a count names, with the accelerator in
        it."""
        if name in self._exact:
            return None
        rows = self._accelerators.by_id
        return next(
            (
                (offer, rows[offer.accelerator_id])
                for offer in self._offers.named(name)
                if offer.accelerator_id in rows
            ),
            None,
        )

    def _family(self, name: str) -> tuple[Offer, Accelerator] | None:
        """Return one of the cloud's machines that a text without a count names together, with
        the accelerator in all of them."""
        offer = self._offers.family(name)
        accelerator = offer and self._accelerators.by_id.get(offer.accelerator_id)
        return (offer, accelerator) if offer and accelerator else None

    def _candidates(self, name: str) -> tuple[list[Accelerator], int]:
        """Return the candidates of a text without a count, the likeliest first, and the GPU count
        it stands for."""
        if name in self._exact:
            accelerator, count = self._exact[name]
            return [accelerator], count
        return self._rows(name), 1

    def _rows(self, name: str) -> list[Accelerator]:
        """Return the rows whose pattern matches, else a GPU of the size alone."""
        spelling = read(name, self._vocabulary)
        if not spelling.words:
            return [] if _HOST_MEMORY.match(name) else self._of_size(spelling)
        return self._matching(spelling, _SIZE_TOLERANCE)

    def _matching(self, spelling: Spelling, tolerance: float) -> list[Accelerator]:
        """Return the rows whose pattern matches, nearest in size, within `tolerance` of it."""
        rows: dict[str, tuple[float, Accelerator]] = {}
        for needed, allowed, row in self._accelerators.patterns:
            if needed <= spelling.words | sizes_as_words(spelling) and spelling.words <= allowed:
                distance = size_distance(
                    row, [size for size in spelling.sizes if f"{size.gigabytes:g}gb" not in allowed]
                )
                if distance <= tolerance and spelling.vendors <= {row.vendor}:
                    rows[row.id] = min(
                        rows.get(row.id, (distance, row)),
                        (distance, row),
                        key=lambda entry: entry[0],
                    )
        nearest = min((distance for distance, _ in rows.values()), default=0.0)
        return largest_first([row for distance, row in rows.values() if distance == nearest])

    def _of_size(self, spelling: Spelling) -> list[Accelerator]:
        """Return a GPU named by its size alone, "80GB", "24 gb gpu", and what else GPUs of this
        size give. Raise InvalidRequestError for a size that is zero or absurd."""
        if len(spelling.sizes) != 1 or spelling.vendors:
            return []
        size = spelling.sizes[0]
        if not 0 < size.bytes <= MAX_CUSTOM_BYTES:
            raise InvalidRequestError(
                f"A GPU of {size} is out of range.",
                hint='Send a size such as "24GB" or "80GiB".',
                field="gpu",
            )
        return list(sold_with(size, self._accelerators.all()))

    def _phrase(self, text: str) -> GpuMatch | None:
        """Return the GPU that a text holds among other words; None where it holds none for
        certain."""
        for word in text.split():
            if "." in word and (machine := self._machine(word.removeprefix("ml."))):
                offer, accelerator = machine
                note = f"{offer.cloud} {offer.instance} has {offer.count} x {accelerator.name}."
                return _match(accelerator, offer.count, note)
        mended = self._mend(text)
        for written in dict.fromkeys((text, mended)):
            for phrase in phrases(written, self._vocabulary):
                if not phrase.spelling.words | phrase.spelling.vendors and _HOST_MEMORY.match(text):
                    continue
                if rows := self._lenient_matches(phrase.spelling):
                    notes = [f"Read as {phrase.times} x {rows[0].name}."]
                    if phrase.ignored:
                        notes.append(f"Ignored: {', '.join(phrase.ignored)}.")
                    if reading := _note(text, rows):
                        notes.append(reading)
                    return _match(rows[0], phrase.times, " ".join(notes), rows[1:])
        return None

    def _lenient_matches(self, spelling: Spelling) -> list[Accelerator]:
        """Return the rows of a spelling, else of one that differs in what people mix up: the
        laptop's GPU and the Mac's chip by their size, GTX and RTX."""
        if not spelling.words:
            return self._sold_by(spelling)
        brands = {"gtx": "rtx", "rtx": "gtx"}
        swapped = frozenset(brands.get(word, word) for word in spelling.words)
        for words in (spelling.words, swapped):
            for more in (frozenset(), frozenset({"laptop"})):
                if more and not spelling.sizes:
                    continue
                if rows := self._matching(spelling._replace(words=words | more), _LOOSE_TOLERANCE):
                    return rows
        return self._chips_of_size(spelling)

    def _chips_of_size(self, spelling: Spelling) -> list[Accelerator]:
        """Return the Pro, Max and Ultra chips of a generation that are sold with a size that the
        plain one is not: "M3 36GB"."""
        chips = ("pro", "max", "ultra") if spelling.sizes else ()
        named = [spelling._replace(words=spelling.words | {chip}) for chip in chips]
        rows = [row for one in named for row in self._matching(one, _SIZE_TOLERANCE)]
        return [row for row in rows if row.vendor == "Apple"]

    def _sold_by(self, spelling: Spelling) -> list[Accelerator]:
        """Return the machines of unified memory that a vendor and a size name: "96GB Mac"; the
        GPU of a size alone where no vendor is named."""
        if spelling.vendors != {"Apple"} or len(spelling.sizes) != 1:
            return self._of_size(spelling)
        return list(
            dict.fromkeys(
                row
                for _, _, row in self._accelerators.patterns
                if row.vendor == "Apple"
                and size_distance(row, list(spelling.sizes)) <= _SIZE_TOLERANCE
            )
        )

    def _several(self, text: str) -> GpuMatch | None:
        """Return the count of one GPU written several times; None where the text has no parts.
        Raise UnlikeGpusError for GPUs that differ."""
        matches = self._parts(text)
        if not matches:
            return None
        smallest = min(matches, key=lambda match: match.accelerator.usable.expected).accelerator
        count = sum(match.count for match in matches)
        if any(match.accelerator.id != smallest.id for match in matches):
            raise UnlikeGpusError(
                f"{' + '.join(f'{one.count} x {one.accelerator.name}' for one in matches)}: only"
                " llama.cpp and ollama divide layers over GPUs of several kinds.",
                hint="Send one of these as engine; or the smallest of the GPUs: what fits on it"
                " fits on the others too.",
                matches=tuple(dict.fromkeys(one.accelerator.name for one in matches)),
                field="gpu",
                send={"gpu": smallest.name, "gpu_count": count},
            )
        return _match(smallest, count, f"Read as {count} x {smallest.name}.")

    def _parts(self, text: str) -> list[GpuMatch]:
        """Return what a text with several parts names in each; empty where a part names no GPU
        of the catalog."""
        try:
            matches = [self.find(part) for part in parts(text)]
        except FitgaugeError:
            return []
        custom = any(match.accelerator.vendor == "custom" for match in matches)
        return [] if custom else matches

    def _mend(self, text: str) -> str:
        """Return `text` with typos corrected in words of letters; words with digits stay."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        vocabulary = [
            word
            for word in self._vocabulary | VENDORS.keys() | FILLERS
            if word.isalpha() and len(word) >= 4
        ]
        words = []
        for word in text.split():
            best = None
            if word.isalpha() and len(word) >= 4 and word not in vocabulary:
                best = process.extractOne(
                    word,
                    vocabulary,
                    scorer=OSA.normalized_similarity,
                    score_cutoff=_TYPO_SIMILARITY,
                )
            words.append(best[0] if best else word)
        return " ".join(words)

    @cached_property
    def _exact(self) -> dict[str, tuple[Accelerator, int]]:
        """Every name of the overlay, id and row's name, in lower case, with its row and GPU
        count."""
        rows = self._accelerators.all()
        return (
            {row.name.lower(): (row, 1) for row in rows}
            | {row.id: (row, 1) for row in rows}
            | dict(self._names)
        )

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """Every word of the patterns."""
        return frozenset().union(*(pattern.allowed for pattern in self._accelerators.patterns))


def _match(
    accelerator: Accelerator,
    count: float,
    note: str | None,
    others: Sequence[Accelerator] = (),
    unlike: tuple[Accelerator, ...] = (),
) -> GpuMatch:
    """Return the match. Raise InvalidRequestError for a `count` that is not a whole number in
    range."""
    if count != int(count) or not 1 <= count <= MAX_COUNT:
        raise InvalidRequestError(
            f"The GPU count must be a whole number, not {count:g}.",
            hint=f"Send a whole number from 1 to {MAX_COUNT}.",
            field="gpu",
            code="invalid-value",
            send={"gpu": accelerator.name},
        )
    return GpuMatch(accelerator, int(count), note, tuple(others[:_MOST_OTHERS]), unlike=unlike)


def _gpus_of_one(name: str, gpu: Accelerator) -> int:
    """Return the GPUs of what a text without a count names: a DGX is a whole machine, while people
    call single GPUs "HGX" too."""
    return gpu.node_size if gpu.node_size and _DGX.match(name) else 1


def _note(name: str, rows: list[Accelerator]) -> str | None:
    """Return the note on how `name` was read: other candidates, a board of two devices, a size
    alone."""
    first, *others = rows
    if first.vendor == "custom":
        return size_note(first)
    notes = []
    if others:
        notes.append(
            f"{name!r} is read as {first.name}; it could also be"
            f" {', '.join(row.name for row in others[:_MOST_OTHERS])}."
        )
    if "(per " in first.name:
        notes.append("One board has two of these devices; one device is counted.")
    if first.node_size and _DGX.match(name):
        notes.append(f"One DGX has {first.node_size} x {first.name}.")
    elif first.node_size and name.startswith("hgx "):
        notes.append(f"One accelerator is counted; the board of this name has {first.node_size}.")
    if rack := _RACK.search(name):
        notes.append(f"One accelerator is counted; the rack of this name has {rack[1]}.")
    return " ".join(notes) or None
