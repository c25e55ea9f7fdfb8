"""The answer to a training question, from the estimates of its methods."""

from collections.abc import Iterator
from dataclasses import replace

from msgspec import UNSET, structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.instances import Offers
from fitgauge.engine.accelerator import Accelerator, shared
from fitgauge.engine.quantity import GIB
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.common import responses
from fitgauge.services.common.fit_schemas import Limits
from fitgauge.services.common.reading_schemas import Reading, Verdict
from fitgauge.services.common.readings import gpu_readings, other_verdicts, size_readings
from fitgauge.services.common.unsupported import IMPOSSIBLE, sentence
from fitgauge.services.training_fit import loading
from fitgauge.services.training_fit.around import around, around_in_words
from fitgauge.services.training_fit.assumptions import assumptions
from fitgauge.services.training_fit.echo import echo
from fitgauge.services.training_fit.estimator import Subject, TrainingEstimator
from fitgauge.services.training_fit.framework_variants import other_choices
from fitgauge.services.training_fit.launchers.command import launch, with_files
from fitgauge.services.training_fit.ranks import training_rank_answers
from fitgauge.services.training_fit.responses import (
    all_weights,
    checkpoint_size,
    other_methods,
    per_gpu,
    phase_answers,
    summary,
)
from fitgauge.services.training_fit.result import JudgedMethods, TrainingEstimate
from fitgauge.services.training_fit.run import run_assumptions
from fitgauge.services.training_fit.saved_tensors import saved_segments
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.suggest import SettingsSearch
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_fit.warnings import NO_SUGGESTION, display_warnings, warnings


