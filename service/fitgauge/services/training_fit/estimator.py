"""Estimates of training requests: of a method, of each that is possible, and in the layout that
fits."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.fit import verdict
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.odds import training_probability
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.workload import Method, TrainingWorkload
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.training_fit import parsing, rl_setup
from fitgauge.services.training_fit.candidates import Fields
from fitgauge.services.training_fit.defaults import methods_of, with_defaults
from fitgauge.services.training_fit.degree_candidates import degree_fields, fastest_layout
from fitgauge.services.training_fit.launchers.registry import moved_defaults
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate, fullest
from fitgauge.services.training_fit.rl_models import ALONE, Algorithms, RlModels
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_fit.workload import training_workload


@dataclass(frozen=True, slots=True)
class Subject:
    """What is trained, on what."""

    model: Model
    """The model to train."""
    accelerator: Accelerator
    """The GPU, with what is free of it."""
    count: int
    """Number of GPUs."""
    models: RlModels = ALONE
    """The named reward model and critic."""


class TrainingEstimator:
    """Estimates training requests. Pure arithmetic: no I/O, no await."""

    def __init__(self, profile: TrainingProfile, engines: Engines) -> None:
        self.profile = profile
        self._algorithms = Algorithms(profile, engines)
        self._checkpoint: Checkpoint = no_checkpoint

    def with_checkpoint(self, checkpoint: Checkpoint) -> "TrainingEstimator":
        """Return a copy that calls `checkpoint` before every estimate."""
        estimator = copy(self)
        estimator._checkpoint = checkpoint
        return estimator

    def check(self, request: TrainingRequest, subject: Subject) -> TrainingEstimate:
        """Return the estimate of the method that is sent, else of the one that `judge` prefers.
        Raises InvalidRequestError where the request is impossible."""
        if request.method is not None:
            return self._check_method(request, parsing.method(request.method), subject)
        return self.judge(request, subject).main

    def judge(self, request: TrainingRequest, subject: Subject) -> JudgedMethods:
        """Return the estimate of the method that is sent, and of the others that are possible;
        where none is sent, of the first that fits, else of the one that needs least.

        Raises InvalidRequestError where the method that is sent, or each, is impossible.
        """
        sent = None if request.method is None else parsing.method(request.method)
        estimates: dict[Method, TrainingEstimate] = {}
        errors: list[Exception] = []
        for method in dict.fromkeys(
            [*([sent] if sent else []), *methods_of(request, subject.model.spec)]
        ):
            try:
                estimates[method] = self._check_method(request, method, subject)
            except IMPOSSIBLE as error:
                if method == sent:
                    raise
                errors.append(error)
        if not estimates:
            raise errors[-1]
        main = sent or _preferred(estimates, subject)
        return JudgedMethods(
            estimates[main],
            {name: one for name, one in estimates.items() if name not in (main, "dora")},
        )

    def judge_laid_out(
        self, request: TrainingRequest, subject: Subject
    ) -> tuple[TrainingRequest, JudgedMethods]:
        """Return `judge`, and the request: in the planner's layout where that fits and the request
        leaves the layout open."""
        judged = self.judge(request, subject)
        degrees = self._degrees(request, judged.main, subject)
        if not degrees:
            return request, judged
        laid_out = structs.replace(request, **degrees)
        other = self.judge(laid_out, subject)
        if other.main.verdict == "does_not_fit":
            return request, judged
        return laid_out, replace(other, main=replace(other.main, laid_out=True))

    def estimate(
        self, request: TrainingRequest, workload: TrainingWorkload, subject: Subject
    ) -> TrainingEstimate:
        """Return the estimate of a workload. request: with its defaults filled in."""
        self._checkpoint()
        spec, accelerator = subject.model.spec, subject.accelerator
        setup = rl_setup.setup(request, workload, spec, subject.models.teacher)
        startup_probability = 1.0
        if setup.algorithm == "sft":
            stages = training_stages(spec, workload, self.profile, accelerator.usable.expected)
        else:
            stages, startup_probability = self._algorithms.stages(
                subject.model, subject.models, workload, setup, accelerator
            )
        memory = training_probability(fullest(stages).demand, accelerator.usable, self.profile)
        probability = min(startup_probability, memory)
        trained = TrainingEstimate(
            workload,
            setup,
            stages,
            probability,
            verdict(probability),
            subject.count,
            request,
            "budget" if startup_probability < memory else "device",
        )
        if trained.lacks_host:
            return replace(trained, probability=0.0, verdict=verdict(0.0))
        return trained

    def _check_method(
        self, request: TrainingRequest, method: Method, subject: Subject
    ) -> TrainingEstimate:
        """Return the estimate of a method.

        Several GPUs under transformers hold a copy each (DDP), or shards (FSDP) where a copy does
        not fit, or is tight and shards fit, and the request sets neither."""
        spec, count = subject.model.spec, subject.count
        filled = with_defaults(request, method, subject.accelerator, count, spec)
        workload = training_workload(filled, spec, count)
        trained = self.estimate(filled, workload, subject)
        unsure = trained.verdict != "fits" and _is_copied_unsaid(trained)
        if unsure and workload.framework == "transformers":
            sharded = structs.replace(workload, framework="fsdp", zero_stage=3)
            other = self.estimate(filled, sharded, subject)
            if trained.verdict == "does_not_fit" or other.verdict == "fits":
                trained = other
        return replace(trained, moved=moved_defaults(request, method, count, spec))

    def _degrees(
        self, request: TrainingRequest, trained: TrainingEstimate, subject: Subject
    ) -> Fields:
        """Return the fields of the planner's layout under Megatron, where a copy on every GPU does
        not fit and the request sets no degree; empty for what fits, and where no layout does."""
        workload = trained.workload
        is_sft = trained.setup.algorithm == "sft"
        if workload.framework != "megatron" or not is_sft or not _is_copied_unsaid(trained):
            return {}
        if trained.verdict != "does_not_fit":
            return {}
        if any(getattr(request, name) is not None for name in _DEGREES):
            return {}
        plan = fastest_layout(
            subject.model.spec, workload, self.profile, subject.accelerator, trained.count
        )
        if plan is None:
            return {}
        fields = degree_fields(plan)
        del fields["gpu_count"], fields["data_parallel"]  # follow from the others
        return {name: value for name, value in fields.items() if getattr(request, name) is None}


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
    """Return whether every GPU holds a copy, and the request sets no layout."""
    request, workload = trained.request, trained.workload
    return (
        request.zero_stage is None
        and request.data_parallel is None
        and 1 < workload.gpus == workload.data_parallel
    )


def _preferred(estimates: Mapping[Method, TrainingEstimate], subject: Subject) -> Method:
    """Return the first method that fits, else the one that needs least, of those that the GPU and
    the tool that is named can run; the first where there is none."""
    possible = {
        name: one
        for name, one in estimates.items()
        if not refusal(one.workload, subject.accelerator)
    }
    possible = {
        name: one
        for name, one in possible.items()
        if one.tool is not None and one.tool.runs(subject.model, one.workload, one.setup)
    } or possible
    for name, one in possible.items():
        if one.verdict == "fits":
            return name
    return min(possible, key=lambda name: possible[name].need, default=next(iter(estimates)))
