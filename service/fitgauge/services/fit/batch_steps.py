"""What a model demands of so many GPUs of a kind: with the engine's defaults, and with the settings
that `settings: "auto"` may choose, counted where they are needed."""

from functools import cached_property
from math import inf

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_settings import Step, chosen, ends, largest_share, later_steps
from fitgauge.services.fit.query import Settings
from fitgauge.services.fit.workload import with_settings


class LaunchKind:
    """A launch on so many GPUs of a kind, whatever the format of the weights."""

    def __init__(
        self,
        fitting: BatchEstimator,
        request: FitRequest,
        workload: Workload,
        accelerator: Accelerator,
    ) -> None:
        """request: with engine and count; workload: what it means; accelerator: any of the
        kind."""
        self.workload = workload
        self.accelerator = accelerator
        self._fitting = fitting
        self._request = request
        self._others: list[tuple[int, int]] | None = None

    @cached_property
    def ends(self) -> tuple[Settings, ...]:
        """What the steps after the first change."""
        if self._request.settings == "defaults":
            return ()
        return ends(self._fitting.spec, self._request, self.workload, self.accelerator)

    def _least_other_bytes(self, quantization: str | None) -> list[tuple[int, int]]:
        """Return the least that every stage holds in addition to what is loaded: (what is fixed,
        with the cache) [bytes]; nothing where the engine does not tell.

        With settings at the ends of their ladders, which never take more than the defaults."""
        if self._others is None:
            fitting, accelerator = self._fitting, self.accelerator
            self._others = []
            for changed in self.ends or ({},):
                workload = with_settings(self.workload, changed, self._request)
                others = fitting.other_bytes(quantization, workload, accelerator)
                self._others = list(map(_less, self._others, others)) or others
        return self._others

    def floor(self, quantization: str | None, share: float) -> float:
        """Return the usable bytes below which no step fits a GPU of the kind, with the weights in a
        format. share: the largest that a step may give the engine. Infinite where the launch is
        impossible."""
        fitting, workload = self._fitting, self.workload
        try:
            loaded = fitting.loaded_bytes(quantization, workload, self.accelerator)
            if not loaded:
                return 0.0
            others = [(0, 0)] * len(loaded)
            if fitting.has_shape(quantization, workload.engine):
                others = self._least_other_bytes(quantization) or others
        except IMPOSSIBLE:
            return inf
        pairs = list(zip(loaded, others, strict=True))
        most = max([size + both for size, (_, both) in pairs])
        fixed = min([size + fixed for size, (fixed, _) in pairs])
        return fitting.least_usable_of(workload.engine, most, fixed, share)


class LaunchSteps:
    """The steps of one launch. GPUs whose memory is below a bound are not judged."""

    def __init__(
        self, fitting: BatchEstimator, request: FitRequest, kind: LaunchKind, floor: float = 0
    ) -> None:
        """request: with engine, format and count; floor: usable bytes below which no GPU of the
        kind fits."""
        self._fitting = fitting
        self._request = request
        self._kind = kind
        self._default: Step | None = None
        self._default_usable = floor
        self._later: list[Step] | None = None
        self.least_usable = floor
        """Usable bytes below which no step fits, as far as they are worked out; infinite where
        the engine cannot divide the model so."""

    def fitted(self, accelerator: Accelerator) -> BatchEstimate | None:
        """Return the first step that fits a GPU of the kind; None where none does."""
        usable = accelerator.usable.expected
        if usable < self.least_usable:
            return None
        default = self._default or self._with_defaults()
        if default is None:
            return None
        if usable >= self._default_usable:
            judged = self._fitting.against(default.demand, accelerator)
            if judged.verdict == "fits":
                return judged
        if self._request.settings == "defaults":
            return None
        if self._later is None:
            self._later = self._all_later(default)
        if usable < self.least_usable:
            return None
        best = chosen(self._fitting, self._request, self._later, accelerator)
        return best if best.verdict == "fits" else None

    def _with_defaults(self) -> Step | None:
        """Return the step with the engine's defaults; None where it is impossible."""
        fitting, request = self._fitting, self._request
        try:
            demand = fitting.demand_of(
                request.quantization, self._kind.workload, self._kind.accelerator
            )
        except IMPOSSIBLE:
            self.least_usable = inf
            return None
        self._default = Step({}, demand)
        self._default_usable = fitting.least_usable(demand)
        if request.settings == "defaults":
            self.least_usable = self._default_usable
        return self._default

    def _all_later(self, default: Step) -> list[Step]:
        """Return the steps after the default, which is the only one where there are none; and
        bound the memory that they take."""
        fitting, request = self._fitting, self._request
        later = list(
            later_steps(fitting, request, default.demand, self._kind.accelerator, self._kind.ends)
        )
        self.least_usable = min(
            fitting.least_usable(step.demand, largest_share(request, step.demand))
            for step in (default, *later)
        )
        return later or [default]


def _less(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return the less of both numbers."""
    return min(one[0], other[0]), min(one[1], other[1])
