"""GPUs within other words: "2 nodes of 8xH100", "两张A100 40G的显卡", "T4 in Colab".

Every pattern is linear in the length of the text, which `gpu_names.clean` bounds."""

import re
from collections.abc import Iterator, Set
from typing import NamedTuple

from fitgauge.catalog.gpu_names import CHINESE_NUMBERS, NUMBERS, Size, Spelling, read

_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"['’]s\b", ""),
        (r"(?<=[a-z0-9.)])(?=[^\x00-\x7f])|(?<=[^\x00-\x7f])(?=[a-z0-9(])", " "),
        (r"\bgoogle (?=colab|cloud)", ""),
        (r"\b(?:xe2|[rc]dna ?\d)(?: architecture)?\b", " "),
        (r"(?<=\d) ?gig(?:abyte)?s?\b", "gb"),
        (r"(?<=\d)(g|gb|gib)s\b", "gb"),
        (r"(?<![\w.])(\d{1,3})(?:gb|g)(?=v?ram\b|[a-z]+\d)", r"\1gb "),  # 80gA100, 24GBvRAM
        (r"(?<![\w.])(\d{4})(?=nvidia|amd|geforce|radeon|gpu)", r"\1 "),
        (r"(?<=\d)k ?(?=pro\b|pro[^a-z]|blackwell)", "000 "),  # rtx 6k pro
        (r"(?<=\d)kpro\b", "000 pro"),
        (r"(?<![\w.])\d+(?:\.\d+)? ?[tg]b (?:of )?(?:ssd|nvme|hdd|disk|storage)\b", " "),
        (r"(?<![\w.])\d+[ -]?(?:cpu |gpu )?cores?\b", " "),
        ("的|显卡|显存|服务器|机器|集群|单机|共享|统一内存", " "),
        (r"(?<![\w.])\d+ ?机 ?(?=\d+ ?x)", " "),  # 2机16卡: 16 GPUs in 2 machines
        ("俩", "2x "),
        ("그래픽 ?카드|메모리|의 |서버", " "),
        (r"\s+", " "),
    )
)

_COUNTERS = (
    "gpus?|GPUs?|nodes?|machines?|servers?|hosts?|instances?|boxes|units?"
    "|台|机|块|张|卡|颗|枚|대의?|장의?|개의?"
)
_WORDS = "|".join(sorted(NUMBERS, key=len, reverse=True))
_ASIAN = CHINESE_NUMBERS | {
    "한": 1,
    "두": 2,
    "세": 3,
    "네": 4,
    "다섯": 5,
    "여섯": 6,
    "일곱": 7,
    "여덟": 8,
}
_COUNTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:(?<=[\s)\]])x|\*) ?(\d{1,3})(?![a-z0-9.])(?! ?g)",
        r"(?<![\w.])(\d{1,3}) ?[x*] ?(?=\S)",
        rf"(?<![\w.])(\d{{1,3}})[\s-]?(?:{_COUNTERS})(?![a-z])",
        rf"({'|'.join(sorted(_ASIAN, key=len, reverse=True))}) ?(?:대의?|장의?|개의?|台|机|颗)",
        rf"\b({_WORDS})\b-?",
        r"(?:^ ?|\b(?:of|with|w/|has|have|got) )(\d{1,3}) (?=[a-z(])(?!gb?\b|gib\b)",
    )
)
"""Ways to write a count within a text; those of one text multiply: 2 nodes of 8."""

_COUNTER = re.compile("[台机块张卡颗枚대장개]")
_LONGEST_COUNT = 2
"""Longer numbers may be names of GPUs: 580, 4090."""

_HOST_MEMORY = re.compile(
    r"(?<![\w.])\d+ ?(?:gb|g|gib) (?:of )?(?:system |host |cpu )?(?:ddr\d )?ram\b"
)
_HOUSINGS = frozenset({"server", "workstation", "desktop", "pc"})
"""What a GPU stands in, where no name has that word: "a server with eight H200"."""

_PLURAL_NUMBER = re.compile(r"(?<![\w.])(\d{4})s\b")
"""Of one model, where there is no Super of it: "two used 3090s"."""

_CLOUDS = frozenset({"Google", "AWS"})
"""Vendors whose name may say where the GPU is."""

_BARE_SIZE = re.compile(r"[1-9]\d{1,2}")
_PARTS = re.compile(r"\s*(?:\+|\band\b|&|和|与|加)\s*|(?<=\w),?\s+(?=\d{1,2} ?x ?[a-z]*\s?\d{3,4})")
"""A plus between GPUs, or the next count: "1x4090 1x3060"."""


class Phrase(NamedTuple):
    """A GPU within a text."""

    times: int
    """How many."""
    spelling: Spelling
    """The words and sizes that can name it."""
    ignored: tuple[str, ...]
    """The words that cannot."""


def phrases(text: str, vocabulary: Set[str]) -> Iterator[Phrase]:
    """Yield the readings of a clean text whose words need not all name the GPU, the plainest
    first; none where a word with a digit is unknown: it may name another GPU."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    count = 1
    for pattern in _COUNTS:
        for number in [match[1] for match in pattern.finditer(text)]:
            if not _is_name(number, vocabulary):
                count *= NUMBERS.get(number) or _ASIAN.get(number) or int(number)
        text = pattern.sub(lambda match: match[0] if _is_name(match[1], vocabulary) else " ", text)
    text = _COUNTER.sub(" ", text)
    written = [text, _HOST_MEMORY.sub(" ", text), _PLURAL_NUMBER.sub(r"\1", text)]
    spellings = [read(one, vocabulary) for one in dict.fromkeys(written)]
    spellings += [
        one._replace(words=one.words - _HOUSINGS) for one in spellings if one.words & _HOUSINGS
    ]
    for spelling in spellings:
        unknown = {word for word in spelling.words if word not in vocabulary}
        words = spelling.words - unknown
        bare = tuple(sorted(word for word in unknown if words and _BARE_SIZE.fullmatch(word)))
        others = unknown.difference(bare)
        if any(not word.isascii() or not word.isalpha() for word in others):
            continue
        sizes = (*spelling.sizes, *(Size(float(word), "g") for word in bare))
        ignored = tuple(sorted(word for word in others if len(word) > 1))
        for some in _sizes(sizes, count):
            for vendors in dict.fromkeys((spelling.vendors, spelling.vendors - _CLOUDS)):
                yield Phrase(count, Spelling(words, some, vendors), ignored)


def _is_name(number: str, vocabulary: Set[str]) -> bool:
    """Return whether a number may be the name of a GPU."""
    return len(number) > _LONGEST_COUNT and number in vocabulary


def _sizes(sizes: tuple[Size, ...], count: int) -> Iterator[tuple[Size, ...]]:
    """Yield the sizes of one GPU: all that stand there, else without the total of all GPUs."""
    yield sizes
    each = {size.gigabytes for size in sizes}
    some = tuple(size for size in sizes if size.gigabytes / count not in each or count == 1)
    if some != sizes:
        yield some
    if count > 1 and len(sizes) == 1:
        yield (Size(sizes[0].gigabytes / count, "g"),)


def parts(text: str) -> list[str]:
    """Return the texts joined by plus or "and", where there are several: "RTX 4090 + RTX 3090"."""
    texts = [part for part in _PARTS.split(text) if part]
    return texts if len(texts) > 1 else []
