"""What the services of a process share."""

from dataclasses import dataclass

from fitgauge.catalog.engines import Engines
from fitgauge.services.common.long_questions import LongQuestions
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fit.service import FitService


@dataclass(frozen=True)
class Shared:
    """What the services of a process share."""

    models: ModelResolver
    """Finds the models that questions name."""
    engines: Engines
    """Profiles of the serving engines."""
    checkpoints: Checkpoints
    """Published repositories that may be loaded instead of a model."""
    serving: FitService
    """Answers serving questions about models that are at hand."""
    long: LongQuestions
    """Runs what takes long off the event loop."""
