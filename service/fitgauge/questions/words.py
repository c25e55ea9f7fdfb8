"""What people write for an engine, a version or a cache format, and what is meant."""

import re

from rapidfuzz import process

from fitgauge.engine.dtypes import dtype
from fitgauge.engine.workload import EngineName
from fitgauge.errors import InvalidQuestion

_ENGINES: dict[str, EngineName] = {
    "vllm": "vllm", "transformers": "transformers", "hf": "transformers", "huggingface": "transformers", "hftransformers": "transformers",
    "huggingfacetransformers": "transformers", "accelerate": "transformers",
}  # fmt: skip
_LATER = ("sglang", "tensorrtllm", "trtllm", "llamacpp", "ollama", "tgi", "mlx")
_VERSION = re.compile(r"\s*v?(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,6}))?(?:[.+-]?(?:rc|dev|post|a|b)[\w.+-]{0,40})?\s*", re.IGNORECASE)
_CACHE_DTYPES = {"fp8": "F8_E4M3", "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2", "int8": "I8"}


def engine(text: str | None) -> EngineName:
    """The engine that is meant; vllm where nothing is said. Raises InvalidQuestion for one that is not sized here."""
    if text is None:
        return "vllm"
    word = re.sub(r"[^a-z0-9]", "", text.lower())
    if word in _ENGINES:
        return _ENGINES[word]
    known = "vllm and transformers are sized."
    if word in _LATER:
        raise InvalidQuestion(f"The engine {text.strip()} is not sized yet.", hint=f"Send vllm or transformers: {known}", field="engine")
    near = tuple(name for name, _, _ in process.extract(word, list(_ENGINES), limit=2, score_cutoff=60))
    raise InvalidQuestion(f"{text.strip()!r} is no engine that is known here.", hint=f"Only {known}", matches=near, field="engine")


def version(text: str) -> tuple[int, ...]:
    """'v0.31.0', '0.31' or '0.29.1rc1.dev187' as numbers. Raises InvalidQuestion for what is no version."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InvalidQuestion(f"{text.strip()!r} is no version.", hint="Send a version such as 0.33.0.", field="engine_version")
    return tuple(int(part) for part in match.groups() if part is not None)


def cache_dtype(text: str | None) -> str:
    """The canonical format of the cache, or `auto`: what the engine takes by itself. Raises InvalidQuestion for an unknown one."""
    word = (text or "auto").strip().lower()
    if word in ("auto", "default", "model"):
        return "auto"
    if word in _CACHE_DTYPES:
        return _CACHE_DTYPES[word]
    try:
        found = dtype(word)
    except InvalidQuestion:
        found = ""
    if found not in ("F16", "BF16", "F32", "F8_E4M3", "F8_E5M2", "I8"):
        raise InvalidQuestion(f"{text!r} is no format of a KV cache.", hint="Send auto, fp8, bf16 or fp16.", field="kv_cache_dtype")
    return found
