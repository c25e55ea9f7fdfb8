"""Number formats by the names that safetensors files use, and how wide they are."""

from fitgauge.engine.unsupported import UnsupportedError

BITS: dict[str, int] = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
    "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "I4": 4,
    "U4": 4, "BOOL": 8,
}  # fmt: skip
"""Bits of one element. Source: the safetensors format (safetensors/src/tensor.rs, enum Dtype);
TF32 is a compute format, stored as F32."""

_ALIASES: dict[str, str] = {
    "float64": "F64", "double": "F64", "fp64": "F64", "float32": "F32", "float": "F32",
    "fp32": "F32", "tf32": "F32",
    "float16": "F16", "half": "F16", "fp16": "F16", "bfloat16": "BF16", "bf16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e4m3": "F8_E4M3", "fp8_e4m3": "F8_E4M3", "fp8": "F8_E4M3",
    "e4m3": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "fp8_e5m2": "F8_E5M2", "e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "int4": "I4",
    "uint4": "U4",
    "f8_e4m3fn": "F8_E4M3", "f8_e5m2fn": "F8_E5M2", "bool": "BOOL",
}  # fmt: skip


def dtype(name: str) -> str:
    """Return the canonical name of a number format: 'torch.bfloat16' -> 'BF16'. Raises
    UnsupportedError for one that is unknown."""
    text = name.strip().removeprefix("torch.")
    canonical = _ALIASES.get(text.lower(), text.upper())
    if canonical not in BITS:
        raise UnsupportedError(
            "dtype",
            f"Unknown number format {name!r}.",
            ({"dtype": ("bf16", "fp16", "fp32", "fp8", "int8")},),
        )
    return canonical


def size_of(elements: int, name: str) -> int:
    """Return the bytes of `elements` numbers of the canonical format `name`, packed, rounded up
    to a whole byte."""
    return (elements * BITS[name] + 7) // 8
