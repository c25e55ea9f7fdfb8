"""One controller per service; each handler declares its route, body, answer and errors."""

from litestar import Controller

from fitgauge.api.controllers.answers import AnswersController
from fitgauge.api.controllers.ask import AskController
from fitgauge.api.controllers.catalog import CatalogController, HealthController
from fitgauge.api.controllers.compare import CompareController
from fitgauge.api.controllers.explain_log import ExplainLogController
from fitgauge.api.controllers.fit import FitController
from fitgauge.api.controllers.gpus import GpusController
from fitgauge.api.controllers.models import ModelsController
from fitgauge.api.controllers.models_for_gpu import ModelsForGpuController
from fitgauge.api.controllers.names import NamesController
from fitgauge.api.controllers.recommend import RecommendController
from fitgauge.api.controllers.training_fit import TrainingFitController
from fitgauge.api.controllers.training_plan import TrainingPlanController
from fitgauge.api.controllers.utilization import UtilizationController

CONTROLLERS: tuple[type[Controller], ...] = (
    FitController,
    TrainingFitController,
    RecommendController,
    ModelsForGpuController,
    CompareController,
    ExplainLogController,
    TrainingPlanController,
    UtilizationController,
    AskController,
    AnswersController,
    ModelsController,
    GpusController,
    NamesController,
    CatalogController,
    HealthController,
)
"""in the order of the document and of the tool manifests"""
