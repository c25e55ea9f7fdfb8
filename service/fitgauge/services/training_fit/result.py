"""An estimated training request: the base of answer, warnings and suggestions."""

from collections.abc import Sequence
from dataclasses import dataclass

from fitgauge.engine.serving.fit import Verdict
from fitgauge.engine.training.algorithms.setup import Setup
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_fit.launchers.tool import Tool
from fitgauge.services.training_fit.schemas import TrainingRequest


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """An estimated training request."""

    workload: TrainingWorkload
    setup: Setup
    stages: tuple[TrainingStage, ...]
    probability: float
    verdict: Verdict
    count: int
    asked: TrainingRequest
    """The request with its tool's defaults."""

    @property
    def tool(self) -> Tool | None:
        """The tool that the request names."""
        return tool_of(self.asked)

    @property
    def fullest(self) -> TrainingStage:
        """The stage that needs the most memory."""
        return fullest(self.stages)


def fullest(stages: Sequence[TrainingStage]) -> TrainingStage:
    """Return the stage that needs the most memory."""
    return max(stages, key=lambda stage: stage.need.expected)
