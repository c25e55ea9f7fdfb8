"""The names of models, taken apart into words, versions and sizes.

Every pattern is linear in the length of the text."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from fitgauge.catalog import tables
from fitgauge.catalog.format_names import take_formats

_TUNED = frozenset({"instruct", "chat", "it", "tuned", "sft"})
"""Words of a release that was tuned to follow instructions."""

SILENT = _TUNED | frozenset(
    {"meta", "hf", "nvidia", "c4ai", "uncased", "en", "pt", "preview", "moe", "hf1"}
)
"""Words of a name that people leave out and that tell no two models apart."""

KINDS = frozenset({
    "coder", "code", "vl", "v", "math", "omni", "embedding", "embed", "reranker", "rerank",
    "guard", "audio", "asr", "tts", "prover", "safeguard", "ocr", "multimodal",
})  # fmt: skip
"""Words of another kind of model, which a plain name never means."""

FILLERS = frozenset({
    "the", "a", "an", "model", "models", "please", "ai", "llm", "weights", "params", "parameters",
    "parameter", "para", "paras", "will", "from", "version", "of", "size", "sized", "gguf", "ggml",
    "quantized", "quant", "quants", "latest", "my", "our", "local", "ollama", "vllm", "library",
    "unsloth", "dynamic", "full", "weight", "class", "qat", "imatrix", "mlx", "marlin", "exl2",
    "exl3", "hqq", "autoround",
})  # fmt: skip
"""Words of a text that name no model."""

DESCRIPTIVE = frozenset(
    {
        "all", "command", "step", "text", "stable", "opt", "clip", "code", "tiny", "small",
        "base", "large", "meta", "nomic", "nvidia", "static", "snowflake", "arctic", "bart",
        "next", "mini", "flash", "reasoning", "vision", "think", "thinking", "super",
        "ultra", "nano", "pro", "plus", "lite", "medium", "patch", "turbo", "guard",
        "lightning", "embed", "embedding", "it", "en", "fr", "h", "j", "m", "r", "hf", "chat",
        "instruct", "coder", "math", "distill", "distilled", "cased", "uncased", "beta",
        "multilingual", "discriminator", "moe", "mt", "pt", "xl", "xxl", "oss", "vl", "scout",
        "maverick", "aya", "opus", "google", "microsoft", "apple", "amd", "intel", "ibm", "amazon",
        "facebook", "nemo", "yi", "preview", "open", "openai", "deep", "dev", "seed", "faster",
        "sft", "llm", "python", "linear", "native", "tuned", "reranker", "xxlarge", "paraphrase",
        "polyglot",
    }
)  # fmt: skip
"""Words of names that describe, or whose owner makes other things too: they name a model only
with a size or a version next to them."""

_SPELLINGS = {"r+": "r plus", "billion": "b", "code llama": "codellama", "distilled": "distill"}
"""Two ways to write one thing, the second as the ids write it."""

_TOKEN = re.compile(
    r"\d+x\d+(?:\.\d+)?[bm]?(?![a-z])|[ae]\d+(?:\.\d+)?[bm](?![a-z])"
    r"|\d+(?:\.\d+)?[bmt](?![a-z0-9])|\d+(?:\.\d+)?b(?=[a-z]{3})|\d+[ek](?![a-z0-9])"
    r"|(?<![a-z])v?\d+(?:\.\d+)*|(?<![a-z])[a-z]\d+(?:\.\d+)*|\d+(?:\.\d+)*|[a-z]+"
)
_SEVEN_ONE = re.compile(r"(?<![a-z\d.])(\d+)b(\d)(?![a-z\d.])")
"""bloom-7b1."""

_FILE = re.compile(r"\.gguf$|\.ggml(?:v\d)?(?=\.)|(?<=[._]k)\.bin$|(?<=[._]\d)\.bin$")
"""What says that a name is of a file, today's or of GGML's older forms."""

_MODELSCOPE = re.compile(r"(?<=\w)___(?=\w)")
"""The dot of a name in the folders that ModelScope downloads to."""

_UNDERSCORED = re.compile(
    r"(?<=\d)_(?=\d{1,2}(?!\d)(?!\d*(?:\.\d+)?[bmtk](?![a-z])))|(?<=-\d)_(?=\d[bm])"
)
"""phi-1_5 and Qwen-1_8B; not Qwen3_14B."""

_SPLIT_VERSION = re.compile(r"(?<![\d.])(\d)[ -](\d)(?=[ -]\d+(?:\.\d+)?[bm]\b)")
"""llama-3-1-8b."""

_TAG = re.compile(r"(?:library/)?[a-z0-9.\-]+:[a-z0-9._\-]+")
"""A model and a tag of Ollama: qwen3:8b."""

_OTHER_SCRIPT = re.compile(r"[^\W\d_a-zA-Z]")
_OTHER_FILLERS = re.compile(
    r"[亿百千万]|大?(?:语言)?模型|参数|的|个|一|量级|级别|级|规模|版本?|모델|파라미터|짜리|급|의"
)
"""Words of other scripts that name no model: "70b 大模型"."""

_BARE_NUMBER = re.compile(r"\d{1,3}(?:\.\d)?")
_ACTIVE = re.compile(r"a\d+(?:\.\d+)?[bm]|\d+[ek]")
_SIZE = re.compile(r"(?:(\d+)x)?e?(\d+(?:\.\d+)?)([bmt])")
_EXPERTS = re.compile(r"\d+x\d+(?:\.\d+)?")
_NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)")
DATE = re.compile(r"\d{4}|0\.\d+|0\d|1")
_SCALE = {"m": 1e6, "b": 1e9, "t": 1e12}


class Name(NamedTuple):
    """The parts of a name."""

    id: str
    """The name as it is written."""
    family: str
    """Its first word."""
    words: frozenset[str]
    """Family and line."""
    numbers: frozenset[str]
    """Versions and dates."""
    sizes: frozenset[str]
    """Parameters."""
    active: frozenset[str]
    """Active parameters, experts and lengths."""
    format: str
    """The number format; "" for none."""
    tuned: bool
    """Whether it was tuned to instructions."""
    owner: frozenset[str] = frozenset()
    """Words of the owner."""

    @classmethod
    def of(cls, model_id: str) -> "Name":
        """Return the parts of an id."""
        owner, _, name = model_id.partition("/")
        return parts_of(model_id, tokens(name or owner))._replace(
            owner=frozenset(tokens(owner if name else "")[0])
        )

    @property
    def versions(self) -> frozenset[str]:
        """The numbers that are no dates."""
        return frozenset(number for number in self.numbers if not DATE.fullmatch(number))

    @property
    def newest(self) -> float:
        """The highest version, also where it stands behind a letter; 0 for none."""
        letters = [word[1:] for word in self.words if re.fullmatch(r"[a-z]\d+(?:\.\d+)?", word)]
        return max((version_value(number) for number in (*self.versions, *letters)), default=0.0)


def in_latin(text: str) -> str:
    """Return a text with the families that it names in other scripts as ids write them."""
    if text.isascii():
        return text
    names, pattern = _family_names()
    return pattern.sub(lambda match: f" {names[match[0]]} ", text)


@cache
def _family_names() -> tuple[Mapping[str, str], re.Pattern[str]]:
    """Return data/family_names.tsv, and what matches its names, the longest first; no syllable of
    Hangul stands before one."""
    names = {row[0]: row[1] for row in tables.rows("family_names")}
    written = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return names, re.compile(rf"(?<![\uac00-\ud7a3])(?:{written})")


def tokens(text: str) -> tuple[list[str], str]:
    """Return the words, sizes and numbers of a name in their order, and the format it names."""
    text = _FILE.sub("", in_latin(text).lower())
    for written, meaning in _SPELLINGS.items():
        text = text.replace(written, meaning)
    text, form = take_formats(_MODELSCOPE.sub(".", text))
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
    if _OTHER_SCRIPT.search(_OTHER_FILLERS.sub("", text)):
        return None
    written, form = tokens(text)
    query = parts_of(text, (written, form))
    others = query.words - FILLERS - SILENT - {"base"}
    if (
        len(query.sizes) != 1
        or query.numbers
        or query.active
        or any(len(one) > 1 for one in others)
    ):
        return None
    (size,) = query.sizes
    return (size, form) if size[0].isdigit() and "x" not in size else None


def is_tag(text: str) -> bool:
    """Return whether a text is a model and a tag of Ollama: qwen3:8b, library/qwen3:8b."""
    return bool(_TAG.fullmatch(text.strip().lower()))


def parts_of(text: str, written: tuple[Sequence[str], str]) -> Name:
    """Return the parts of a text from its words and the format it names."""
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


def scaled(size: str) -> float:
    """Return the parameters that a size such as "8x7b" names."""
    match = _SIZE.fullmatch(size)
    assert match is not None
    return float(match[1] or 1) * float(match[2]) * _SCALE[match[3]]


def version_value(number: str) -> float:
    """Return a version as a number that orders it: "4.1.2" is 4.12."""
    whole, _, rest = number.partition(".")
    return float(f"{whole}.{rest.replace('.', '')}") if rest else float(whole)


def says_all(text: str, model_id: str) -> bool:
    """Return whether a text holds every word of a name that tells models apart."""
    query = parts_of(text, tokens(text))
    name = Name.of(model_id)
    is_sized = not query.sizes or name.sizes <= query.sizes
    return is_sized and name.words - SILENT - query.words <= {"base"}
