"""What people call models: a name taken apart into words, and the model that a few words mean.

Every pattern is linear in the length of the text."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from fitgauge.catalog.format_names import USUAL_GGUF, take_formats

_TUNED = frozenset({"instruct", "chat", "it", "tuned", "sft"})
"""Words of a release that was tuned to follow instructions."""

_SILENT = _TUNED | frozenset(
    {"meta", "hf", "nvidia", "c4ai", "uncased", "en", "pt", "preview", "moe", "hf1"}
)
"""Words of a name that people leave out and that tell no two models apart."""

_KINDS = frozenset({
    "coder", "code", "vl", "v", "math", "omni", "embedding", "embed", "reranker", "rerank",
    "guard", "audio", "asr", "tts", "prover", "safeguard", "ocr",
})  # fmt: skip
"""Words of another kind of model, which a plain name never means."""

_FILLERS = frozenset({
    "the", "a", "an", "model", "models", "please", "ai", "llm", "weights", "params", "parameters",
    "parameter", "para", "paras", "will", "from", "version", "of", "size", "sized", "gguf", "ggml",
    "quantized", "quant", "quants", "latest", "my", "our", "local", "ollama", "vllm", "library",
    "unsloth", "dynamic", "full", "weight", "class", "qat", "imatrix", "mlx", "marlin", "exl2",
    "exl3", "hqq", "autoround",
})  # fmt: skip
"""Words of a text that name no model."""

_SPELLINGS = {
    "r+": "r plus",
    "billion": "b",
    "code llama": "codellama",
    "distilled": "distill",
}
"""Two ways to write one thing, the second as the ids write it."""

_TOKEN = re.compile(
    r"\d+x\d+(?:\.\d+)?[bm]?(?![a-z])|[ae]\d+(?:\.\d+)?[bm](?![a-z])"
    r"|\d+(?:\.\d+)?[bmt](?![a-z0-9])|\d+(?:\.\d+)?b(?=[a-z]{3})|\d+[ek](?![a-z0-9])"
    r"|(?<![a-z])v?\d+(?:\.\d+)*|(?<![a-z])[a-z]\d+(?:\.\d+)*|\d+(?:\.\d+)*|[a-z]+"
)
_SEVEN_ONE = re.compile(r"(?<![a-z\d.])(\d+)b(\d)(?![a-z\d.])")
"""bloom-7b1."""

_UNDERSCORED = re.compile(
    r"(?<=\d)_(?=\d{1,2}(?!\d)(?!\d*(?:\.\d+)?[bmt](?![a-z])))|(?<=-\d)_(?=\d[bm])"
)
"""phi-1_5 and Qwen-1_8B; not Qwen3_14B."""

_SPLIT_VERSION = re.compile(r"(?<![\d.])(\d)[ -](\d)(?=[ -]\d+(?:\.\d+)?[bm]\b)")
"""llama-3-1-8b."""

_TAG = re.compile(r"(?:library/)?[a-z0-9.\-]+:[a-z0-9._\-]+")
"""A model and a tag of Ollama: qwen3:8b."""

_BARE_NUMBER = re.compile(r"\d{1,3}(?:\.\d)?")
_ACTIVE = re.compile(r"a\d+(?:\.\d+)?[bm]|\d+[ek]")
_SIZE = re.compile(r"(?:(\d+)x)?e?(\d+(?:\.\d+)?)([bmt])")
_EXPERTS = re.compile(r"\d+x\d+(?:\.\d+)?")
_NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)")
_DATE = re.compile(r"\d{4}|0\.\d+|0\d|1")
_SCALE = {"m": 1e6, "b": 1e9, "t": 1e12}

_TOLERANCE = 0.1
"""How far the size that people say may lie from the parameters: "phi 4 14b" has 14.7e9."""

_SAME = 0.01
"""How far the parameters of two releases of one model may differ: Mistral 7B v0.3 has 768 words
more than v0.2."""

_USUAL_PARAMETERS = 8e9
"""The size that is meant where none is said: the commonest of those people run."""

_MOST_OCTAVES = 3
"""Of models 8 times as large and larger the newest is meant, not the smallest."""

_REPEATED = re.compile(r"(.)\1+")
_LONG_WORD = 5
"""Letters of a word that may be written with one too many or too few: "lllama"."""

_MOST_OTHERS = 4


class Footprint(NamedTuple):
    """What tells whether two models need the same memory: parameters (None: not counted) and how
    they are stored."""

    parameters: int | None
    stored: str


class Name(NamedTuple):
    """The parts of a name.

    `family`: its first word; `words`: family and line; `numbers`: versions and dates; `sizes`:
    parameters; `active`: active parameters, experts and lengths; `format`: the number format, ""
    for none; `tuned`: whether it was tuned to instructions; `owner`: words of the owner."""

    id: str
    family: str
    words: frozenset[str]
    numbers: frozenset[str]
    sizes: frozenset[str]
    active: frozenset[str]
    format: str
    tuned: bool
    owner: frozenset[str] = frozenset()

    @classmethod
    def of(cls, model_id: str) -> "Name":
        """Return the parts of an id."""
        owner, _, name = model_id.partition("/")
        return _parts(model_id, tokens(name or owner))._replace(
            owner=frozenset(tokens(owner if name else "")[0])
        )

    @property
    def versions(self) -> frozenset[str]:
        """The numbers that are no dates."""
        return frozenset(number for number in self.numbers if not _DATE.fullmatch(number))

    @property
    def newest(self) -> float:
        """The highest version, also where it stands behind a letter; 0 for none."""
        letters = [word[1:] for word in self.words if re.fullmatch(r"[a-z]\d+(?:\.\d+)?", word)]
        return max((_value(number) for number in (*self.versions, *letters)), default=0.0)


class ModelReading(NamedTuple):
    """The model that a text means. `format`: the number format it names, where the model is not
    published in it; `is_default_format`: whether only the tool's default says so. `others`: models
    that need other memory and may be meant as well."""

    id: str
    format: str | None = None
    others: tuple[str, ...] = ()
    is_default_format: bool = False


def tokens(text: str) -> tuple[list[str], str]:
    """Return the words, sizes and numbers of a name in their order, and the format it names."""
    text = text.lower().removesuffix(".gguf")
    for written, meaning in _SPELLINGS.items():
        text = text.replace(written, meaning)
    text, form = take_formats(text)
    text = _UNDERSCORED.sub(".", text)
    text = re.sub(r"(?<=\d) +(?=[bm]\b)", "", text)
    text = _SPLIT_VERSION.sub(r"\1.\2", text)
    text = _SEVEN_ONE.sub(r"\1.\2b", text)
    return _TOKEN.findall(text), form


def words(model_id: str) -> tuple[str, ...]:
    """Return the words, sizes and numbers of a name without its owner, in their order:
    "Qwen2.5-72B-Instruct" -> qwen, 2.5, 72b, instruct."""
    return tuple(tokens(model_id.partition("/")[2] or model_id)[0])


def plain(model_id: str) -> str:
    """Return the words of a name without its owner, in one line."""
    return " ".join(words(model_id))


def named_size(text: str) -> tuple[str, str] | None:
    """Return the size that is all a text names, as "13b", and the format it names, "" for none:
    "a 13B model", "65B 4-bits", "8"; None where other words stand there."""
    if _BARE_NUMBER.fullmatch(text.strip()):
        return f"{text.strip()}b", ""
    written, form = tokens(text)
    said = _parts(text, (written, form))
    others = said.words - _FILLERS - _SILENT - {"base"}
    if len(said.sizes) != 1 or said.numbers or said.active or any(len(one) > 1 for one in others):
        return None
    (size,) = said.sizes
    return (size, form) if size[0].isdigit() and "x" not in size else None


def is_tag(text: str) -> bool:
    """Return whether a text is a model and a tag of Ollama: qwen3:8b, library/qwen3:8b."""
    return bool(_TAG.fullmatch(text.strip().lower()))


def says_all(text: str, model_id: str) -> bool:
    """Return whether a text holds every word of a name that tells models apart."""
    said = _parts(text, tokens(text))
    name = Name.of(model_id)
    is_sized = not said.sizes or name.sizes <= said.sizes
    return is_sized and name.words - _SILENT - said.words <= {"base"}


class Names:
    """The names of the models that are known, and the words they are made of."""

    def __init__(self, ids: Iterable[str]) -> None:
        names = tuple(map(Name.of, ids))
        self._words = frozenset().union(*(name.words | name.owner for name in names))
        self._plain = tuple(name for name in names if "gguf" not in name.id.lower())
        self._repeated = {_once(word): word for word in self._words if len(word) >= _LONG_WORD}
        self._split = {
            first + second: (first, second)
            for model_id in (name.id for name in names)
            for first, second in pairwise(words(model_id))
            if first.isalpha() and second.isalpha()
        }

    def read(self, text: str, footprint: Callable[[str], Footprint]) -> ModelReading | None:
        """Return the model that holds all words of `text`; None where there is none.

        A size that no name holds may be the parameters of one: "mistral nemo 12b". What is not
        said is guessed among releases of the family: the size nearest to the usual one, then the
        newest; never a quantization or another kind of model."""
        said = self._said(text)
        if not any(map(_names_something, said.words)):
            return None
        pool = self._pool(said, footprint)
        if _is_id(text) and not said.numbers and (said.tuned or said.format):
            pool = [name for name in pool if not name.versions]
        if not pool:
            return None
        fewest = min(_unsaid(said, name) for name in pool)
        ranked = sorted(
            (name for name in pool if _unsaid(said, name) == fewest),
            key=lambda name: _rank(said, name, footprint),
        )
        first = ranked[0]
        form = said.format or (USUAL_GGUF if is_tag(text) else "")
        return ModelReading(
            id=first.id,
            format=form if form not in ("", first.format) else None,
            others=() if _is_all_said(said, first) else _others(ranked, footprint),
            is_default_format=not said.format,
        )

    def _said(self, text: str) -> Name:
        """Return the parts of a text, with words joined and split as the names have them."""
        written, form = tokens(text)
        read: list[str] = []
        pending = [word for word in written if word not in _FILLERS]
        while pending:
            word = pending.pop(0)
            joined = word + pending[0] if pending else ""
            if joined in self._words and word.isalpha() and word not in self._words:
                read.append(joined)
                pending.pop(0)
            elif word in self._words or not word.isalpha():
                read.append(word)
            elif len(word) >= _LONG_WORD and (known := self._repeated.get(_once(word))):
                read.append(known)
            elif word in self._split:
                read.extend(self._split[word])
            elif pending and pending[0][0].isdigit() and word[:-1] in self._words:
                read.append(word[:-1])
                letter, number = word[-1], pending.pop(0)
                read.append(number if letter == "v" else letter + number)
            else:
                read.append(word)
        return _parts(text, (read, form))

    def _pool(self, said: Name, footprint: Callable[[str], Footprint]) -> list[Name]:
        """Return the names that hold what is said, in the format that is said where there are
        any, else unquantized."""
        pool = [name for name in self._plain if _holds(said, name, said.numbers <= name.numbers)]
        if not pool and said.numbers:
            compact = frozenset(number.replace(".", "") for number in said.numbers)
            pool = [
                name
                for name in self._plain
                if _holds(
                    said, name, compact <= {number.replace(".", "") for number in name.numbers}
                )
            ]
        sized = [name for name in pool if said.sizes <= name.sizes and said.active <= name.active]
        if not sized and said.active:
            active = frozenset(word for word in said.active if not word.endswith("k"))
            sized = [name for name in pool if said.sizes <= name.sizes and active <= name.active]
        if not sized and len(said.sizes) == 1:
            (size,) = said.sizes
            sized = _nearest(pool, _scaled(size), footprint)
        return [name for name in sized if said.format and name.format == said.format] or [
            name for name in sized if name.format in ("", "bf16", "fp16")
        ]


def _once(word: str) -> str:
    """Return a word with every repeated letter once: a letter too many is no other name."""
    return _REPEATED.sub(r"\1", word)


def _parts(text: str, written: tuple[Sequence[str], str]) -> Name:
    others: set[str] = set()
    numbers, sizes, active = set[str](), set[str](), set[str]()
    for word in written[0]:
        if _ACTIVE.fullmatch(word):
            active.add(word)
        elif _SIZE.fullmatch(word):
            sizes.add(word)
        elif _EXPERTS.fullmatch(word):
            sizes.add(f"{word}b")
        elif number := _NUMBER.fullmatch(word):
            numbers.add(number[1].removesuffix(".0"))
        else:
            others.add(word)
    return Name(
        text,
        next((word for word in written[0] if word in others), ""),
        frozenset(others),
        frozenset(numbers),
        frozenset(sizes),
        frozenset(active),
        written[1],
        bool(others & _TUNED),
    )


def _holds(said: Name, name: Name, numbers: bool) -> bool:
    """Return whether a name holds the words that are said, and is of no other kind of model."""
    return (
        numbers
        and said.words - _SILENT <= name.words | name.owner | {"base"}
        and any(_names_something(word) for word in said.words & name.words)
        and name.words & _KINDS <= said.words
        and ("distill" not in name.words or bool({"distill", name.family} & said.words))
    )


def _unsaid(said: Name, name: Name) -> int:
    """Return how many words of a name tell models apart and are not said."""
    unsaid = len(name.words - said.words - _SILENT)
    versions = len(name.versions - said.numbers) if said.numbers else 0
    sizes = len(name.sizes - said.sizes) if said.sizes & name.sizes else 0
    base = 0
    if "base" in said.words:
        base = int(name.tuned) + int("base" not in name.words)
    return unsaid + versions + sizes + base


def _rank(
    said: Name, name: Name, footprint: Callable[[str], Footprint]
) -> tuple[bool, bool, int, float, float, bool, bool, tuple[float, ...], int, str]:
    """Return how far a name lies from what is said, the nearest first: of the generation that is
    said, of the usual size, the newest, undated, tuned, of the latest date, plain."""
    octaves = 0.0
    if not said.sizes:
        octaves = abs(math.log2(max(_parameters(name, footprint), 1.0) / _USUAL_PARAMETERS))
    dates = sorted(number for number in name.numbers - said.numbers if _DATE.fullmatch(number))
    return (
        bool(said.sizes and not said.numbers and name.versions),
        not _is_all_said(said, name),
        min(int(octaves), _MOST_OCTAVES),
        -name.newest,
        octaves,
        bool(dates),
        not name.tuned,
        tuple(-_value(date) for date in dates),
        len(name.active - said.active),
        name.id,
    )


def _is_all_said(said: Name, name: Name) -> bool:
    """Return whether a text is the whole name but for words of tuning."""
    return name.words - _SILENT <= said.words and (name.numbers, name.sizes, name.active) == (
        said.numbers,
        said.sizes,
        said.active,
    )


def _others(ranked: Sequence[Name], footprint: Callable[[str], Footprint]) -> tuple[str, ...]:
    """Return the models that may be meant instead of the first, each of another memory need."""
    seen = [footprint(ranked[0].id)]
    others = []
    for name in ranked[1:]:
        one = footprint(name.id)
        if not any(_alike(one, other) for other in seen):
            seen.append(one)
            others.append(name.id)
        if len(others) == _MOST_OTHERS:
            break
    return tuple(others)


def _parameters(name: Name, footprint: Callable[[str], Footprint]) -> float:
    """Return the parameters of a model: by its name, else counted; the usual size where neither
    is known."""
    named = [_scaled(size) for size in name.sizes]
    return max(named) if named else footprint(name.id).parameters or _USUAL_PARAMETERS


def _scaled(size: str) -> float:
    match = _SIZE.fullmatch(size)
    assert match is not None
    return float(match[1] or 1) * float(match[2]) * _SCALE[match[3]]


def _value(number: str) -> float:
    whole, _, rest = number.partition(".")
    return float(f"{whole}.{rest.replace('.', '')}") if rest else float(whole)


def _is_id(text: str) -> bool:
    """Return whether a text is written as a Hub name is: one word with dashes."""
    return "-" in text.strip() and not re.search(r"\s", text.strip())


def _names_something(word: str) -> bool:
    """Return whether a word can tell a family: no word of tuning, no single letter."""
    return len(word) > 1 and word not in _SILENT and word != "base"


def _alike(one: Footprint, other: Footprint) -> bool:
    """Return whether it hardly matters which of two releases is taken: stored alike, with as
    large a cache, and as large but for a few words of vocabulary."""
    if one.parameters is None or other.parameters is None:
        return one == other
    return one.stored == other.stored and abs(one.parameters / other.parameters - 1) <= _SAME


def _nearest(
    pool: Sequence[Name], parameters: float, footprint: Callable[[str], Footprint]
) -> list[Name]:
    """Return the models with about so many parameters, of those the nearest."""
    distances = {
        name: abs(counted / parameters - 1)
        for name in pool
        if (counted := footprint(name.id).parameters) is not None
    }
    nearest = min(distances.values(), default=1.0)
    return [
        name for name, distance in distances.items() if distance <= min(nearest + _SAME, _TOLERANCE)
    ]
