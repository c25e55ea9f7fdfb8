"""How people write accelerators: text taken apart into words, memory sizes, vendors and a count."""

import re
import unicodedata
from collections.abc import Iterator, Set
from typing import NamedTuple

from fitgauge.errors import InvalidRequestError

MAX_LENGTH = 200

VENDORS = {
    "nvidia": "NVIDIA", "geforce": "NVIDIA", "tesla": "NVIDIA", "amd": "AMD", "radeon": "AMD",
    "instinct": "AMD", "apple": "Apple",
    "intel": "Intel", "habana": "Intel", "google": "Google", "aws": "AWS", "amazon": "AWS",
    "huawei": "Huawei",
}  # fmt: skip
"""Words that say who made it, and nothing else."""

FILLERS = frozenset({
    "gpu", "gpus", "card", "cards", "accelerator", "accelerators", "graphics", "device", "devices",
    "vram", "memory", "ram", "edition",
    "generation", "gen", "series", "npu", "mig", "design", "of", "with", "a", "an", "the", "each",
    "per", "gcd", "die", "my", "cloud",
    "tensor", "core", "tpus", "free", "colab", "kaggle",
})  # fmt: skip
"""Words that say nothing about which one it is."""

_SYNONYMS = {
    "mobile": "laptop",
    "notebook": "laptop",
    "ws": "workstation",
    "inferentia2": "inf2",
    "trillium2": "trillium",
}

NUMBERS = {
    "one": 1, "single": 1, "two": 2, "both": 2, "pair": 2, "couple": 2, "dual": 2, "three": 3,
    "triple": 3, "four": 4, "quad": 4, "eight": 8, "sixteen": 16, "zwei": 2, "drei": 3, "vier": 4,
    "acht": 8, "deux": 2, "trois": 3, "quatre": 4, "huit": 8,
}  # fmt: skip
"""Numbers as words, in English, German and French."""

CHINESE_NUMBERS = {name: number for number, name in enumerate("一二三四五六七八", 1)} | {
    "两": 2,
    "双": 2,
    "单": 1,
    "十六": 16,
}
_CHINESE_COUNT = re.compile(
    rf"((?<![a-z\d.-])\d+|{'|'.join(sorted(CHINESE_NUMBERS, key=len, reverse=True))})"
    r"\s*(?:[张块片个]|卡)(?:\s*卡)?"
)
"""八张H100, 8卡H100, H100八卡, 双卡4090."""

_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d),(?=\d{3}\b)", ""),  # 97,887 MiB
        ("英伟达", " nvidia "),
        ("华为|昇腾", " huawei "),
        ("显卡|显存", " gpu "),
        (r"nvidia\.com/", "nvidia "),  # a Kubernetes resource
        (r"\bpci[- ]?(?:express|e)\b", "pcie"),
        (r"\bmax[- ]q\b", "maxq"),
        (r"\bmac(?:book)?[- ](?:pro|air|studio|mini)\b|\b(?:macbook|imac|mac)\b", "apple"),
        (r"\+(?:me|gfx)(?:\.\w+)?\b|(?<=gb)\.me\b", ""),  # what a MIG profile has besides memory
        (r"\b(\d)g[.\-_ ](\d+)gb\b", r"\1g.\2gb"),
        (
            r"\bh100[- ]80gb[- ]hbm3\b",
            "h100 sxm 80gb",
        ),  # what the driver calls the SXM GPU; the PCIe one has HBM2e
        (r"\bsxm\d\b", "sxm"),
        (r"\b(?:hbm|gddr)\d?[ex]?\b", " "),
        (r"[^\w.]+|_|\.(?!\d)", " "),
        (r"(?<=[a-z0-9])(?=[^\x00-\x7f])|(?<=[^\x00-\x7f])(?=[a-z0-9])", " "),
        (
            (
                r"\b(m\d(?: pro| max| ultra)?(?: apple)?|[ahv][18]00(?: sxm| pcie)?) (\d{2,3})(?="
                r" |$)(?! [gmt]i?b?\b)"
            ),
            r"\1 \2gb",
        ),  # m3 max 64, a100 80
    )
)

_LABEL = re.compile(r"^[a-z0-9.-]+\.[a-z]+/[a-z0-9._-]+ ?[=:] ?\"?(?=[^=:]*[a-z])|\"$")
"""What stands before the value of a Kubernetes label; before a bare number it is a resource and
its count."""

_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?(gib|gb|g|mib|mb|tib|tb)(?![\w.])")
_UNITS = {
    "g": 10**9,
    "gb": 10**9,
    "gib": 2**30,
    "mb": 10**6,
    "mib": 2**20,
    "tb": 10**12,
    "tib": 2**40,
}

_GLUED = (
    re.compile(
        r"(rtx|gtx|rx|quadro|geforce|radeon|arc|titan|gaudi|trainium|inferentia|ascend|tpu|pro|tesla|nvidia)((?=.*\d).+)"
    ),
    re.compile(r"(\d{4})((?:super|ti|xtx|xt|gre|laptop|d|m|s|ada)+)"),
    re.compile(r"(m\d)(max|pro|ultra)"),
    re.compile(r"([a-z]{1,2}\d{2,3})(sxm|pcie|nvl)"),
)
_SUFFIXES = re.compile(r"super|ti|xtx|xt|gre|laptop|d|m|s|ada")
_SHORT_SUFFIXES = {"m": "laptop", "s": "super"}


