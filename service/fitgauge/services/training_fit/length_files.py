"""Lengths of a data set's samples from a file: JSON, one whole number a line, or a histogram in two
columns."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import msgspec

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.run_fields import MOST_LENGTHS

LONGEST_FILE = 64 * 2**20
"""Bytes of a file."""
_DIGITS = 8
_MOST_DIGITS = 13
"""Of a number of samples."""
_SEPARATOR = re.compile(rb"\s*[,;\s]\s*")
_Length = Annotated[int, msgspec.Meta(ge=1, le=10**_DIGITS - 1)]
_Samples = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000_000)]
_HINT = (
    "Write one whole number a line, two columns of tokens and numbers of samples, a JSON list, or a"
    " JSON object of tokens and numbers of samples."
)


def read_lengths(text: bytes) -> dict[str, int]:
    """Return number of samples by length [tokens] from a file of at most LONGEST_FILE bytes.

    Of more than MOST_LENGTHS different lengths, neighbours are rounded up to a common one. Raises
    InvalidRequestError for anything else."""
    if len(text) > LONGEST_FILE:
        raise _unreadable(f"it is larger than {LONGEST_FILE // 2**20} MiB")
    samples = _samples(text)
    step = 1
    while len(samples) > MOST_LENGTHS:
        step *= 2
        samples = _rounded_up(samples, step)
    return {str(length): number for length, number in sorted(samples.items())}


def _samples(text: bytes) -> Mapping[int, int]:
    """Return number of samples by length; a list has one sample an element."""
    try:
        if (counted := _in_columns(text)) is not None:
            return counted
        read = msgspec.json.decode(text, type=list[_Length] | dict[_Length, _Samples])
    except msgspec.MsgspecError as error:
        raise _unreadable(str(error)) from None
    samples = Counter(read) if isinstance(read, list) else read
    if not samples:
        raise _unreadable("it is empty")
    return samples


def _in_columns(text: bytes) -> Mapping[int, int] | None:
    """Return number of samples by length of whole numbers below a line of names, where there is
    one: lines of two are a histogram, all others lengths. None of anything else. Raises
    msgspec.ValidationError for numbers out of bounds."""
    lines = [_SEPARATOR.split(line.strip()) for line in text.splitlines() if line.strip()]
    numbers = lines[1:] if lines and lines[0][0][:1].isalpha() else lines
    words = [word for line in numbers for word in line]
    if not words or not all(word.isdigit() and len(word) <= _MOST_DIGITS for word in words):
        return None
    whole = list(map(int, words))
    if any(len(line) != 2 for line in numbers):
        return Counter(msgspec.convert(whole, list[_Length]))
    lengths = msgspec.convert(whole[::2], list[_Length])
    samples = Counter[int]()
    for length, number in zip(lengths, msgspec.convert(whole[1::2], list[_Samples]), strict=True):
        samples[length] += number
    return samples


def _rounded_up(samples: Mapping[int, int], step: int) -> dict[int, int]:
    """Return the histogram with lengths rounded up to multiples of `step`."""
    result = Counter[int]()
    for length, number in samples.items():
        result[-(-length // step) * step] += number
    return result


def _unreadable(why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"The file has no lengths: {why}.", hint=_HINT, field="lengths", code="invalid-value"
    )
