"""What beats what: the criteria of a deployment, and the marks of those known to fit, asked
whether one of them beats another."""

from bisect import bisect_right
from collections.abc import Iterable
from math import inf

Criteria = tuple[int, int, float, float, float]


def criteria(
    count: int,
    total_bytes: int,
    tokens_per_second: float | None,
    bits: float,
    cost: float | None = None,
) -> Criteria:
    """Return (GPUs, usable memory of all, -tokens a second, -bits of a weight, cost an hour):
    the smaller the better; what is unknown is worse than any."""
    return (
        count,
        total_bytes,
        1.0 if tokens_per_second is None else -tokens_per_second,
        -bits,
        inf if cost is None else cost,
    )


def dominates(one: Criteria, other: Criteria) -> bool:
    """Return whether `one` is nowhere worse than `other` and somewhere better."""
    return (
        one[0] <= other[0]
        and one[1] <= other[1]
        and one[2] <= other[2]
        and one[3] <= other[3]
        and one[4] <= other[4]
        and one != other
    )


class ParetoFront:
    """Marks of deployments that fit, all with no more GPUs and no fewer bits than those that are
    asked about.

    `_sizes`, `_speeds`: the steps of the best speed that so much memory is known to give, both
    in their order. `_marks`: all of them, and `_priced`: those of known cost, each with the one
    that dominated last first, as it mostly dominates the next one too."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._speeds: list[float] = []
        self._marks: list[Criteria] = []
        self._priced: list[Criteria] = []

    def add(self, mark: Criteria) -> None:
        """Take a deployment in."""
        self._marks.insert(0, mark)
        if mark[4] < inf:
            self._priced.insert(0, mark)
        sizes, speeds, place = self._sizes, self._speeds, bisect_right(self._sizes, mark[1])
        if place and speeds[place - 1] <= mark[2]:
            return
        end = place
        while end < len(speeds) and speeds[end] >= mark[2]:
            end += 1
        sizes[place:end], speeds[place:end] = [mark[1]], [mark[2]]

    def fastest(self, total_bytes: int) -> tuple[float, float]:
        """Return the best speed that is known of no more memory, whatever it costs, less than 0
        where none is; and the memory from which on a better one is known [bytes]."""
        sizes, place = self._sizes, bisect_right(self._sizes, total_bytes)
        best = -self._speeds[place - 1] if place else -1.0
        return best, sizes[place] if place < len(sizes) else inf

    def dominates(self, mark: Criteria) -> bool:
        """Return whether one of them dominates `mark`."""
        place = bisect_right(self._sizes, mark[1])
        if not place or self._speeds[place - 1] > mark[2]:
            return False
        if self._speeds[place - 1] < mark[2] and mark[4] == inf:
            return True
        size, speed, cost = mark[1], mark[2], mark[4]
        marks = self._priced if cost < inf else self._marks
        for index, other in enumerate(marks):
            if other[1] <= size and other[2] <= speed and other[4] <= cost and other != mark:
                if index:
                    marks.insert(0, marks.pop(index))
                return True
        return False


class ParetoFronts:
    """Deployments known to fit, asked about in the order of their GPUs: a Front for each number
    of bits that is asked about."""

    def __init__(self, bits: Iterable[float]) -> None:
        self._fronts = {each: ParetoFront() for each in bits}

    def add(self, mark: Criteria) -> None:
        """Take a deployment in: it stands before all with as many bits or fewer."""
        for bits, front in self._fronts.items():
            if bits <= -mark[3]:
                front.add(mark)

    def front(self, bits: float) -> ParetoFront:
        """Return those of so many bits or more."""
        return self._fronts[bits]
