"""Writes the beginnings of safetensors and GGUF files, as their specifications have it."""

import json
import struct
from collections.abc import Mapping
from typing import Any

from fitgauge.engine.model.dtypes import size_of
from fitgauge.engine.model.spec import ModelSpec


def tensors_of(spec: ModelSpec) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return every tensor of a checkpoint: name -> (dtype, shape), layer by layer and expert by
    expert."""
    found = {}
    for block in spec.blocks:
        for layer in block.layers:
            for tensor in block.tensors:
                for expert in range(tensor.count):
                    name = block.prefix.format(layer) + tensor.name.replace("*", str(expert))
                    found[name] = (tensor.dtype or spec.dtype, tensor.shape)
    return found


def safetensors_header(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, int]:
    """Return the header of a safetensors file, and the size [bytes] the whole file would have."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        elements = 1
        for size in shape:
            elements *= size
        start, end = end, end + size_of(elements, dtype)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, 8 + len(text) + end


def elements_by_dtype(header: bytes) -> dict[str, int]:
    """Return numbers by dtype in one safetensors header, as the Hub counts them."""
    counts: dict[str, int] = {}
    for name, tensor in json.loads(header[8 : 8 + struct.unpack("<Q", header[:8])[0]]).items():
        if name != "__metadata__":
            elements = 1
            for size in tensor["shape"]:
                elements *= size
            counts[tensor["dtype"]] = counts.get(tensor["dtype"], 0) + elements
    return counts


def gguf_header(values: Mapping[str, Any], *, version: int = 3, tensors: int = 0) -> bytes:
    """Return the beginning of a GGUF file: int -> u32, float -> f32, bool, str, lists of one of
    them."""
    parts = [b"GGUF", struct.pack("<IQQ", version, tensors, len(values))]
    for key, value in values.items():
        parts += [_text(key), _typed(value)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _typed(value: Any) -> bytes:
    kind = _kind(value)
    if isinstance(value, list):
        items = b"".join(_bare(item) for item in value)
        return struct.pack("<IIQ", kind, _kind(value[0]), len(value)) + items
    return struct.pack("<I", kind) + _bare(value)


def _kind(value: Any) -> int:
    if isinstance(value, list):
        return 9
    if isinstance(value, str):
        return 8
    if isinstance(value, bool):
        return 7
    if isinstance(value, float):
        return 6
    return 4


def _bare(value: Any) -> bytes:
    if isinstance(value, str):
        return _text(value)
    return struct.pack(
        "?" if isinstance(value, bool) else "<f" if isinstance(value, float) else "<I", value
    )
