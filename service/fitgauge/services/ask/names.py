"""Names of GPUs and of models in a text: which words may belong to one, by catalog and snapshot."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache

from rapidfuzz import process
from rapidfuzz.distance import OSA

from fitgauge.catalog import tables
from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.gpu_names import VENDORS
from fitgauge.catalog.model_names import once
from fitgauge.catalog.name_parts import DESCRIPTIVE, KINDS, words
from fitgauge.catalog.scope import out_of_scope_names
from fitgauge.catalog.snapshot import Snapshot
from fitgauge.engine.quantity import GB
from fitgauge.errors import FitgaugeError
from fitgauge.services.common.model_readings import is_fuller

_BRANDS = frozenset({"rtx", "gtx", "rx", "quadro", "pro", "arc", "radeon", "titan", "tesla"})
"""Words that make a round number the name of a GPU: "RTX 6000"."""

_SOCKET = re.compile(r"sxm\d?|hbm\d?e?|gddr\d\w?")

_MACS = frozenset({"mac", "macs", "macbook", "macbooks", "imac", "apple", "studio", "mini", "air"})

_COMMON = frozenset({
    "pro", "max", "ultra", "server", "desktop", "framework", "ai", "d", "v", "x", "lite", "mega",
    "super", "data", "center", "grid", "station", "pc", "vf", "slice", "ac", "core", "grace",
    "spark", "nano", "thor", "atlas", "hl", "ti", "xt", "xp", "1", "2", "3", "nx", "gre", "laptop",
    "nvl", "ada", "pcie", "sff", "mini", "air", "studio", "xtx", "vii", "oam",
})  # fmt: skip
"""Words of names of GPUs that alone name none."""

_PROSE = frozenset({
    "it", "en", "fr", "embedding", "embed", "reasoning", "text", "code", "step", "all", "static",
    "native", "plus",
})  # fmt: skip
"""Words of names that after a space belong to the sentence: "bge-m3 embedding"."""

_LONG_STEM = 5
"""Letters from which on a family is recognized within another word."""

_SHORTEST_STEM = 3
"""Letters below which no word is mended."""

_MANY_MODELS = 20
"""Bundled models of a family from which on a short word is taken for a misspelling of it: with
fewer, "best 7b" would be a Bert."""

UNBUNDLED = frozenset({"rwkv", "grok", "tulu", "pixtral", "cogvlm", "jina"})
"""Families without a bundled model: with a size or a version a name is theirs, not a size's."""

_SHORT = re.compile(r"(?P<stem>[a-z]{3,4})(?P<version>(?:\d(?:\.\d)?)?)")

_FORMATS = re.compile(
    r"(?:awq|gptq|gguf|exl2|bnb|fp8|fp16|bf16|int4|int8|nf4|w\d+a\d+|i?q\d\w*|[48]bits?|mlx)"
)
_SIZE = re.compile(r"\d+(?:\.\d+)?[bm]|\d+x\d+(?:\.\d+)?b|a\d+(?:\.\d+)?b|e\db")
_VERSION = re.compile(r"[vkrm]?\d(?:\.\d{1,2}){0,2}[a-z]?|\d{4}")


_SHORTEST_PLURAL = 4
"""Letters of a name's word that may have a plural without a digit."""


