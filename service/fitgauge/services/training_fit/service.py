"""check_training_fit: will this model fit on this GPU when it is trained?"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

from msgspec import UNSET, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.instances import Offers
from fitgauge.engine.accelerator import Accelerator, shared
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.fit import verdict
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.odds import training_probability
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.workload import Method, TrainingWorkload
from fitgauge.services.common import responses as answers
from fitgauge.services.common.any_gpu import ANY_GPU
from fitgauge.services.common.fit_schemas import Limits
from fitgauge.services.common.host_memory import check_host
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.common.reading_schemas import Verdict
from fitgauge.services.common.readings import gpu_readings, other_verdicts, size_readings
from fitgauge.services.common.unsupported import IMPOSSIBLE, sentence
from fitgauge.services.training_fit import parsing as words
from fitgauge.services.training_fit import rl_setup
from fitgauge.services.training_fit.around import Around, around, around_in_words
from fitgauge.services.training_fit.assumptions import assumptions
from fitgauge.services.training_fit.candidates import Fields
from fitgauge.services.training_fit.defaults import METHODS, with_defaults
from fitgauge.services.training_fit.degree_candidates import degree_fields, fastest_layout
from fitgauge.services.training_fit.echo import echo
from fitgauge.services.training_fit.framework_variants import other_choices
from fitgauge.services.training_fit.launchers.command import launch, with_files
from fitgauge.services.training_fit.lengths import with_lengths
from fitgauge.services.training_fit.needs import needs_answer, on_one_gpu
from fitgauge.services.training_fit.ranks import training_rank_answers
from fitgauge.services.training_fit.responses import (
    checkpoint_size,
    other_methods,
    per_gpu,
    phase_answers,
    summary,
)
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate, fullest
from fitgauge.services.training_fit.rl_models import ALONE, Algorithms, RlModels
from fitgauge.services.training_fit.run import run_assumptions
from fitgauge.services.training_fit.saved_tensors import saved_segments
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.suggest import SettingsSearch
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_fit.warnings import NO_SUGGESTION, display_warnings, warnings
from fitgauge.services.training_fit.workload import training_gpus, training_workload


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
        count = training_gpus(request, match.count)
        accelerator = shared(match.accelerator, int((request.other_memory_gib or 0) * GIB))
        judged = self._judge(request, model, accelerator, count, models)
        if degrees := self._degrees(request, judged.main, model, accelerator):
            laid_out = structs.replace(request, **degrees)
            other = self._judge(laid_out, model, accelerator, count, models)
            if other.main.verdict != "does_not_fit":
                request = laid_out
                judged = replace(other, main=replace(other.main, laid_out=True))
        trained = judged.main
        stage, workload = trained.fullest, trained.workload
        refused, full = refusal(workload, accelerator), request.detail == "full"
        gpus = answers.gpu_count_in_words(accelerator, count)

        def of_workload(changed: TrainingWorkload) -> TrainingEstimate:
            return self._estimate(trained.request, changed, model, accelerator, count, models)

        search = SettingsSearch(
            lambda changed, count: self.check(changed, model, accelerator, count, models),
            of_workload,
            request if refused else structs.replace(request, method=workload.method),
            {} if refused or request.method else {"method": workload.method},
            model,
            accelerator,
            self._profile,
            trained,
        )
        limits = None
        if refused is None:
            limits = Limits(
                max_micro_batch_size=search.max_micro_batch_size(),
                min_gpu_count=search.min_gpu_count(),
            )
        suggestions = search.suggestions(refused, limits.min_gpu_count if limits else None)
        understood_as = echo(trained, accelerator, model)
        no_change_fits = trained.verdict == "does_not_fit" and not suggestions and not refused
        others = [of_workload(choice) for choice in other_choices(trained.request, workload)]
        starts = refused is None and trained.verdict != "does_not_fit"
        judgement: Verdict = "unsupported" if refused else trained.verdict

        def judge(other: Accelerator) -> Verdict | None:
            left = shared(other, int((request.other_memory_gib or 0) * GIB))
            try:
                tried = self.check(request, model, left, count, models)
            except IMPOSSIBLE:
                return None
            return "unsupported" if refusal(tried.workload, left) else tried.verdict

        read_as = [
            *size_readings(request.model, model),
            *gpu_readings(request.gpu or "", match, judgement, stage.need.low, judge),
        ]
        check_host(trained.host_memory, request.host_memory_gib)
        parts = (
            Around()
            if refused
            else around(
                request,
                trained,
                model,
                accelerator,
                offers,
                lambda changed, gpus: self.check(changed, model, accelerator, gpus, models),
            )
        )
        started = (
            launch(model, workload, trained.setup, trained.tool, parts.settings) if starts else None
        )
        return TrainingAnswer(
            verdict=judgement,
            summary=(
                f"{model.id} cannot be trained this way on {gpus}: {sentence(refused)}"
                if refused
                else summary(
                    model,
                    gpus,
                    trained,
                    accelerator,
                    limits.max_micro_batch_size if limits else None,
                )
                + other_verdicts(read_as, judgement)
                + around_in_words(parts)
            ),
            fit_probability=None if refused else round(trained.probability, 4),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(accelerator, count),
            per_gpu=(
                None
                if refused
                else per_gpu(trained, [other.fullest for other in others], accelerator)
            ),
            terms=None if refused else answers.term_answers(stage.terms, full),
            phases=[] if refused else phase_answers(stage, full),
            limits=limits,
            host_memory=trained.host_memory,
            others=other_methods(judged.others, accelerator),
            suggestions=suggestions,
            warnings=[
                *warnings(request, model, match, trained),
                *display_warnings(request, accelerator, trained),
                *([NO_SUGGESTION] * no_change_fits),
                *parts.notes,
            ],
            assumed=[
                *assumptions(request, model, judged, understood_as, of_workload),
                *run_assumptions(request),
            ],
            understood_as=understood_as,
            launch=with_files(started) if full and started else started,
            checkpoint_bytes=checkpoint_size(model, trained, models),
            read_as=read_as,
            run=parts.run,
            disk=parts.disk,
            evaluation=parts.evaluation,
            merge=parts.merge,
            resume=parts.resume,
            ranks=(
                training_rank_answers(trained.stages, accelerator.usable, self._profile)
                if full and workload.pipeline_parallel > 1 and not refused
                else UNSET
            ),
            saved=saved_segments(model.spec, workload) if full else UNSET,
        )

    def alone(
        self, request: TrainingRequest, model: Model, models: RlModels = ALONE
    ) -> JudgedMethods:
        """Return the methods on one GPU of any size. Raise as `answer`."""
        return self._judge(on_one_gpu(with_lengths(request)), model, ANY_GPU.accelerator, 1, models)

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
        trained, accelerator = judged.main, ANY_GPU.accelerator
        assumed = assumptions(
            request,
            model,
            judged,
            echo(trained, accelerator, model),
            lambda changed: self._estimate(trained.request, changed, model, accelerator, 1, models),
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
        if request.method is not None:
            method = words.method(request.method)
            return self._check_method(request, method, model, accelerator, count, models)
        return self._judge(request, model, accelerator, count, models).main

    def _judge(
        self,
        request: TrainingRequest,
        model: Model,
        accelerator: Accelerator,
        count: int,
        models: RlModels,
    ) -> JudgedMethods:
        """Return the estimate of the method that is sent, and of the others that are possible;
        where none is sent, of the first that fits, else of the one that needs least.

        Raises InvalidRequestError where the method that is sent, or each, is impossible.
        """
        sent = None if request.method is None else words.method(request.method)
        estimates: dict[Method, TrainingEstimate] = {}
        errors: list[Exception] = []
        for method in dict.fromkeys([*([sent] if sent else []), *METHODS]):
            try:
                estimates[method] = self._check_method(
                    request, method, model, accelerator, count, models
                )
            except IMPOSSIBLE as error:
                if method == sent:
                    raise
                errors.append(error)
        if not estimates:
            raise errors[-1]
        main = sent or _preferred(estimates, model, accelerator)
        return JudgedMethods(
            estimates[main],
            {name: one for name, one in estimates.items() if name not in (main, "dora")},
        )

    def _check_method(
        self,
        request: TrainingRequest,
        method: Method,
        model: Model,
        accelerator: Accelerator,
        count: int,
        models: RlModels,
    ) -> TrainingEstimate:
        """Return the estimate of a method.

        Several GPUs under transformers hold a copy each (DDP), or shards (FSDP) where a copy does
        not fit and the request sets neither."""
        request = with_defaults(request, method, accelerator, count, model.spec)
        workload = training_workload(request, model.spec, count)
        trained = self._estimate(request, workload, model, accelerator, count, models)
        if not _is_copied_unsaid(trained) or workload.framework != "transformers":
            return trained
        return self._estimate(
            request,
            structs.replace(workload, framework="fsdp", zero_stage=3),
            model,
            accelerator,
            count,
            models,
        )

    def _degrees(
        self,
        request: TrainingRequest,
        trained: TrainingEstimate,
        model: Model,
        accelerator: Accelerator,
    ) -> Fields:
        """Return the fields of the planner's layout under Megatron, where a copy on every GPU does
        not fit and the request sets no degree; empty for what fits, and where no layout does."""
        workload = trained.workload
        is_sft = trained.setup.algorithm == "sft"
        if workload.framework != "megatron" or not is_sft or not _is_copied_unsaid(trained):
            return {}
        if any(getattr(request, name) is not None for name in _DEGREES):
            return {}
        plan = fastest_layout(model.spec, workload, self._profile, accelerator, trained.count)
        if plan is None:
            return {}
        fields = degree_fields(plan)
        del fields["gpu_count"], fields["data_parallel"]  # follow from the others
        return {name: value for name, value in fields.items() if getattr(request, name) is None}

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
        memory = training_probability(fullest(stages).demand, accelerator.usable, self._profile)
        probability = min(startup_probability, memory)
        return TrainingEstimate(
            workload,
            setup,
            stages,
            probability,
            verdict(probability),
            count,
            request,
            "budget" if startup_probability < memory else "device",
        )


_DEGREES = (
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "sequence_parallel",
)
"""Fields of a layout: a request that sets one is judged as it is."""


def _is_copied_unsaid(trained: TrainingEstimate) -> bool:
    """Return whether a copy on every GPU does not fit, and the request sets no other layout."""
    request, workload = trained.request, trained.workload
    return (
        trained.verdict == "does_not_fit"
        and request.zero_stage is None
        and request.data_parallel is None
        and 1 < workload.gpus == workload.data_parallel
    )


def _preferred(
    estimates: Mapping[Method, TrainingEstimate], model: Model, accelerator: Accelerator
) -> Method:
    """Return the first method that fits, else the one that needs least, of those that the GPU and
    the tool that is named can run; the first where there is none."""
    possible = {
        name: one for name, one in estimates.items() if not refusal(one.workload, accelerator)
    }
    possible = {
        name: one
        for name, one in possible.items()
        if one.tool is not None and one.tool.runs(model, one.workload, one.setup)
    } or possible
    for name, one in possible.items():
        if one.verdict == "fits":
            return name
    return min(possible, key=lambda name: possible[name].need, default=next(iter(estimates)))
