"""What people write for an engine, a version or a cache format, and what is meant."""

import re
from collections.abc import Sequence
from functools import lru_cache

from rapidfuzz import process

from fitgauge.engine.model.dtypes import dtype
from fitgauge.engine.serving.registry import ENGINES, engine_named
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError

_VERSION = re.compile(
    r"\s*[vb]?(\d{1,6})(?:\.(\d{1,4}))?(?:\.(\d{1,6}))?(?:[.+-]?(?:rc|dev|post|a|b)[\w.+-]{0,40})?\s*",
    re.IGNORECASE,
)
_GGML_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL")
_GGML_ALIASES = {
    "fp16": "F16",
    "float16": "F16",
    "fp32": "F32",
    "bfloat16": "BF16",
    "q8": "Q8_0",
    "q4": "Q4_0",
    "q5": "Q5_0",
    "int8": "Q8_0",
}
AS_PUBLISHED = "as published"
"""How an answer calls the number format of a repository's own weights."""

_PUBLISHED = ("aspublished", "published", "auto", "default", "null")
_MOST_FORMATS = 16
_CACHE_DTYPES = {"fp8": "F8_E4M3", "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2", "int8": "I8"}


def engine(text: str | None) -> EngineName:
    """Return the engine that is meant; vllm where nothing is said. Raises InvalidRequestError
    for one that is not sized here."""
    if text is None:
        return "vllm"
    word = re.sub(r"[^a-z0-9]", "", text.lower())
    name = engine_named(word)
    if name is not None:
        return name
    words = [word for row in ENGINES.values() for word in row.words]
    near = tuple(name for name, _, _ in process.extract(word, words, limit=2, score_cutoff=60))
    raise InvalidRequestError(
        f"{text.strip()!r} is no engine that is known here.",
        hint=f"Send {', '.join(sorted(ENGINES))}.",
        matches=near,
        field="engine",
    )


def split_list(sent: str | Sequence[str] | None) -> list[str]:
    """Name sent as a list, or as one text with commas between them; each once."""
    if sent is None:
        return []
    parts = sent.split(",") if isinstance(sent, str) else sent
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def quantization(text: str | None) -> str | None:
    """Return the number format of the weights that is asked for, as it was written; None where
    it is the published one."""
    return None if text is None or re.sub(r"[^a-z]", "", text.lower()) in _PUBLISHED else text


def quantizations(sent: str | Sequence[str] | None) -> list[str | None]:
    """Such formats, as published where none is named. Raises InvalidRequestError for too many."""
    named = split_list(sent) or [AS_PUBLISHED]
    if len(named) > _MOST_FORMATS:
        detail = f"{len(named)} quantizations are too many."
        raise InvalidRequestError(
            detail, hint=f"Send up to {_MOST_FORMATS}.", field="quantizations"
        )
    return [quantization(name) for name in named]


@lru_cache(maxsize=256)
def version(text: str) -> tuple[int, ...]:
    """'v0.31.0', '0.31' or '0.29.1rc1.dev187' as numbers. Raises InvalidRequestError for what is
    no version."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            f"{text.strip()!r} is no version.",
            hint="Send a version such as 0.33.0.",
            field="engine_version",
        )
    return tuple(int(part) for part in match.groups() if part is not None)


def cache_dtype(text: str | None, engine: EngineName = "vllm") -> str:
    """Return the canonical format of the cache, or `auto`: what the engine takes by itself.

    llama.cpp and Ollama have ggml types (q8_0) where others have fp8. Raises InvalidRequestError
    for one the engine does not know."""
    word = (text or "auto").strip().lower()
    if word in ("auto", "default", "model"):
        return "auto"
    if ENGINES[engine].reads_gguf:
        return _ggml_type(word, str(text))
    if word in _CACHE_DTYPES:
        return _CACHE_DTYPES[word]
    try:
        found = dtype(word)
    except InvalidRequestError:
        found = ""
    if found not in ("F16", "BF16", "F32", "F8_E4M3", "F8_E5M2", "I8"):
        raise InvalidRequestError(
            f"{text!r} is no format of a KV cache.",
            hint="Send auto, fp8, bf16 or fp16.",
            field="kv_cache_dtype",
        )
    return found


def _ggml_type(word: str, text: str) -> str:
    """Return a ggml type that llama.cpp takes for --cache-type-k. Source: llama.cpp
    common/arg.cpp, kv_cache_types."""
    found = _GGML_ALIASES.get(word, word.upper())
    if found not in _GGML_TYPES:
        raise InvalidRequestError(
            f"{text!r} is no format of llama.cpp's KV cache.",
            hint="Send auto, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl.",
            matches=("q8_0", "q4_0"),
            field="kv_cache_dtype",
        )
    return found
