"""The requests of the services by operation."""

from collections.abc import Mapping

import msgspec

from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.schemas import TrainingPlanRequest
from fitgauge.services.utilization.schemas import UtilizationRequest

LINKED: Mapping[str, type[msgspec.Struct]] = {
    "check_fit": FitRequest,
    "check_training_fit": TrainingRequest,
    "recommend_gpus": RecommendRequest,
    "list_models_that_fit": ModelsForGpuRequest,
    "compare_fit": CompareRequest,
    "plan_training": TrainingPlanRequest,
    "explain_utilization": UtilizationRequest,
}
"""Operations whose answers have a permalink. A log has none: it would stand in access logs and
histories of browsers."""
