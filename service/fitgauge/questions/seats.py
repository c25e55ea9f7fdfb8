"""The cards of a question as its plans see them: which may run on which, how fast each is, and what so many of them cost."""

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.decode import EFFICIENCY, DecodeSpeed, decode_speed, expected_speed
from fitgauge.engine.platforms import maker
from fitgauge.engine.prefill import activated, peak_of
from fitgauge.engine.workload import EngineName
from fitgauge.questions.fitting import Fitting
from fitgauge.questions.schemas import FitRequest


class Owned(NamedTuple):
    """A card that may be used, and how many of them at most."""

    accelerator: Accelerator
    most: int


class Plan(NamedTuple):
    """One engine with the weights in one format; `bits` of most weights. quantization: None is as published."""

    engine: EngineName
    quantization: str | None
    bits: float


class Seat(NamedTuple):
    """A card that a plan may run on. `usable` bytes; `bandwidth`: 10^9 bytes a second; `peak`: 10^12 operations a second of the plan's
    arithmetic; None where it is not known."""

    usable: int
    bandwidth: float | None
    peak: float | None
    card: Owned


def seated(request: FitRequest, fitting: Fitting, cards: Sequence[Owned], plans: Sequence[Plan]) -> dict[Plan, list[list[Seat]]]:
    """The cards of every plan, in groups of one kind, by memory: those on which it is the first of `plans` that runs its format."""
    ordered = sorted(cards, key=lambda card: (card.accelerator.usable.expected, card.accelerator.id))
    classes = [_class(card.accelerator) for card in ordered]
    first_of = {name: card.accelerator for name, card in zip(classes, ordered, strict=True)}
    kinds = {
        engine: [fitting.kind(request, engine, card.accelerator) for card in ordered]
        for engine in dict.fromkeys(plan.engine for plan in plans)
    }
    rows: dict[str, list[Seat]] = {}
    taken: set[tuple[str | None, Hashable]] = set()
    found: dict[Plan, list[list[Seat]]] = {}
    for plan in plans:
        asked = structs.replace(request, quantization=plan.quantization)
        free = [name for name in first_of if (plan.quantization, name) not in taken]
        own = {name for name in free if fitting.refused(asked, plan.engine, first_of[name]) is None}
        taken |= {(plan.quantization, name) for name in own}
        arithmetic = activated(fitting.prepared(plan.quantization, plan.engine).scheme)
        if arithmetic not in rows:
            rows[arithmetic] = [
                Seat(card.accelerator.usable.expected, card.accelerator.bandwidth_gbps, peak_of(arithmetic, card.accelerator), card)
                for card in ordered
            ]
        groups: dict[Hashable, list[Seat]] = {}
        for name, kind, seat in zip(classes, kinds[plan.engine], rows[arithmetic], strict=True):
            if name in own:
                groups.setdefault(kind, []).append(seat)
        found[plan] = list(groups.values())
    return found


def _class(accelerator: Accelerator) -> Hashable:
    """What decides whether an engine runs a format on a card."""
    return maker(accelerator), accelerator.compute_capability, accelerator.gfx


class Rate:
    """Tokens a second of one plan by a card's bandwidth and peak.

    `read`: bytes of a step on one rank, 0 where nothing is generated; `flops`: of one token, over `ranks`.
    """

    def __init__(self, read: int, concurrency: int, flops: float, ranks: int) -> None:
        self._read, self._concurrency, self._flops, self._ranks = read, concurrency, flops, ranks
        self._known: dict[tuple[float | None, float | None], float | None] = {}

    def expected(self, seat: Seat) -> float | None:
        """The expected speed, worked out once for every bandwidth and peak."""
        key = (seat.bandwidth, seat.peak)
        if key not in self._known:
            self._known[key] = expected_speed(self._read, self._concurrency, seat.bandwidth, self._multiplying(seat))
        return self._known[key]

    def ceiling(self, seat: Seat) -> float:
        """No less than the expected speed: what bandwidth alone allows, and a hundredth for rounding; 0 where it is unknown."""
        if not self._read or seat.bandwidth is None:
            return 0.0
        return self._concurrency * seat.bandwidth * 1e9 * EFFICIENCY[1] / self._read + 0.01

    def speed(self, seat: Seat) -> DecodeSpeed | None:
        """The speed as an interval."""
        return decode_speed(self._read, self._concurrency, seat.bandwidth, self._multiplying(seat))

    def _multiplying(self, seat: Seat) -> float:
        return self._flops / (self._ranks * seat.peak * 1e12) if seat.peak else 0.0


class Prices:
    """What 1, 2, ... `most` cards cost, asked once for every card; infinitely much where that is unknown."""

    def __init__(self, cost: Callable[[Accelerator, int], float | None], most: int) -> None:
        self._cost, self._most = cost, most
        self._known: dict[str, tuple[list[float], list[float]]] = {}

    def of(self, accelerator: Accelerator, count: int) -> tuple[float, float]:
        """(what `count` of them cost, the least that so many or more of them cost)."""
        known = self._known.get(accelerator.id)
        if known is None:
            costs = [inf if cost is None else cost for cost in (self._cost(accelerator, number) for number in range(1, self._most + 1))]
            known = self._known[accelerator.id] = costs, list(accumulate(reversed(costs), min))[::-1]
        return known[0][count - 1], known[1][count - 1]
