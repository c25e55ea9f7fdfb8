"""check_training_fit: will this model fit on this GPU when it is trained?"""

from copy import copy

from msgspec import UNSET, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.accelerator import Accelerator, shared
from fitgauge.engine.model.spec import Model
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.fit import fit_probability, verdict
from fitgauge.engine.training.estimate import TrainingStage, training_stages
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common import responses as answers
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.schemas import Launch, Limits
from fitgauge.services.training_fit import parsing as words
from fitgauge.services.training_fit import rl_setup
from fitgauge.services.training_fit.assumptions import assumptions
from fitgauge.services.training_fit.echo import echo
from fitgauge.services.training_fit.framework_variants import (
    other_choices,
    widened,
)
from fitgauge.services.training_fit.launchers.command import launch_command
from fitgauge.services.training_fit.launchers.registry import with_tool_defaults
from fitgauge.services.training_fit.responses import checkpoint_size, phase_answers, summary
from fitgauge.services.training_fit.result import TrainingEstimate, fullest
from fitgauge.services.training_fit.rl_models import ALONE, Algorithms, RlModels
from fitgauge.services.training_fit.saved_tensors import saved_segments
from fitgauge.services.training_fit.schemas import (
    TrainingAnswer,
    TrainingPerGpu,
    TrainingRequest,
)
from fitgauge.services.training_fit.suggest import SettingsSearch
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_fit.warnings import NO_SUGGESTION, display_warnings, warnings
from fitgauge.services.training_fit.workload import in_its_formats, training_gpus, training_workload

_MOST_BATCH = 65_536


class TrainingFitService:
    """Answers training requests about resolved models. Pure arithmetic: no I/O, no await."""

    def __init__(self, profile: TrainingProfile, engines: Engines) -> None:
        self._profile = profile
        self._algorithms = Algorithms(profile, engines)
        self._checkpoint: Checkpoint = no_checkpoint

    def with_checkpoint(self, checkpoint: Checkpoint) -> "TrainingFitService":
        """Return a copy that calls `checkpoint` before every estimate."""
        training = copy(self)
        training._checkpoint = checkpoint
        return training

    def answer(
        self, request: TrainingRequest, model: Model, match: GpuMatch, models: RlModels = ALONE
    ) -> TrainingAnswer:
        """Return the answer. `models`: the named reward model and critic.

        Raises InvalidRequestError where the request is impossible, with a hint.
        """
        count = training_gpus(request, match.count)
        accelerator = shared(match.accelerator, int((request.other_memory_gib or 0) * GIB))
        trained = self.check(request, model, accelerator, count, models)
        stage, workload = trained.fullest, trained.workload
        refused, full = refusal(workload, accelerator), request.detail == "full"
        cards = answers.cards_in_words(accelerator, count)
        others = self._under_other_choices(trained, model, accelerator, models)
        search = SettingsSearch(
            lambda changed, count: self.check(changed, model, accelerator, count, models),
            request,
            model.spec,
            accelerator,
            self._profile,
            trained,
        )
        suggestions = search.suggestions(refused)
        understood_as = echo(trained, accelerator, model)
        no_change_fits = trained.verdict == "does_not_fit" and not suggestions and not refused
        return TrainingAnswer(
            verdict="unsupported" if refused else trained.verdict,
            summary=(
                f"{model.id} cannot be trained this way on {cards}: {refused}"
                if refused
                else summary(model, cards, trained, accelerator)
            ),
            fit_probability=None if refused else round(trained.probability, 4),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(accelerator, count),
            per_gpu=TrainingPerGpu(
                usable_bytes=accelerator.usable.expected,
                required_bytes=widened(stage.required, [other.required for other in others]),
                allocated_bytes=widened(stage.allocated, [other.allocated for other in others]),
                reserved_bytes=widened(stage.reserved, [other.reserved for other in others]),
                headroom_bytes=accelerator.usable.expected - stage.need.expected,
                rank=stage.stage,
                host_bytes=stage.host_bytes,
                nvme_bytes=stage.nvme_bytes,
            ),
            terms=answers.term_answers(stage.terms, full),
            phases=phase_answers(stage, full),
            limits=Limits(
                max_micro_batch_size=search.max_micro_batch_size(),
                min_gpu_count=search.min_gpu_count(),
            ),
            suggestions=suggestions,
            warnings=[
                *warnings(request, model, match, trained),
                *display_warnings(request, accelerator, trained),
                *([NO_SUGGESTION] * no_change_fits),
            ],
            assumed=assumptions(request, model, accelerator, trained, understood_as),
            understood_as=understood_as,
            launch=Launch(command=launch_command(model, workload, trained.setup, trained.tool)),
            checkpoint_bytes=checkpoint_size(model, trained, models),
            ranks=(
                answers.training_rank_answers(trained.stages, accelerator.usable)
                if full and workload.pipeline_parallel > 1
                else UNSET
            ),
            saved=saved_segments(model.spec, workload) if full else UNSET,
        )

    def check(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        count: int,
        models: RlModels = ALONE,
    ) -> TrainingEstimate:
        """Return the estimate behind `answer`. Raises InvalidRequestError where the request is
        impossible.

        Several GPUs under transformers hold a copy each (DDP), or shards (FSDP) where a copy does
        not fit and the request sets neither."""
        request = with_tool_defaults(
            in_its_formats(request, accelerator), words.method(request.method), count, model.spec
        )
        workload = training_workload(request, model.spec, count)
        trained = self._estimate(request, workload, model, accelerator, count, models)
        unset = (
            request.zero_stage is None
            and request.data_parallel is None
            and workload.framework == "transformers"
        )
        if (
            trained.verdict != "does_not_fit"
            or not unset
            or workload.data_parallel == 1
            or workload.data_parallel != workload.gpus
        ):
            return trained
        return self._estimate(
            request,
            structs.replace(workload, framework="fsdp", zero_stage=3),
            model,
            accelerator,
            count,
            models,
        )

    def _estimate(
        self,
        request: TrainingRequest,
        workload: TrainingWorkload,
        model: Model,
        accelerator: Accelerator,
        count: int,
        models: RlModels,
    ) -> TrainingEstimate:
        self._checkpoint()
        setup = rl_setup.setup(request, workload, model.spec)
        startup_probability = 1.0
        if setup.algorithm == "sft":
            stages = training_stages(
                model.spec, workload, self._profile, accelerator.usable.expected
            )
        else:
            stages, startup_probability = self._algorithms.stages(
                model, models, workload, setup, accelerator
            )
        need = fullest(stages).need
        probability = min(startup_probability, fit_probability(need, accelerator.usable))
        return TrainingEstimate(
            workload, setup, stages, probability, verdict(probability), count, request
        )

    def _under_other_choices(
        self,
        trained: TrainingEstimate,
        model: Model,
        accelerator: Accelerator,
        models: RlModels,
    ) -> list[TrainingStage]:
        """Return the fullest stage under every choice that depends on the framework's version."""
        choices = other_choices(trained.asked, trained.workload)
        return [
            self._estimate(trained.asked, choice, model, accelerator, trained.count, models).fullest
            for choice in choices
        ]