class AnswerBuilder:
    """Builds one answer. judged: the request's methods. match: the GPU as it is named. offers: what
    GPUs cost."""

    def __init__(
        self,
        estimator: TrainingEstimator,
        request: TrainingRequest,
        subject: Subject,
        judged: JudgedMethods,
        match: GpuMatch,
        offers: Offers | None,
    ) -> None:
        self._estimator = estimator
        self._request = request
        self._subject = subject
        self._judged = judged
        self._match = match
        self._offers = offers
        self._trained = judged.main
        self._refused = refusal(judged.main.workload, subject.accelerator)
        self._is_full = request.detail == "full"
        self._search = self._settings_search()

    @property
    def _verdict(self) -> Verdict:
        return "unsupported" if self._refused else self._trained.verdict

    def answer(self) -> TrainingAnswer:
        """Return the verdict with its evidence; unsupported where the framework or tool refuses."""
        request, subject, trained = self._request, self._subject, self._trained
        model, accelerator = subject.model, subject.accelerator
        gpus = responses.gpu_count_in_words(accelerator, subject.count)
        limits = None if self._refused else self._limits()
        understood_as = echo(trained, accelerator, model)
        answer = TrainingAnswer(
            verdict=self._verdict,
            summary="",
            fit_probability=None,
            model=responses.model_answer(model),
            gpu=responses.gpu_answer(accelerator, subject.count),
            per_gpu=None,
            terms=None,
            phases=[],
            limits=limits,
            host_memory=trained.host_memory,
            others=other_methods(self._judged.others, accelerator),
            suggestions=self._search.suggestions(
                self._refused, limits.min_gpu_count if limits else None
            ),
            warnings=[
                *warnings(request, model, self._match, trained),
                *display_warnings(request, accelerator, trained),
            ],
            assumed=[
                *assumptions(request, model, self._judged, understood_as, self._of_workload),
                *run_assumptions(request),
            ],
            understood_as=understood_as,
            launch=None,
            checkpoint_bytes=checkpoint_size(model, trained, subject.models),
            read_as=list(self._readings()),
            saved=saved_segments(model.spec, trained.workload) if self._is_full else UNSET,
        )
        if self._refused:
            answer.summary = (
                f"{model.id} cannot be trained this way on {gpus}: {sentence(self._refused)}"
            )
        else:
            answer.summary = summary(model, gpus, trained, accelerator, limits, answer.suggestions)
            answer.summary += other_verdicts(answer.read_as, trained.verdict)
            answer.summary += all_weights(request, self._judged)
            answer.summary += loading.release_in_words(answer.warnings)
            self._judge(answer)
        return answer

    def _judge(self, answer: TrainingAnswer) -> None:
        """Fill in the memory, the command and the whole run of what the GPU runs."""
        trained, accelerator = self._trained, self._subject.accelerator
        stage, workload = trained.fullest, trained.workload
        choices = other_choices(trained.request, workload, trained.moved)
        others = [self._of_workload(one) for one in choices]
        answer.fit_probability = round(trained.probability, 4)
        answer.per_gpu = per_gpu(trained, [other.fullest for other in others], accelerator)
        answer.terms = responses.term_answers(stage.terms, self._is_full)
        answer.phases = phase_answers(stage, self._is_full)
        if trained.verdict == "does_not_fit" and not answer.suggestions:
            answer.warnings.append(NO_SUGGESTION)
        self._add_run(answer)
        if self._is_full and workload.pipeline_parallel > 1:
            answer.ranks = training_rank_answers(
                trained.stages, accelerator.usable, self._estimator.profile
            )

    def _add_run(self, answer: TrainingAnswer) -> None:
        """Fill in the whole run, what is around it, and the command."""
        subject, trained = self._subject, self._trained
        parts = around(
            self._request,
            trained,
            subject.model,
            subject.accelerator,
            self._offers,
            self._of_request,
        )
        answer.summary += around_in_words(parts)
        answer.warnings += parts.notes
        answer.run = parts.run
        answer.disk = parts.disk
        answer.evaluation = parts.evaluation
        answer.merge = parts.merge
        answer.resume = parts.resume
        if trained.verdict != "does_not_fit":
            started = launch(
                subject.model, trained.workload, trained.setup, trained.tool, parts.settings
            )
            answer.launch = with_files(started) if self._is_full else started

    def _limits(self) -> Limits:
        return Limits(
            max_micro_batch_size=self._search.max_micro_batch_size(),
            max_sequence_length=self._search.max_sequence_length(),
            min_gpu_count=self._search.min_gpu_count(),
        )

    def _settings_search(self) -> SettingsSearch:
        request, method = self._request, self._trained.workload.method
        return SettingsSearch(
            self._of_request,
            self._of_workload,
            request if self._refused else structs.replace(request, method=method),
            {} if self._refused or request.method else {"method": method},
            self._subject.model,
            self._subject.accelerator,
            self._estimator.profile,
            self._trained,
        )

    def _of_request(self, changed: TrainingRequest, count: int) -> TrainingEstimate:
        """Return the estimate of a changed request on a number of GPUs."""
        return self._estimator.check(changed, replace(self._subject, count=count))

    def _of_workload(self, changed: TrainingWorkload) -> TrainingEstimate:
        """Return the estimate of a changed workload."""
        return self._estimator.estimate(self._trained.request, changed, self._subject)

    def _readings(self) -> Iterator[Reading]:
        """Yield what was guessed of the model and the GPU."""
        request, least = self._request, self._trained.fullest.need.low
        yield from size_readings(request.model, self._subject.model)
        yield from gpu_readings(
            request.gpu or "", self._match, self._verdict, least, self._verdict_on
        )

    def _verdict_on(self, other: Accelerator) -> Verdict | None:
        """Return the verdict on another GPU; None where it is impossible there."""
        left = free_of(self._request, other)
        try:
            tried = self._estimator.check(self._request, replace(self._subject, accelerator=left))
        except IMPOSSIBLE:
            return None
        return "unsupported" if refusal(tried.workload, left) else tried.verdict


def free_of(request: TrainingRequest, accelerator: Accelerator) -> Accelerator:
    """Return the GPU with what other processes leave of it."""
    return shared(accelerator, int((request.other_memory_gib or 0) * GIB))
