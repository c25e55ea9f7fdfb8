"""Read number formats of weights: awq, int4, "4 bit", Q4_K_M."""

import re
from collections.abc import Callable

from fitgauge.catalog.format_names import take_formats
from fitgauge.catalog.variants import file_type
from fitgauge.engine.quantization.formats import GGUF_BLOCKS, GGUF_FILE_BITS
from fitgauge.engine.quantization.gguf_types import DEFAULT_BLOCKS
from fitgauge.services.ask.pieces import Piece
from fitgauge.services.ask.scan import Scan, Token

FORMAT = re.compile(
    r"(?:w\d{1,2}a\d{1,2}|i?q\d(?:[_k][a-z0-9_]*|[a-z]{1,3})?|awq|gptq|exl[23]|eetq|hqq|aqlm|spqr|vptq"
    r"|(?:bf|fp|int|nf|nvfp|mxfp|float)\d{1,2}(?:_e\dm\d)?|bfloat16|bnb|bitsandbytes(?:config)?|[48]-?bits?|\d(?:\.\d{1,2})?bpw)"
)
_LOADED_AS = {"fp4": "nvfp4"}
"""What a format is as it is served: vLLM and SGLang read no other FP4 of so short a name."""

_BITS = re.compile(r"([2-8]|\d\.\d{1,2})[ -]?(bits?|bpw)\b", re.IGNORECASE)
_USUAL_FILES = (
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "Q2_K", "IQ3_XXS"),
    *("Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K"),
)
"""Types of GGUF files that are published of most models, from the smallest."""

_GGML = re.compile(r"(i?q\d)[_-]?(k|xs|xxs|s|m|l|nl|[01])?[_-]?(xl|m|s|l)?(?![a-z0-9])")


def read_formats_within(scan: Scan, first: int, last: int) -> None:
    """Emit the formats that stand in a name, without taking them out of it."""
    for place in range(first + 1, last + 1):
        piece = scan.pieces[place]
        ggml = _ggml_at(scan, piece)
        if ggml is None:
            read_format_of(scan, piece)
        else:
            name, end = ggml
            text = scan.text[piece.start : end]
            scan.tokens.append(Token("FORMAT", name, text, piece.start, end, scan.sentence))


def _ggml_at(scan: Scan, piece: Piece) -> tuple[str, int] | None:
    """Return the type of a GGUF file that begins at a piece, and where it ends."""
    match = _GGML.match(scan.text[piece.start : piece.start + 12].lower())
    if match is None:
        return None
    glued = re.fullmatch(r"(i?q\d)(k)(m|s|l)|(iq\d)(xs|xxs|nl)", piece.low)
    name = "_".join(part for part in (glued or match).groups() if part)
    if "_" not in name:
        name = take_formats(name)[1] or name
    return (file_type(name) or name).lower(), piece.start + match.end()


def read_format_of(scan: Scan, piece: Piece) -> None:
    """Add the format that stands in a word."""
    match = re.search(rf"(?<![a-z0-9]){FORMAT.pattern}(?![a-z0-9])", piece.low)
    if match:
        name = _LOADED_AS.get(match[0], match[0])
        scan.tokens.append(Token("FORMAT", name, match[0], piece.start, piece.end, scan.sentence))


def read_format(scan: Scan, index: int) -> int | None:
    """Read a number format: awq, int4, "4 bit", Q4_K_M."""
    piece = scan.pieces[index]
    low = piece.low
    if (ggml := _ggml_at(scan, piece)) is not None:
        return scan.emit("FORMAT", ggml[0], index, scan.through(index, ggml[1]))
    if FORMAT.fullmatch(low):
        name = re.sub(r"^([48])-?bits?$", r"int\1", low)
        name = "bnb" if name.startswith("bitsandbytes") else _LOADED_AS.get(name, name)
        return scan.emit("FORMAT", name, index, index)
    if (bits := _BITS.match(scan.text, piece.start)) is not None:
        whole = take_formats(f"q{bits[1]}")[1] if bits[1] in "567" else f"int{bits[1]}"
        name = whole if whole and bits[1].isdigit() else file_of_bits(float(bits[1]))
        name = f"{bits[1]}bpw" if bits[2].lower() == "bpw" else name
        return scan.emit("FORMAT", name, index, scan.through(index, bits.end()))
    return None


def file_of_bits(bits: float) -> str:
    """Return the usual file whose type has about so many bits, as people name files by them: "the
    1.58-bit DeepSeek" is an IQ1_S (unsloth.ai/blog/deepseekr1-dynamic)."""
    return _nearest(bits, _bits_of_blocks)


def file_as_large(bits: float) -> str:
    """Return the usual file that has about so many bits a weight in all: ExLlama's bpw."""
    return _nearest(bits, GGUF_FILE_BITS.__getitem__)


def _bits_of_blocks(name: str) -> float:
    weights, size = GGUF_BLOCKS[DEFAULT_BLOCKS[name]]
    return 8 * size / weights


def _nearest(bits: float, bits_of: Callable[[str], float]) -> str:
    return min(_USUAL_FILES, key=lambda name: abs(bits_of(name) - bits)).lower()
