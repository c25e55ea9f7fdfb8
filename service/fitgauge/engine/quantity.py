"""Bytes that are known exactly or within an interval, and the terms an estimate is the sum of."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec

from fitgauge.field_docs import doc

Basis = Literal["exact", "computed", "calibrated", "assumed"]

KIB, MIB, GIB = 2**10, 2**20, 2**30
GB = 10**9
HOURS_OF_A_MONTH = 730
"""A twelfth of a year."""


class Bytes(msgspec.Struct, frozen=True, gc=False):
    """A size as an interval that holds the truth in nine cases of ten."""

    low: Annotated[int, doc("Lower end of the interval [bytes].")]
    expected: Annotated[int, doc("Its median [bytes].")]
    high: Annotated[int, doc("Upper end of the interval [bytes].")]


NOTHING = Bytes(low=0, expected=0, high=0)


def more(size: Bytes, exact: int) -> Bytes:
    """Return an uncertain size and an exact one together [bytes]."""
    return Bytes(low=size.low + exact, expected=size.expected + exact, high=size.high + exact)


class Term(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One named part of the memory of one accelerator."""

    name: str
    """Which part it is."""
    bytes: int
    """Expected size [bytes]."""
    low: int
    """Lower end of the 90 % interval [bytes]."""
    high: int
    """Upper end of the 90 % interval [bytes]."""
    basis: Basis
    """How it is known: `exact` (read from the repository or the request), `computed` (arithmetic on
    the architecture), `calibrated` (fitted on measured runs), `assumed` (neither)."""
    formula: str
    """The equation with its numbers."""
    source: str
    """Where the equation comes from."""


def exact_term(name: str, size: int, basis: Basis, formula: str, source: str) -> Term:
    """Return a term without spread: `size` [bytes] is its low, expected and high."""
    return Term(
        name=name, bytes=size, low=size, high=size, basis=basis, formula=formula, source=source
    )


class Sum(NamedTuple):
    """Terms added up. Spreads are independent, so they add in quadrature, each side for itself."""

    expected: int
    """Expected size [bytes]."""
    below: float
    """Variance of the lower side, in the interval's own widths [bytes^2]."""
    above: float
    """The same of the upper side."""

    def interval(self, exact: int = 0) -> Bytes:
        """Return the sum with `exact` bytes more."""
        middle = self.expected + exact
        return Bytes(
            low=int(middle - self.below**0.5), expected=middle, high=int(middle + self.above**0.5)
        )


EMPTY = Sum(0, 0.0, 0.0)


def added(terms: Iterable[Term], before: Sum = EMPTY) -> Sum:
    """Return terms added up, to what was added before."""
    expected, below, above = before
    for term in terms:
        expected += term.bytes
        below += float(term.bytes - term.low) ** 2
        above += float(term.high - term.bytes) ** 2
    return Sum(expected, below, above)


def total(terms: Iterable[Term]) -> Bytes:
    """Return the sum of terms [bytes]."""
    return added(terms).interval()


def largest_where(ceiling: int, holds: Callable[[int], bool], near: float | None = None) -> int:
    """Return the largest number up to `ceiling` that `holds`, which holds of every number below
    one it holds of; 0 where not even 1 does. near: what it is about, where to look first."""
    if ceiling < 1 or holds(ceiling):
        return max(0, ceiling)
    least, most = 0, ceiling
    if near is not None and ceiling > 1:
        least, most = _around(min(max(1, int(near)), ceiling - 1), ceiling, holds)
    return least + bisect_left(range(least + 1, most), True, key=lambda index: not holds(index))


def _around(near: int, ceiling: int, holds: Callable[[int], bool]) -> tuple[int, int]:
    """Return the numbers between which `holds` ceases to hold, in steps from `near` that double."""
    least, most, step = 0, ceiling, 1
    if holds(near):
        least = near
        while least + step < most:
            if not holds(least + step):
                return least, least + step
            least, step = least + step, 2 * step
        return least, most
    most = near
    while most - step > least:
        if holds(most - step):
            return most - step, most
        most, step = most - step, 2 * step
    return least, most


def exactly(size: int) -> str:
    """Return `size` [bytes] as a formula has it, to compute with: 134217728 -> '128 MiB',
    1000 -> '1,000 B'."""
    return f"{size:,} B" if not size or size % MIB else f"{size // MIB:,} MiB"


def fitted(size: float) -> str:
    """Return a fitted `size` [bytes] as a formula has it: 279172874.3 -> '266.2400 MiB'."""
    return f"{size / MIB:.7g} MiB"


def counted(number: int, word: str) -> str:
    """Return a number with its word: 1 request, 2 requests."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def described(words: str, size: int) -> str:
    """Return the formula of bytes that are the end of a longer computation than a line holds."""
    return f"{words}: {exactly(size)}"


def plus(formula: str, more: str) -> str:
    """Return a formula with `more` added to its sum, before what it remarks."""
    terms, mark, remark = formula.partition("; ")
    return f"{terms} + {more}{mark}{remark}"


def gib(size: float) -> str:
    """`size` [bytes] in words of 2^30 bytes: 15728640000 -> '14.65 GiB'."""
    return f"{size / GIB:,.2f} GiB"


def rough(figure: float) -> str:
    """Return a figure with two digits, or whole from 100 on: '0.57', '4.1', '43', '1,240'."""
    return f"{figure:.2g}" if figure < 99.5 else f"{figure:,.0f}"
