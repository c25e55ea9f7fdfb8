"""An estimated training request: the base of answer, warnings and suggestions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fitgauge.engine.serving.fit import Verdict
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.workload import Method, TrainingWorkload
from fitgauge.services.common.fit_schemas import LimitedBy
from fitgauge.services.common.host_memory import lacks_host
from fitgauge.services.common.host_schemas import HostMemory
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_fit.launchers.tool import Default, Tool
from fitgauge.services.training_fit.rl_setup import asked_framework
from fitgauge.services.training_fit.schemas import TrainingRequest


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """An estimated training request."""

    workload: TrainingWorkload
    """The workload, every default filled in."""
    setup: Setup
    """The algorithm and its models."""
    stages: tuple[TrainingStage, ...]
    """Every pipeline stage."""
    probability: float
    """Probability that it fits."""
    verdict: Verdict
    """The verdict of that probability."""
    count: int
    """Number of GPUs."""
    request: TrainingRequest
    """The request with every default of its tool, or of TRL."""
    limited_by: LimitedBy = "device"
    """What decides: the GPU, or the share of it that a rollout engine gets."""

    moved: tuple[Default, ...] = ()
    """What other releases of its tool take for what the request leaves out."""
    laid_out: bool = False
    """Whether degrees of parallelism were found for it, since a copy on every GPU does not fit."""

    @property
    def tool(self) -> Tool | None:
        """The tool that the request names."""
        return tool_of(self.request)

    @property
    def fullest(self) -> TrainingStage:
        """The stage that needs the most memory."""
        return fullest(self.stages)

    @property
    def need(self) -> int:
        """Expected bytes of the fullest GPU."""
        return self.fullest.need.expected

    @property
    def is_sharded_instead(self) -> bool:
        """Whether FSDP shards what the framework of the request copies to every GPU."""
        return self.workload.framework != asked_framework(self.request)

    @property
    def host_memory(self) -> HostMemory | None:
        """Host memory of what is offloaded; None without any."""
        sizes = [stage.host_bytes for stage in self.stages]
        if not any(sizes):
            return None
        ranks = self.workload.gpus // len(sizes)
        return HostMemory(per_gpu_bytes=max(sizes), total_bytes=ranks * sum(sizes))

    @property
    def lacks_host(self) -> bool:
        """Whether the machine's memory does not hold what is offloaded."""
        return lacks_host(self.host_memory, self.request.host_memory_gib)


@dataclass(frozen=True, slots=True)
class JudgedMethods:
    """The estimate that answers a request, and those of the other methods."""

    main: TrainingEstimate
    """The estimate that answers the request."""
    others: Mapping[Method, TrainingEstimate] = field(default_factory=dict)
    """The other methods, each estimated."""


def fullest(stages: Sequence[TrainingStage]) -> TrainingStage:
    """Return the stage that needs the most memory."""
    return max(stages, key=lambda stage: stage.need.expected)