class GpuNames:
    """Names of GPUs by one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.find = lru_cache(maxsize=2048)(self._find)

    def _find(self, text: str) -> GpuMatch | None:
        """Return the GPU that a text means, None where it means none."""
        try:
            return self._catalog.find(text)
        except FitgaugeError:
            return None

    def are_unlike(self, text: str) -> bool:
        """Return whether a text joins GPUs of several kinds by a plus, or each with its count."""
        try:
            return " and " not in text and bool(self._catalog.find_unlike(text).unlike)
        except FitgaugeError:
            return False

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every word of a name."""
        return frozenset().union(*(pattern.allowed for pattern in self._catalog.patterns))

    @cached_property
    def memories(self) -> frozenset[float]:
        """The memory of every GPU as it is sold [GB]."""
        return frozenset(round(row.marketed_bytes / GB) for row in self._catalog.all())

    @property
    def clouds(self) -> tuple[str, ...]:
        """The clouds that rent GPUs of the catalog."""
        return self._catalog.offers.clouds()

    def is_instance(self, text: str) -> bool:
        """Return whether a text is the name of one of the clouds' machines."""
        return bool(self._catalog.offers.named(text))

    def belongs(self, word: str) -> bool:
        """Return whether a word may stand in a name."""
        return (
            word in self.vocabulary
            or word in VENDORS
            or word in _MACS
            or _SOCKET.fullmatch(word) is not None
            or (word.endswith("s") and self._is_singular(word[:-1]))
        )

    def _is_singular(self, word: str) -> bool:
        """Return whether a word has a plural: "H100s", "DGX Sparks"."""
        return self.anchors(word) or (
            word in self.vocabulary and word.isalpha() and len(word) >= _SHORTEST_PLURAL
        )

    @lru_cache(maxsize=4096)  # noqa: B019 - one object for each catalog, and few of them
    def anchors(self, word: str, before: str = "") -> bool:
        """Return whether a name may be built around a word. before: the word to its left."""
        if word in self.vocabulary:
            if word in _COMMON or (word.endswith("gb") and word[0].isdigit()):
                return False
            if word.isdigit():
                return len(word) == 4 and (before in _BRANDS or int(word) % 500 != 0)
            return word not in _BRANDS or word == "titan"
        plural = word[:-1] if word.endswith("s") else ""
        if plural in self.vocabulary:
            return any(map(str.isdigit, plural)) and self.anchors(plural, before)
        glued = re.fullmatch(r"(?:[a-z]{2,8})?(\d{4})(?:ti|super|s|d|m|xt|xtx|laptop|ada)+", word)
        if glued and glued[1] in self.vocabulary:
            return True
        for brand in (*_BRANDS, *VENDORS):
            if word.startswith(brand) and (rest := word[len(brand) :]):
                return (
                    self.anchors(rest, brand)
                    or (rest.isdigit() and rest in self.vocabulary)
                    or (any(map(str.isdigit, rest)) and self.find(word) is not None)
                )
        return word.startswith(("m1", "m2", "m3", "m4", "m5")) and word[2:] in (
            "max",
            "pro",
            "ultra",
        )