_COUNTED = tuple(
    (re.compile(pattern), number, name)
    for pattern, number, name in (
        (r"\(?(-?\d+(?:\.\d+)?)\s*[x*]\)?\s*(.+)", 1, 2),
        (r"(-?\d+)\s+(.+)", 1, 2),
        (rf"({'|'.join(NUMBERS)})[\s-]+(.+)", 1, 2),
        (r"(.+?)\s*\(?[x*:=]\s*(-?\d+(?:\.\d+)?)\)?", 2, 1),
        (r"(.+?)\s*\(\s*(-?\d+)\s*[x*]?\s*\)", 2, 1),
    )
)
"""Ways to write a count: the pattern, the group that holds the number and the one that holds the
name."""


class Size(NamedTuple):
    """A memory size as it was written: 80 and "gb"."""

    amount: float
    """The number."""
    unit: str
    """The unit in small letters, as in "gib"."""

    @property
    def bytes(self) -> int:
        """The size [bytes], GB being 10^9 and GiB 2^30."""
        return int(self.amount * _UNITS[self.unit])

    @property
    def gigabytes(self) -> float:
        """The number before GB or GiB, whichever was meant: people and tools mix them."""
        return {"m": self.amount / 1024, "t": self.amount * 1024}.get(self.unit[0], self.amount)

    def __str__(self) -> str:
        unit = {"g": "GB", "gib": "GiB", "mib": "MiB", "tib": "TiB"}.get(
            self.unit, self.unit.upper()
        )
        return f"{self.amount:g} {unit}"


class Spelling(NamedTuple):
    """What stands in a text, without the words that say nothing."""

    words: frozenset[str]
    """Its words."""
    sizes: tuple[Size, ...]
    """Its memory sizes."""
    vendors: frozenset[str]
    """The vendors it names."""


_ADDRESS = re.compile(r"^https?://\S*/([^/\s?#]+?)(?:\.html?)?/?(?:[?#]\S*)?$")
"""A page of a GPU: the end of its path is the name."""


def clean(text: str) -> str:
    """`text` in lower case and in compatible characters; of a Kubernetes label its value, of a
    page's address the end of its path.

    Raises InvalidRequestError where it is empty, too long or holds control characters.
    """
    stripped = text.strip()
    if not stripped:
        raise InvalidRequestError(
            "The name of the GPU is empty.",
            hint='Send a name such as "RTX 4090", or a size such as "24GB".',
            field="gpu",
            code="invalid-value",
        )
    if len(text) > MAX_LENGTH:
        raise InvalidRequestError(
            f"The name is too long: {len(text)} characters.",
            hint=f"Send {MAX_LENGTH} characters at most.",
            field="gpu",
            code="invalid-value",
        )
    if any(unicodedata.category(character).startswith("C") for character in stripped):
        raise InvalidRequestError(
            "The name contains control characters.",
            hint='Send plain text such as "RTX 4090".',
            field="gpu",
            code="invalid-value",
        )
    plain = unicodedata.normalize("NFKC", stripped).lower().replace("×", "x")
    plain = _LABEL.sub("", _ADDRESS.sub(r"\1", plain))
    return _CHINESE_COUNT.sub(_counted, plain).strip()


def _counted(match: re.Match[str]) -> str:
    """Return a Chinese count as " 8x " before a name and " x8" after it."""
    number = CHINESE_NUMBERS.get(match[1], match[1])
    if match.end() == len(match.string):
        return f" x{number}"
    return f" {number}x "


def read(text: str, vocabulary: Set[str]) -> Spelling:
    """Return the parts of a clean text without a count. `vocabulary`: words that patterns know;
    split names are joined to them ("h 100")."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    sizes = tuple(Size(float(match[1]), match[2]) for match in _SIZE.finditer(text))
    words = [
        part
        for word in _SIZE.sub(" ", text).split()
        for part in ([word] if word in vocabulary else _unglue(word))
    ]
    joined = list(_join([_SYNONYMS.get(word, word) for word in words], vocabulary))
    return Spelling(
        words=frozenset(word for word in joined if word not in FILLERS and word not in VENDORS),
        sizes=sizes,
        vendors=frozenset(VENDORS[word] for word in joined if word in VENDORS),
    )


def counts(text: str, vocabulary: Set[str]) -> Iterator[tuple[float, str]]:
    """Ways to read a count off a clean text, each with what is left: none first, then 2x4090, 2
    4090, two 4090s, 4090 x2, 4090:2.

    A number that is itself the name of a GPU (`vocabulary`) is no count: "4090 3090" means
    nothing."""
    yield 1, text
    for pattern, number, name in _COUNTED:
        if (match := pattern.fullmatch(text)) and not (
            len(match[number]) > 2 and match[number] in vocabulary
        ):
            yield float(NUMBERS.get(match[number], match[number])), match[name]


def _unglue(word: str) -> Iterator[str]:
    """rtx4090ti -> rtx, 4090, ti; 4070s -> 4070, super; m3max -> m3, max; h100sxm -> h100, sxm."""
    for pattern in _GLUED:
        if match := pattern.fullmatch(word):
            head, tail = match[1], match[2]
            yield head
            if head.isdigit():
                yield from (
                    _SHORT_SUFFIXES.get(suffix, suffix) for suffix in _SUFFIXES.findall(tail)
                )
            else:
                yield from _unglue(tail)
            return
    yield word


def _join(words: list[str], vocabulary: Set[str]) -> Iterator[str]:
    """Yield words put together or made singular where the vocabulary has only that: h, 100 ->
    h100; a100s -> a100."""
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if (
            pending
            and word + pending[0] in vocabulary
            and not (word in vocabulary and pending[0] in vocabulary)
        ):
            word += pending.pop(0)
        if word not in vocabulary and word.endswith("s") and word[:-1] in vocabulary:
            word = word[:-1]
        yield word
