"""check_training_fit and plan_training from request to answer: names resolved, what a cached
answer depends on, and the searches that take long."""

from contextlib import suppress

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.model import Model
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.name_readings import find_gpu, model_readings
from fitgauge.services.common.responses import MOST_WITH_OTHERS
from fitgauge.services.common.smaller_models import SmallerModels
from fitgauge.services.common.smallest import change_to_fit, helps_here, takes_many_more
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.recommend.smallest_training import smallest_training, training_elsewhere
from fitgauge.services.serving_questions import CacheDependencies
from fitgauge.services.shared import Shared
from fitgauge.services.training_fit import parsing
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.rl_setup import named_model
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.training_fit.smaller_models import smaller_model_to_train
from fitgauge.services.training_fit.suggest import fitting_first
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer, TrainingPlanRequest
from fitgauge.services.training_plan.service import Planner
from fitgauge.spans import span


class TrainingQuestions:
    """Resolves what a question of training names, and lets the services answer it."""

    def __init__(self, shared: Shared) -> None:
        self._models = shared.models
        self._long = shared.long
        self.fit = TrainingFitService(load_training(), shared.engines)
        """What answers check_training_fit about models that are at hand."""
        self._smaller = SmallerModels(shared.models)
        self._planner = Planner(load_training())

    async def check(
        self, request: TrainingRequest, catalog: Catalog
    ) -> tuple[CacheDependencies, TrainingAnswer]:
        """Return the answer and what it depends on. Raises the errors of fitgauge.errors."""
        dependencies = CacheDependencies(catalog, request.model)
        snapshot = self._models.snapshot
        gpu = None
        if request.gpu is not None:
            gpu = find_gpu(catalog, snapshot, request.gpu, request.model)
        model = await self._models.find(request.model)
        rl_models = await self._rl_models(request)

        def answers(checkpoint: Checkpoint) -> TrainingAnswer:
            training = self.fit.with_checkpoint(checkpoint)
            if gpu is not None:
                answer = training.answer(request, model, gpu, rl_models, catalog.offers)
                if not helps_here(answer.verdict, answer.suggestions):
                    self._add_others(answer, request, model, gpu, rl_models, training, catalog)
                return answer
            judged = training.alone(request, model, rl_models)
            smallest = smallest_training(request, model, rl_models, judged.main, training, catalog)
            return training.needs(request, model, judged, smallest, rl_models)

        with span("estimate", operation="check_training_fit"):
            answer = await self._long.run(answers)
        answer.read_as = [*model_readings(model, lambda _: None, answer.verdict), *answer.read_as]
        # An answer that depends on further models is not cached: their validity is not checked.
        return dependencies._replace(model=None if rl_models.any else model), answer

    def _add_others(
        self,
        answer: TrainingAnswer,
        request: TrainingRequest,
        model: Model,
        gpu: GpuMatch,
        rl_models: RlModels,
        training: TrainingFitService,
        catalog: Catalog,
    ) -> None:
        """Suggest a smaller model of the family on these GPUs, and other GPUs for this one."""
        smaller = smaller_model_to_train(request, model, gpu, self._smaller, rl_models, training)
        others = [] if smaller is None else [smaller]
        method = parsing.method(str(answer.understood_as["method"]))
        with suppress(*IMPOSSIBLE):
            others += training_elsewhere(request, method, model, rl_models, training, catalog)
        every = [*answer.suggestions, *others]
        count = answer.gpu.count if answer.gpu else gpu.count
        every.sort(key=lambda one: takes_many_more(one, count))
        other = next((one for one in others if one.verdict == "fits"), None)
        if other is not None and not change_to_fit(answer.suggestions, count):
            answer.summary += f" To fit, {other.change}."
        answer.suggestions = fitting_first(every, MOST_WITH_OTHERS)

    async def _rl_models(self, request: TrainingRequest) -> RlModels:
        """Return the models that a request names besides the policy. Raises the errors of
        fitgauge.errors."""
        names = map(
            named_model, (request.reward_model, request.critic_model, request.teacher_model)
        )
        return RlModels(*[await self._models.find(name) if name else None for name in names])

    async def plan(
        self, request: TrainingPlanRequest, catalog: Catalog
    ) -> tuple[CacheDependencies, TrainingPlanAnswer]:
        """Return the layouts that train a model and what the answer depends on. Raises the errors
        of fitgauge.errors."""
        gpu = find_gpu(catalog, self._models.snapshot, request.gpu, request.model)
        model = await self._models.find(request.model)
        with span("search", operation="plan_training"):
            answer = await self._long.run(
                lambda checkpoint: self._planner.answer(
                    request, model, gpu, catalog.offers, checkpoint
                )
            )
        return CacheDependencies(catalog, request.model, model), answer
