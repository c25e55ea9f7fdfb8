"""Reads the key-values at the beginning of a GGUF file.

Source: the GGUF specification (ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian:
magic, version u32, tensors u64, key-values u64, then every key-value as key (u64 length, bytes),
type u32, value."""

import struct
from math import prod
from typing import Final

import msgspec

from fitgauge.errors import MalformedModelError

MAX_KEYS = 4096
MAX_KEY_LENGTH = 1024
MAX_TEXT_LENGTH = 65536
"""longer texts (a chat template) are skipped"""
MAX_ITEMS = 4096
"""longer arrays (a vocabulary) are skipped, their length is kept"""
MAX_HEADER = 64 * 2**20
"""Bytes of a file of this machine that are read: vocabularies take up to some 20 MB."""
MAX_TENSORS = 2**20
MAX_DIMENSIONS = 8

_SCALARS: Final = {
    0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_TYPE_AND_OFFSET = 12

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


def count_elements(data: bytes) -> int:
    """Return how many numbers the tensors of a file hold, by the list behind the key-values:
    name, dimensions u32, sides u64, type u32, offset u64. 0 where `data` ends before the last.

    Raises MalformedModelError where `data` is not the beginning of a GGUF file."""
    cursor, elements = _Cursor(data), 0
    try:
        keys, tensors = _counts(cursor)
        for _ in range(keys):
            cursor.text(MAX_KEY_LENGTH)
            kind = cursor.integer("<I")
            if kind == _ARRAY:
                item, length = cursor.integer("<I"), cursor.integer("<Q")
                cursor.items(item, length)
            else:
                cursor.value(kind)
        for _ in range(tensors):
            cursor.text(MAX_KEY_LENGTH)
            sides = cursor.integer("<I")
            if sides > MAX_DIMENSIONS:
                raise MalformedModelError(f"The GGUF file has a tensor of {sides} dimensions.")
            elements += prod(cursor.integer("<Q") for _ in range(sides))
            cursor.skip(_TYPE_AND_OFFSET)
    except _IncompleteError:
        return 0
    return elements


def _header(cursor: "_Cursor") -> int:
    """Return the number of key-values."""
    return _counts(cursor)[0]


def _counts(cursor: "_Cursor") -> tuple[int, int]:
    """Return the numbers of key-values and of tensors."""
    if cursor.take(4) != b"GGUF":
        raise MalformedModelError("The file is not a GGUF file: it does not begin with GGUF.")
    if (version := cursor.integer("<I")) not in (2, 3):
        raise MalformedModelError(
            f"Unsupported GGUF version {version}: 2 and 3 are supported, little-endian."
        )
    tensors, count = cursor.integer("<Q"), cursor.integer("<Q")
    if count > MAX_KEYS:
        raise MalformedModelError(f"The GGUF file has {count} key-values; the limit is {MAX_KEYS}.")
    return count, min(tensors, MAX_TENSORS)


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
