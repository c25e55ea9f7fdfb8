"""Reads the key-values at the beginning of a GGUF file.

Source: the GGUF specification (ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian:
magic, version u32, tensors u64, key-values u64, then every key-value as key (u64 length, bytes),
type u32, value."""

import struct
from typing import Final

import msgspec

from fitgauge.errors import MalformedModelError

MAX_KEYS = 4096
MAX_KEY_LENGTH = 1024
MAX_TEXT_LENGTH = 65536
"""longer texts (a chat template) are skipped"""
MAX_ITEMS = 4096
"""longer arrays (a vocabulary) are skipped, their length is kept"""

_SCALARS: Final = {
    0: "B",
    1: "b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9

Scalar = int | float | bool | str


class Metadata(msgspec.Struct, frozen=True):
    """The key-values of a GGUF file."""

    values: dict[str, Scalar | list[Scalar]]
    """By key; arrays of numbers as lists."""
    lengths: dict[str, int]
    """Lengths of all arrays, by key."""
    complete: bool
    """Whether the header was read to its end; False where the bytes ended first."""


class _IncompleteError(Exception):
    """The bytes at hand end inside a value."""


def read_metadata(data: bytes) -> Metadata:
    """Return the key-values that lie whole within `data`. Raises MalformedModelError where
    `data` is not the beginning of a GGUF file."""
    cursor = _Cursor(data)
    values: dict[str, Scalar | list[Scalar]] = {}
    lengths: dict[str, int] = {}
    try:
        for _ in range(_header(cursor)):
            key = cursor.text(MAX_KEY_LENGTH)
            if key is None:
                raise MalformedModelError(
                    f"The GGUF file has a key longer than {MAX_KEY_LENGTH} bytes."
                )
            kind = cursor.integer("<I")
            if kind == _ARRAY:
                item, lengths[key] = cursor.integer("<I"), cursor.integer("<Q")
                items = cursor.items(item, lengths[key])
                if items is not None:
                    values[key] = items
            elif (value := cursor.value(kind)) is not None:
                values[key] = value
    except _IncompleteError:
        return Metadata(values, lengths, complete=False)
    return Metadata(values, lengths, complete=True)


def _header(cursor: "_Cursor") -> int:
    """Return the number of key-values."""
    if cursor.take(4) != b"GGUF":
        raise MalformedModelError("The file is not a GGUF file: it does not begin with GGUF.")
    if (version := cursor.integer("<I")) not in (2, 3):
        raise MalformedModelError(
            f"Unsupported GGUF version {version}: 2 and 3 are supported, little-endian."
        )
    cursor.take(8)
    if (count := cursor.integer("<Q")) > MAX_KEYS:
        raise MalformedModelError(f"The GGUF file has {count} key-values; the limit is {MAX_KEYS}.")
    return count


class _Cursor:
    """A place in the bytes that only moves forward."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        self.skip(length)
        return self._data[self._at - length : self._at]

    def skip(self, length: int) -> None:
        """Go past `length` bytes."""
        if length > len(self._data) - self._at:
            raise _IncompleteError
        self._at += length

    def integer(self, form: str) -> int:
        """Return the next integer of a struct format."""
        number: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return number

    def text(self, longest: int) -> str | None:
        """Return the next string, None where it is longer than `longest` bytes."""
        length = self.integer("<Q")
        if length > longest:
            self.skip(length)
            return None
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Scalar | None:
        """Return the next value that is no array."""
        if kind == _STRING:
            return self.text(MAX_TEXT_LENGTH)
        scalar: Scalar = struct.unpack(_form(kind), self.take(struct.calcsize(_form(kind))))[0]
        return scalar

    def items(self, kind: int, count: int) -> list[Scalar] | None:
        """Return the next array of numbers; None for texts and for long ones, which are skipped."""
        if kind == _STRING:
            # every text takes its 8 bytes of length at least, so a false count ends with the bytes
            for _ in range(count):
                self.skip(self.integer("<Q"))
            return None
        form = _form(kind)
        if count > MAX_ITEMS:
            self.skip(count * struct.calcsize(form))
            return None
        return [struct.unpack(form, self.take(struct.calcsize(form)))[0] for _ in range(count)]


def _form(kind: int) -> str:
    if kind not in _SCALARS:
        raise MalformedModelError(f"The GGUF file has a value of unknown type {kind}.")
    return _SCALARS[kind]
