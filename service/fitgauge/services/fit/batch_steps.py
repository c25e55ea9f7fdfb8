"""What a model demands of so many GPUs of a kind: with the engine's defaults, and with the settings
that `settings: "auto"` may choose, counted where they are needed."""

from functools import cached_property
from math import inf

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.batch_estimator import BatchEstimate, BatchEstimator
from fitgauge.services.fit.batch_settings import Step, chosen, ends, largest_share
from fitgauge.services.fit.demands import Demand, LaunchShape
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
        kind. Raises as `BatchEstimator.shape`."""
        self._fitting, self._workload, self._accelerator = fitting, workload, accelerator
        self.ends: list[tuple[Settings, LaunchShape]] = []
        """The steps after the first: what they change, and the launch with it."""
        if request.settings != "defaults":
            for changed in ends(fitting.spec, request, workload, accelerator):
                shape = self._shape(with_settings(workload, changed, request))
                self.ends.append((changed, shape))
        self.share = largest_share(request, workload)
        """The largest share of the GPU that a step may give the engine."""

    @cached_property
    def default(self) -> LaunchShape:
        """The launch with the engine's defaults. Raises as `BatchEstimator.shape`."""
        return self._shape(self._workload)

    def _shape(self, workload: Workload) -> LaunchShape:
        if self.ends:
            return self._fitting.shape_of(workload, self.ends[0][1])
        return self._fitting.shape(workload, self._accelerator)


class LaunchSteps:
    """The steps of one launch. GPUs whose memory is below a bound are not judged."""

    def __init__(self, fitting: BatchEstimator, request: FitRequest, kind: LaunchKind) -> None:
        """request: with engine, format and count."""
        self._fitting = fitting
        self._request = request
        self._kind = kind
        self._default: Step | None = None
        self._default_usable: float = 0.0
        self._later: list[Step] = []
        least = 0.0
        for changed, shape in kind.ends:
            try:
                self._later.append(Step(changed, self._demand(shape)))
            except InvalidRequestError:
                continue
            except UnsupportedError as error:
                if error.parameter == "tensor_parallel":  # which is the same in all steps
                    least = inf
                    break
        self.least_usable: float = min(
            [fitting.least_usable(step.demand, kind.share) for step in self._later], default=least
        )
        """Usable bytes below which no step fits, as far as they are worked out: the ends of the
        ladders never take more than the defaults. Infinite where the engine cannot divide the
        model so."""

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
        best = chosen(self._fitting, self._request, self._later or [default], accelerator)
        return best if best.verdict == "fits" else None

    def _with_defaults(self) -> Step | None:
        """Return the step with the engine's defaults; None where it is impossible."""
        try:
            demand = self._demand(self._kind.default)
        except IMPOSSIBLE:
            self.least_usable = inf
            return None
        self._default = Step({}, demand)
        self._default_usable = self._fitting.least_usable(demand)
        if not self._later:
            self.least_usable = self._fitting.least_usable(demand, self._kind.share)
        return self._default

    def _demand(self, shape: LaunchShape) -> Demand:
        launch = self._fitting.launch_of(self._request.quantization, shape)
        return launch.under(shape.workload.concurrency)
