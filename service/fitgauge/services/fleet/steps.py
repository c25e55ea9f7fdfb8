"""What a model demands of so many GPUs of a kind: with the engine's defaults, and with the settings
that `settings: "auto"` may choose, counted where they are needed."""

from math import hypot, inf

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.doubt import SAME_RELEASE
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_settings import Step, chosen, largest_share, later_steps
from fitgauge.services.fit.demands import Demand

_SURE_WIDTHS = 0.77
"""The gap, in widths of one side of a 90 % interval, below which a probability is below
`fit.SURE`: 0.779, rounded down."""


class CountSteps:
    """The steps of one count. GPUs whose memory is below a bound are not judged."""

    def __init__(
        self,
        fitting: BatchEstimator,
        request: FitRequest,
        accelerator: Accelerator,
        default: Demand,
    ) -> None:
        """request: with engine, format and count; accelerator: any of the kind."""
        self._fitting = fitting
        self._request = request
        self._accelerator = accelerator
        self._default = default
        self._default_usable = self._least_usable(default, None)
        self._steps: list[Step] | None = None
        self._later_usable = inf

    def fitted(self, accelerator: Accelerator) -> BatchEstimate | None:
        """Return the first step that fits a GPU of the kind; None where none does."""
        usable = accelerator.usable.expected
        if usable >= self._default_usable:
            judged = self._fitting.against(self._default, accelerator)
            if judged.verdict == "fits":
                return judged
        if self._request.settings == "defaults":
            return None
        if self._steps is None:
            later = later_steps(self._fitting, self._request, self._default, self._accelerator)
            self._steps = [Step({}, self._default), *later]
            self._later_usable = min(
                self._least_usable(step.demand, largest_share(self._request, step.demand))
                for step in self._steps
            )
        if usable < self._later_usable:
            return None
        others = self._steps[1:] or self._steps
        best = chosen(self._fitting, self._request, others, accelerator)
        return best if best.verdict == "fits" else None

    def _least_usable(self, demand: Demand, share: float | None) -> float:
        """Return the usable bytes below which a demand fits no GPU of the kind: of the least doubt,
        and as if the device left room for what lies outside the share."""
        least = self._fitting.least_usable(demand, share)
        if demand.parts is not None:
            return least
        required = demand.required
        own_shares = self._fitting.formats.profile(demand.workload.engine).own_shares
        doubt = min((SAME_RELEASE.share, *own_shares.values())) * demand.fixed_bytes
        spread = hypot(required.high - required.expected, doubt)
        return least * (1 + _SURE_WIDTHS * spread / required.expected) if required.expected else 0
