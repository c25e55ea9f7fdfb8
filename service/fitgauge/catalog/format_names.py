"""Number formats in the names of models: "-AWQ", "GPTQ-Int4", "4bit", "Q4_K_M", "GGUF"."""

import re

from fitgauge.engine.quantization.formats import GGUF_FILE_BITS

USUAL_GGUF = "q4_k_m"
"""The file that people mean by a GGUF without a type, and what Ollama serves."""

QAT = "q4_0"
"""The file of Google's models that are trained with quantization (QAT), by the names of its
repositories: google/gemma-3-27b-it-qat-q4_0-gguf."""

_GGUF_TYPES = {name.lower().replace("_", ""): name.lower() for name in GGUF_FILE_BITS} | {
    "q4": "q4_k_m",
    "q5": "q5_k_m",
    "q6": "q6_k",
    "q8": "q8_0",
    "q3": "q3_k_m",
    "q2": "q2_k",
    "q4k": "q4_k_m",
    "q5k": "q5_k_m",
    "q3k": "q3_k_m",
}
"""File types without underscores, and what people shorten them to."""

_GGUF = re.compile(
    r"(?<![a-z0-9])(?:ud[-_])?(i?q\d(?:[-_]?(?:k|nl|xxs|xs|s|m|\d))?(?:[-_]?(?:xxs|xl|xs|s|m|l))?)"
    r"(?![a-z0-9])"
)
_WORDS = (
    (re.compile(r"(?<![a-z0-9])w4a16(?![a-z0-9])"), "int4"),
    (re.compile(r"(?<![a-z])qat(?![a-z])"), "qat"),
    (re.compile(r"(?<![a-z0-9])w8a8(?![a-z0-9])"), "w8a8"),
    (re.compile(r"(?<![a-z])(?:nvfp4)(?![a-z0-9])"), "nvfp4"),
    (re.compile(r"(?<![a-z])(?:mxfp4)(?![a-z0-9])"), "mxfp4"),
    (re.compile(r"(?<![a-z])(?:fp8|float8)(?![a-z0-9])"), "fp8"),
    (re.compile(r"(?<![a-z])(?:nf4)(?![a-z0-9])"), "nf4"),
    (re.compile(r"(?<![a-z])(?:bnb|bitsandbytes)(?![a-z0-9])"), "bnb"),
    (re.compile(r"(?<![a-z])gptq(?![a-z])"), "gptq"),
    (re.compile(r"(?<![a-z])awq(?![a-z])"), "awq"),
    (re.compile(r"(?<![a-z])(?:gguf|ggml)(?![a-z])"), "gguf"),
    (re.compile(r"(?<![a-z])int[-_ ]?4(?![a-z0-9])|(?<![a-z0-9.])4[-_ ]?bits?(?![a-z])"), "int4"),
    (re.compile(r"(?<![a-z])int[-_ ]?8(?![a-z0-9])|(?<![a-z0-9.])8[-_ ]?bits?(?![a-z])"), "int8"),
    (re.compile(r"(?<![a-z])(?:bf16|bfloat16)(?![a-z0-9])"), "bf16"),
    (re.compile(r"(?<![a-z])(?:fp16|float16|f16)(?![a-z0-9])"), "fp16"),
)


def take_formats(text: str) -> tuple[str, str]:
    """Return a text in small letters without the formats it names, and the format, "" for none."""
    format_words: set[str] = set()
    gguf = ""
    for match in _GGUF.finditer(text):
        gguf = gguf or _GGUF_TYPES.get(re.sub("[-_]", "", match[1]), "")
    if gguf:
        text = _GGUF.sub(" ", text)
    for pattern, word in _WORDS:
        if pattern.search(text):
            format_words.add(word)
            text = pattern.sub(" ", text)
    return text, gguf or format_of(format_words)


def format_of(words: set[str]) -> str:
    """Return the format that the words of one name mean together: gptq and int8 are gptq_int8."""
    if "gptq" in words:
        return "gptq_int8" if "int8" in words else "gptq"
    if "qat" in words and not words - {"qat", "gguf"}:
        return QAT if "gguf" in words else "int4"
    if "bnb" in words:
        return "int8" if "int8" in words else "nf4"
    for word in ("awq", "nvfp4", "mxfp4", "nf4", "fp8", "w8a8", "int8", "int4", "gguf"):
        if word in words:
            return USUAL_GGUF if word == "gguf" else word
    return next((word for word in ("bf16", "fp16") if word in words), "")
