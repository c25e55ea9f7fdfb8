"""Parse the names of engines, versions and number formats."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from fitgauge.catalog.other_engines import OtherEngine, other_engine
from fitgauge.catalog.variants import file_type
from fitgauge.engine.model.dtypes import dtype
from fitgauge.engine.quantization.requested import canonical_name, names_bitsandbytes
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES, engine_named
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import InvalidRequestError

_VERSION = re.compile(
    r"\s*[vb]?(\d{1,6})(?:\.(\d{1,4})(?:\.(\d{1,6})(?:(?:\.|[.+-]?post)(\d{1,4}))?)?)?"
    r"(?:[.+-]?(?:rc|dev|post|a|b)[\w.+-]{0,40}|\+[\w.-]{1,40})?\s*",
    re.IGNORECASE,
)
_PARTS_OF_A_POST = 4
_BETWEEN_RELEASES = re.compile(r"dev|rc|\+g[0-9a-f]{6}", re.IGNORECASE)
_GGML_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL")
_GGML_ALIASES = {
    "fp16": "F16", "float16": "F16", "fp32": "F32", "bfloat16": "BF16", "q8": "Q8_0", "q4": "Q4_0",
    "q5": "Q5_0", "int8": "Q8_0",
}  # fmt: skip
_GGUF_OF_BITS = {
    "int2": "q2_k", "int3": "q3_k_m", "int4": "q4_k_m", "int5": "q5_k_m", "int6": "q6_k",
    "int8": "q8_0",
}  # fmt: skip
"""The usual GGUF file of so many bits."""

AS_PUBLISHED = "as published"
"""The name of the number format of a repository's own weights."""

_PUBLISHED = ("aspublished", "published", "auto", "default", "null")
_GGUF_LABEL = re.compile(r"^UD-|_K_X?L$|\.gguf$", re.IGNORECASE)
_MOST_FORMATS = 16
_CACHE_DTYPES = {"fp8": "F8_E4M3", "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2", "int8": "I8"}


def engine(text: str | None) -> EngineName:
    """Return the engine of this name; the first default one for None. Raise InvalidRequestError
    for an unknown one."""
    if text is None:
        return DEFAULT_ENGINES[0]
    word = re.sub(r"[^a-z0-9]", "", text.lower())
    name = engine_named(word)
    if name is not None:
        return name
    if other := other_engine(word):
        raise _not_covered(other)
    from rapidfuzz import process  # of names that are not there alone

    names = {word: row.name for row in ENGINES.values() for word in row.words}
    close = process.extract(word, list(names), limit=4, score_cutoff=60)
    near = tuple(dict.fromkeys(names[alias] for alias, _, _ in close))
    raise InvalidRequestError(
        f"Unknown engine {text.strip()!r}.",
        hint=f"Use {', '.join(sorted(ENGINES))}.",
        matches=near,
        field="engine",
        code="unknown-engine",
    )


def _not_covered(other: OtherEngine) -> InvalidRequestError:
    """Return the error of an engine without estimates, with the one that comes nearest."""
    choices = f"Covered are {', '.join(sorted(ENGINES))}."
    return InvalidRequestError(
        other.described(),
        hint=f"Send engine {other.instead}, which comes nearest." if other.instead else choices,
        matches=(other.instead,) if other.instead else (),
        field="engine",
        code="unknown-engine",
        send={"engine": other.instead} if other.instead else None,
    )


def split_list(sent: str | Sequence[str] | None) -> list[str]:
    """Return names sent as a list, or as one comma-separated text; each once."""
    if sent is None:
        return []
    parts = sent.split(",") if isinstance(sent, str) else sent
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def quantization(text: str | None) -> str | None:
    """Return the requested number format of the weights, as written but for a GGUF file's label
    ("UD-Q4_K_XL"), which is its type; None for the published one."""
    if text is None or re.sub(r"[^a-z]", "", text.lower()) in _PUBLISHED:
        return None
    return (file_type(text) if _GGUF_LABEL.search(text) else None) or text


def engine_format(quantization: str | None, engine: EngineName) -> str | None:
    """Return the format as the engine stores it: engines of GGUF files have Q4_K_M where others
    have 4-bit integers; what names bitsandbytes stays, as they do not read it."""
    if quantization is None or not ENGINES[engine].reads_gguf or names_bitsandbytes(quantization):
        return quantization
    return _GGUF_OF_BITS.get(canonical_name(quantization), quantization)