class ModelNames:
    """Words of names of models by one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def _names(self) -> list[tuple[str, ...]]:
        ids = self._snapshot.ids()
        return [words(model_id.partition("/")[2] or model_id) for model_id in ids]

    @cached_property
    def whole(self) -> frozenset[str]:
        """Every name of two words or more without what parts them: glm4.5air."""
        return frozenset("".join(name) for name in self._names if len(name) > 1)

    @cached_property
    def longest_whole(self) -> int:
        """Letters of the longest of them."""
        return max(map(len, self.whole), default=0)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every word of a name."""
        return frozenset(word for name in self._names for word in name)

    @cached_property
    def families(self) -> frozenset[str]:
        """Words that alone tell a family."""
        return frozenset(_families(self._names)) | self._single_titles | UNBUNDLED

    @cached_property
    def english(self) -> frozenset[str]:
        """Families that are words of the language: falcon, wan. Alone they may mean something
        else."""
        return (self.families & _english_words()) | self._single_titles

    @cached_property
    def common(self) -> frozenset[str]:
        """Families that describe: opt of "opt 13b", yi of "yi 1.5 9b"."""
        return frozenset(name[0] for name in self._names if name[0] in DESCRIPTIVE)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """The first two words of every name: command, r."""
        return frozenset(name[at : at + 2] for name in self._names for at in (0, 1, 2))

    @cached_property
    def titles(self) -> Mapping[str, Sequence[tuple[str, ...]]]:
        """Names of models that are not estimated, in words, by the first of them: stable,
        diffusion."""
        titles: dict[str, list[tuple[str, ...]]] = {}
        for title in map(tuple, map(str.split, out_of_scope_names())):
            titles.setdefault(title[0], []).append(title)
        return titles

    @cached_property
    def _single_titles(self) -> frozenset[str]:
        """The titles of one word: flux."""
        return frozenset(first for first, titles in self.titles.items() if (first,) in titles)

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        """What other names begin with: llama of "llamalite"."""
        return self._stems(lambda name, stem: name.startswith(stem))

    @cached_property
    def _endings(self) -> tuple[str, ...]:
        """What other names end with: llama of "alpallama", glm of "chatglm"."""
        return self._stems(lambda name, stem: name.endswith(stem))

    def _stems(self, built_on: Callable[[str, str], bool]) -> tuple[str, ...]:
        """Return the long families that are no words of the language, and those that another
        family is built on."""
        return tuple(
            stem
            for stem in self.families
            if (len(stem) >= _LONG_STEM and stem not in self.english)
            or any(other != stem and built_on(other, stem) for other in self.families)
        )

    @lru_cache(maxsize=4096)  # noqa: B019 - one object for each service
    def family_in(self, word: str) -> str | None:
        """Return the family that a word begins or ends with: qwen of "qwen2", glm of "chatglm";
        None where it is of none."""
        stem = re.match(r"[a-z]+", word)
        if stem is None:
            return None
        letters = stem[0]
        if letters in self.families:
            return letters
        if len(letters) >= _LONG_STEM and (
            letters.startswith(self._beginnings) or letters.endswith(self._endings)
        ):
            return letters
        return None

    @lru_cache(maxsize=4096)  # noqa: B019 - one object for each service
    def mended(self, word: str) -> str | None:
        """Return the word of a name that another one is a misspelling of, by one letter, or
        another form of: mistral of "mistrel", distill of "distilled"; None where it is of none."""
        if word in self.vocabulary:
            return None
        if short := _SHORT.fullmatch(word):  # so few letters mean much else: of large families
            stem = short["stem"]
            near_to = (
                f"{family}{short['version']}"
                for family in self._large
                if family[0] == stem[0] and OSA.distance(stem, family, score_cutoff=1) <= 1
            )
            return None if stem in self.families | _english_words() else next(near_to, None)
        if len(word) < _LONG_STEM or not word.isalpha():
            return None
        form = " ".join(words(word))
        if form in self.vocabulary:
            return form
        if family := self._once.get(once(word)):
            return family
        near = process.extractOne(word, self._long, scorer=OSA.distance, score_cutoff=1)
        return near[0] if near else None

    def meant(self, text: str) -> str:
        """Return the id of the one repository that a name means where its size or its line is not
        said, as the distillation of "deepseek r1 32b"; else the name itself."""
        reading = None if "/" in text else self._snapshot.read(text)
        if reading is None or (reading.format is not None and not reading.is_default_format):
            return text
        return reading.id if is_fuller(text, reading) else text

    def has(self, text: str) -> bool:
        """Return whether a bundled model is meant by a name."""
        return self._snapshot.read(text) is not None

    def sees(self, text: str) -> bool:
        """Return whether the bundled model that is meant by a name reads images."""
        reading = self._snapshot.read(text)
        row = self._snapshot.get(reading.id) if reading is not None else None
        return row is not None and "vision_config" in row.config

    @cached_property
    def _once(self) -> Mapping[str, str]:
        """Long families by their letters without repetitions: llama of "lamma"."""
        return {once(name): name for name in self.families if len(name) >= _LONG_STEM}

    @cached_property
    def _large(self) -> tuple[str, ...]:
        """Families of many models, the largest first."""
        counts = Counter(word for name in self._names for word in set(name) & self.families)
        return tuple(
            family
            for family, count in counts.most_common()
            if count >= _MANY_MODELS and len(family) > _SHORTEST_STEM
        )

    @cached_property
    def _long(self) -> tuple[str, ...]:
        """Words of so many letters that one more or less makes no other word."""
        lines = {word for word in self.vocabulary if word.isalpha()} - _english_words()
        return tuple(sorted(word for word in lines | self.families if len(word) >= _LONG_STEM))

    def continues(self, word: str, glued: bool) -> bool:
        """Return whether a word may follow in a name. glued: a dash or nothing stands before it."""
        if _SIZE.fullmatch(word) or _FORMATS.fullmatch(word):
            return True
        if glued:
            return True
        if word in _PROSE or re.fullmatch(r"\d+k", word):
            return False
        if word in KINDS and len(word) > 1:
            return True
        return (word in self.vocabulary and len(word) > 1) or self.family_in(word) is not None


def _families(names: Iterable[tuple[str, ...]]) -> Iterable[str]:
    """Yield the first word of every name that tells a family: its second one where the first
    describes, or where the second is no word of the language."""
    english = _english_words()
    for first, *others in names:
        if _tells(first):
            yield first
        for second in others[:1]:
            if _tells(second) and (first in DESCRIPTIVE or second not in english):
                yield second


def _tells(word: str) -> bool:
    return word.isalpha() and len(word) > 2 and word not in DESCRIPTIVE


@cache
def _english_words() -> frozenset[str]:
    """Return the words of the language that begin names of models. Source: SCOWL, American
    English, size 50 (wordlist.aspell.net); tools/english_words.py writes them."""
    return frozenset((tables.DATA / "english_words.txt").read_text("utf-8").split())


@lru_cache(maxsize=4096)
def joined(word: str) -> str:
    """Return a word of a text as it stands in `ModelNames.whole`: "distilled" as "distill". A word
    that is a format stays."""
    return "".join(words(word)) or word


def is_version(word: str) -> bool:
    """Return whether a word may be the version of a model: 3.1, v2, k2, 2507."""
    return _VERSION.fullmatch(word) is not None


def is_size(word: str) -> bool:
    """Return whether a word is the size of a model: 7b, 8x7b."""
    return _SIZE.fullmatch(word) is not None
