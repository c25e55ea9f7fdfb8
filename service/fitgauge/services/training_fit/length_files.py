"""Lengths of a data set's samples from a file: JSON, or one whole number a line."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import msgspec

from fitgauge.errors import InvalidRequestError
from fitgauge.services.training_fit.run_fields import MOST_LENGTHS

LONGEST_FILE = 64 * 2**20
"""Bytes of a file."""
_DIGITS = 8
_Length = Annotated[int, msgspec.Meta(ge=1, le=10**_DIGITS - 1)]
_Samples = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000_000)]
_HINT = (
    "Write one whole number a line, a JSON list of them, or a JSON object of tokens and numbers of"
    " samples."
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
    words = text.split()
    listed = words and all(word.isdigit() and len(word) <= _DIGITS for word in words)
    try:
        if listed:
            return Counter(msgspec.convert(list(map(int, words)), list[_Length]))
        read = msgspec.json.decode(text, type=list[_Length] | dict[_Length, _Samples])
    except msgspec.MsgspecError as error:
        raise _unreadable(str(error)) from None
    samples = Counter(read) if isinstance(read, list) else read
    if not samples:
        raise _unreadable("it is empty")
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
