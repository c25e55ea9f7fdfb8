"""The GPUs of a question as its plans see them: which may run on which, how fast each is, and
what so many of them cost."""

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.decode import (
    EFFICIENCY,
    LAYER_SECONDS,
    DecodeSpeed,
    decode_speed,
    expected_speed,
    reads_alone,
    waiting_seconds,
)
from fitgauge.engine.performance.flops import Arithmetic
from fitgauge.engine.performance.prefill import activated, peak_of
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.batch_estimator import BatchEstimator, gpu_class


class GpuLimit(NamedTuple):
    """How many of a GPU may be used."""

    accelerator: Accelerator
    """The GPU."""
    most: int
    """The most of it in one deployment."""


class Plan(NamedTuple):
    """One engine with the weights in one format."""

    engine: EngineName
    """The serving engine."""
    quantization: str | None
    """The format of the weights; None as published."""
    bits: float
    """Bits of most weights, without scales."""


class GpuOption(NamedTuple):
    """A GPU that a plan may run on."""

    usable: int
    """Usable memory of one [bytes]."""
    place: int
    """Index among the GPUs of the pool."""
    bandwidth: float | None
    """Memory bandwidth [10^9 bytes/s]; None if unknown."""
    peak: float | None
    """Peak of the plan's arithmetic [10^12 operations/s]; None if unknown."""
    limit: GpuLimit
    """The GPU, and how many of it may be used."""


class PriceTable(dict[int, list[tuple[float, float]]]):
    """By the place of a GPU: of 1, 2, ... of it (what they cost, the least that so many or more of
    them cost), asked once for each GPU.

    Infinitely much where that is unknown.
    """

    def __init__(
        self, limits: Sequence[GpuLimit], cost: Callable[[Accelerator, int], float | None]
    ) -> None:
        super().__init__()
        self._limits, self._cost = limits, cost

    def __missing__(self, place: int) -> list[tuple[float, float]]:
        accelerator, most = self._limits[place]
        prices = (self._cost(accelerator, count) for count in range(1, most + 1))
        costs = [inf if cost is None else cost for cost in prices]
        least = list(accumulate(reversed(costs), min))[::-1]
        self[place] = priced = list(zip(costs, least, strict=True))
        return priced


class GpuPool:
    """Some GPUs by their memory, and what no model changes of them: worked out once for as long as
    they are asked about.

    cost: what so many GPUs cost an hour [USD], None where that is unknown.
    """

    def __init__(
        self, limits: Sequence[GpuLimit], cost: Callable[[Accelerator, int], float | None]
    ) -> None:
        self.limits = sorted(
            limits, key=lambda limit: (limit.accelerator.usable.expected, limit.accelerator.id)
        )
        self.classes = [gpu_class(limit.accelerator) for limit in self.limits]
        self.first_of = {
            name: limit.accelerator for name, limit in zip(self.classes, self.limits, strict=True)
        }
        self.prices = PriceTable(self.limits, cost)
        self._rows: dict[Arithmetic, list[GpuOption]] = {}

    def row(self, arithmetic: Arithmetic) -> list[GpuOption]:
        """Return an option on every GPU for plans of this arithmetic."""
        if arithmetic not in self._rows:
            self._rows[arithmetic] = [
                GpuOption(
                    limit.accelerator.usable.expected,
                    place,
                    limit.accelerator.bandwidth_gbps,
                    peak_of(arithmetic, limit.accelerator),
                    limit,
                )
                for place, limit in enumerate(self.limits)
            ]
        return self._rows[arithmetic]


def gpu_option(
    request: FitRequest,
    fitting: BatchEstimator,
    pool: GpuPool,
    plans: Sequence[Plan],
    *,
    by_wheels: bool,
) -> dict[Plan, list[GpuOption]]:
    """Return the GPUs of every plan, by memory: those on which it is the first of `plans` that
    runs its format; `by_wheels`: as the engine is installed, without building it."""
    taken: set[tuple[str | None, Hashable]] = set()
    options: dict[Plan, list[GpuOption]] = {}
    for plan in plans:
        requested = structs.replace(request, quantization=plan.quantization)
        free = {
            name: first
            for name, first in pool.first_of.items()
            if (plan.quantization, name) not in taken
            and (not by_wheels or fitting.has_wheels(request, plan.engine, first))
        }
        own = fitting.running(requested, plan.engine, free)
        taken |= {(plan.quantization, name) for name in own}
        row = pool.row(activated(fitting.formats.prepared(plan.quantization, plan.engine).scheme))
        options[plan] = [
            option for name, option in zip(pool.classes, row, strict=True) if name in own
        ]
    return options


class Waits(dict[int, float]):
    """Seconds that a step takes on top of reading and multiplying, by the place of a GPU: the same
    for all plans of as many ranks whose engines take as long for a layer."""

    def __init__(
        self,
        spec: ModelSpec,
        concurrency: int,
        ranks: int,
        limits: Sequence[GpuLimit],
        layer_seconds: float,
    ) -> None:
        """limits: the GPUs of the pool. layer_seconds: of the engine."""
        super().__init__()
        self._spec, self.concurrency, self.ranks, self._limits = spec, concurrency, ranks, limits
        self.layers = spec.layers * min(layer_seconds, LAYER_SECONDS)
        """The least that they take, without links."""
        self._layer_seconds = layer_seconds

    def __missing__(self, place: int) -> float:
        seconds = self[place] = waiting_seconds(
            self._spec,
            self.concurrency,
            self.ranks,
            self._limits[place].accelerator,
            self._layer_seconds,
        )
        return seconds


class Rate:
    """Tokens a second of one plan by a GPU's bandwidth, peak and link.

    `waits`: of as many ranks; `read`: bytes of a step on one of them, 0 where nothing is
    generated; `flops`: of one token, over all of them."""

    def __init__(self, waits: "Waits", read: int, flops: float) -> None:
        self._waits, self._read = waits, read
        self._concurrency, self._layers = waits.concurrency, waits.layers
        self._seconds_at_teraflops = flops / (waits.ranks * 1e12)
        """That a token multiplies for at a peak of 10^12 operations/s."""
        self._speeds: dict[int, float | None] = {}

    def expected(self, option: GpuOption) -> float | None:
        """Return the expected speed, the same of as many ranks on any number of GPUs."""
        place = option.place
        if place not in self._speeds:
            self._speeds[place] = expected_speed(*self._step(option))
        return self._speeds[place]

    def bandwidth_of(self, speed: float) -> float:
        """Return the bandwidth below which a GPU is slower than `speed`, whatever it multiplies,
        and a hundredth for rounding [10^9 bytes/s]; 0 where nothing is known."""
        if not self._read or speed <= 0.01:
            return 0.0
        reading = self._concurrency / (speed - 0.01) - self._layers
        return self._read / (reading * 1e9 * EFFICIENCY) if reading > 0 else inf

    def speed(self, option: GpuOption) -> DecodeSpeed | None:
        """Return the speed as an interval."""
        return decode_speed(*self._step(option))

    def _step(self, option: GpuOption) -> tuple[int, int, float | None, float, float]:
        """Return what `decode_speed` takes of a step on a GPU. The bandwidth is None where the
        speed does not follow from what is known of the GPU."""
        _, place, bandwidth, peak, (accelerator, _) = option
        if peak is None and not reads_alone(accelerator, self._concurrency):
            bandwidth = None
        multiplying = self._seconds_at_teraflops / peak if peak else 0.0
        return self._read, self._concurrency, bandwidth, multiplying, self._waits[place]
