"""check_training_fit: will this model fit on this GPU when it is trained?"""

from collections.abc import Sequence
from copy import copy

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.instances import Offers
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.services.common.any_gpu import ANY_GPU
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.training_fit.answer_builder import AnswerBuilder, free_of
from fitgauge.services.training_fit.assumptions import assumptions
from fitgauge.services.training_fit.echo import echo
from fitgauge.services.training_fit.estimator import Subject, TrainingEstimator
from fitgauge.services.training_fit.lengths import with_lengths
from fitgauge.services.training_fit.needs import needs_answer, on_one_gpu
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate
from fitgauge.services.training_fit.rl_models import ALONE, RlModels
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.workload import training_gpus


class TrainingFitService:
    """Answers training requests about resolved models. Pure arithmetic: no I/O, no await."""

    def __init__(self, profile: TrainingProfile, engines: Engines) -> None:
        self._estimator = TrainingEstimator(profile, engines)

    def with_checkpoint(self, checkpoint: Checkpoint) -> "TrainingFitService":
        """Return a copy that calls `checkpoint` before every estimate."""
        training = copy(self)
        training._estimator = self._estimator.with_checkpoint(checkpoint)
        return training

    def answer(
        self,
        request: TrainingRequest,
        model: Model,
        match: GpuMatch,
        models: RlModels = ALONE,
        offers: Offers | None = None,
    ) -> TrainingAnswer:
        """Return the answer. `models`: the named reward model and critic. `offers`: what GPUs cost,
        for a whole run.

        Raises InvalidRequestError where the request is impossible, with a hint.
        """
        request = with_lengths(request)
        accelerator = free_of(request, match.accelerator)
        subject = Subject(model, accelerator, training_gpus(request, match.count), models)
        request, judged = self._estimator.judge_laid_out(request, subject)
        return AnswerBuilder(self._estimator, request, subject, judged, match, offers).answer()

    def alone(
        self, request: TrainingRequest, model: Model, models: RlModels = ALONE
    ) -> JudgedMethods:
        """Return the methods on one GPU of any size. Raise as `answer`."""
        subject = Subject(model, ANY_GPU.accelerator, 1, models)
        return self._estimator.judge(on_one_gpu(with_lengths(request)), subject)

    def needs(
        self,
        request: TrainingRequest,
        model: Model,
        judged: JudgedMethods,
        smallest: Sequence[SmallestGpus],
        models: RlModels = ALONE,
    ) -> TrainingAnswer:
        """Return the answer to a question without a GPU. judged: what `alone` returns. smallest:
        the GPUs that hold the training. models: as for `answer`."""
        trained = judged.main
        subject = Subject(model, ANY_GPU.accelerator, 1, models)
        assumed = assumptions(
            request,
            model,
            judged,
            echo(trained, subject.accelerator, model),
            lambda changed: self._estimator.estimate(trained.request, changed, subject),
        )
        return needs_answer(request, model, judged, smallest, assumed, models)

    def check(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        count: int,
        models: RlModels = ALONE,
    ) -> TrainingEstimate:
        """Return the estimate behind `answer`. Raises InvalidRequestError where the request is
        impossible."""
        return self._estimator.check(request, Subject(model, accelerator, count, models))
