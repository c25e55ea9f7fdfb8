"""What a model demands of so many GPUs of a kind: with the engine's defaults, and with the settings
that `settings: "auto"` may choose, counted where they are needed."""

from math import inf

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_settings import Step, chosen, largest_share, later_steps


class LaunchSteps:
    """The steps of one launch. GPUs whose memory is below a bound are not judged."""

    def __init__(
        self,
        fitting: BatchEstimator,
        request: FitRequest,
        workload: Workload,
        accelerator: Accelerator,
        floor: float = 0,
    ) -> None:
        """request: with engine, format and count; workload: what it means; accelerator: any of the
        kind; floor: usable bytes below which none of them fits."""
        self._fitting = fitting
        self._request = request
        self._workload = workload
        self._accelerator = accelerator
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
            demand = fitting.demand_of(request.quantization, self._workload, self._accelerator)
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
        later = list(later_steps(fitting, request, default.demand, self._accelerator))
        self.least_usable = min(
            fitting.least_usable(step.demand, largest_share(request, step.demand))
            for step in (default, *later)
        )
        return later or [default]