def quantizations(sent: str | Sequence[str] | None) -> list[str | None]:
    """Return such formats; the published one for an empty list. Raise InvalidRequestError for too
    many."""
    named = split_list(sent) or [AS_PUBLISHED]
    if len(named) > _MOST_FORMATS:
        detail = f"{len(named)} quantizations are too many: the limit is {_MOST_FORMATS}."
        raise InvalidRequestError(
            detail,
            hint=f"Send up to {_MOST_FORMATS}.",
            field="quantizations",
            code="unknown-quantization",
        )
    return [quantization(name) for name in named]


@lru_cache(maxsize=256)
def version(text: str) -> tuple[int, ...]:
    """Return the numbers of 'v0.31.0', '0.31', '0.29.1rc1.dev187' or '0.11.0+gfx906', four of
    releases after a release: '0.10.1.1', '0.4.4.post2'. Raise InvalidRequestError for any other
    text."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            f"Invalid version {text.strip()!r}.",
            hint="Send a version such as 0.33.0.",
            field="engine_version",
            code="invalid-value",
        )
    return tuple(int(part) for part in match.groups() if part is not None)


def release_name(numbers: tuple[int, ...], text: str | None) -> str:
    """Return the numbers of a version as its project writes the release: '0.33.0'; '0.8.5.post1'
    where the text that they were read from has it so."""
    *release, last = map(str, numbers)
    is_post = len(numbers) == _PARTS_OF_A_POST and text is not None and "post" in text.lower()
    return ".".join((*release, f"post{last}" if is_post else last))


def is_between_releases(text: str | None) -> bool:
    """Return whether a version names a build between releases ('0.29.1rc1.dev187+gaf1c014'),
    which may have what its numbers do not tell."""
    return text is not None and _BETWEEN_RELEASES.search(text) is not None


_CACHES_IN_SHORT = {"int4": "int4_per_token_head", "turboquant": "turboquant_4bit_nc"}
"""The flag of the commonest of several formats by what people call all of them."""


def takes_cache(text: str | None, engine: EngineName) -> bool:
    """Return whether an engine supports this dtype of the cache."""
    try:
        kv_cache_dtype(text, engine)
    except InvalidRequestError:
        return False
    return True


def kv_cache_dtype(text: str | None, engine: EngineName) -> str:
    """Return the canonical dtype of the cache, or `auto`: the engine's default.

    llama.cpp and Ollama have ggml types (q8_0) where others have fp8; a name of the engine's own
    flag (int4_per_token_head) is taken as it is. Raise InvalidRequestError for a dtype the engine
    does not support."""
    word = (text or "auto").partition("(")[0].strip().lower()
    if word in ("auto", "default", "model"):
        return "auto"
    if ENGINES[engine].reads_gguf:
        return _ggml_type(word, str(text), engine)
    if word in _CACHE_DTYPES:
        return _CACHE_DTYPES[word]
    flags = ENGINES[engine].cache_dtypes or {}
    word = _CACHES_IN_SHORT.get(word, word)
    if word in flags.values():
        return next(name for name, flag in flags.items() if flag == word)
    try:
        cache_dtype = dtype(word)
    except UnsupportedError:
        cache_dtype = ""
    if cache_dtype not in ("F16", "BF16", "F32", "F8_E4M3", "F8_E5M2", "I8"):
        raise InvalidRequestError(
            f"Unknown KV cache dtype {text!r}.",
            hint=_use(dict.fromkeys(("auto", "fp8", "bf16", "fp16", *flags.values()))),
            field="kv_cache_dtype",
            code="unknown-kv-cache-dtype",
        )
    return cache_dtype


def _use(names: Iterable[str]) -> str:
    """Return the hint that lists what to send."""
    *first, last = names
    return f"Use {', '.join(first)} or {last}."


def _ggml_type(word: str, text: str, engine: EngineName) -> str:
    """Return a ggml type that llama.cpp takes for --cache-type-k. Source: llama.cpp
    common/arg.cpp, kv_cache_types."""
    ggml_type = _GGML_ALIASES.get(word, word.upper())
    if ggml_type not in _GGML_TYPES:
        raise InvalidRequestError(
            f"{engine} has no KV cache dtype {text!r}.",
            hint="Use auto, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl.",
            matches=("q8_0", "q4_0"),
            field="kv_cache_dtype",
            code="unknown-kv-cache-dtype",
        )
    return ggml_type
