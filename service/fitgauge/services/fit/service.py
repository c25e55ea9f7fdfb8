"""check_fit: will this model fit on this GPU when it is served?"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.engine.serving.support import runs_engine
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.assumptions import default_of, model_notes
from fitgauge.services.common.default_engine import other_engine
from fitgauge.services.common.fit_schemas import FitAnswer, Limits
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.common.ranks import rank_answers
from fitgauge.services.common.reading_schemas import Reading, Verdict
from fitgauge.services.common.readings import gpu_readings, other_verdicts, size_readings
from fitgauge.services.common.schemas import Assumption, FitRequest, Suggestion
from fitgauge.services.common.smaller_models import SmallerModels
from fitgauge.services.common.unsupported import sentence, to_send
from fitgauge.services.fit.assumptions import assumptions
from fitgauge.services.fit.auto_limits import auto_limits
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fit.chosen import chosen_settings, clause, conditions, defaults_answer
from fitgauge.services.fit.echo import understood_as
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.launch import source_of
from fitgauge.services.fit.launch_answer import launch_of, nodes_assumed
from fitgauge.services.fit.less_offloaded import less_offloaded
from fitgauge.services.fit.limits import cache_tokens_of, fewest_gpus, is_queued, requests_at_once
from fitgauge.services.fit.manifests import with_manifests
from fitgauge.services.fit.needs import needs_answer
from fitgauge.services.fit.quantized_repos import QuantizedRepo
from fitgauge.services.fit.query import FitEstimate, FitQuery
from fitgauge.services.fit.refused import instead_of_refused
from fitgauge.services.fit.smaller_models import smaller_model
from fitgauge.services.fit.speed import half_of, in_words, speed_answer, targets_in_words
from fitgauge.services.fit.suggest import suggestions, with_host_in_words
from fitgauge.services.fit.texts import text_answer
from fitgauge.services.fit.warnings import notes


class FitService:
    """Answers serving questions about models that are at hand. Pure arithmetic: no I/O, no
    await."""

    def __init__(self, engines: Engines, checkpoints: Checkpoints | None = None) -> None:
        """checkpoints: published repositories that may be loaded instead of a model."""
        self._estimator = Estimator(engines, checkpoints)

    def is_prepared(self, request: FitRequest, model: Model, match: GpuMatch) -> bool:
        """Return whether the model's sharded weights are cached. Raise as `check`."""
        return self._estimator.is_prepared(self._estimator.ask(request, model, match))

    def prepare(self, request: FitRequest, model: Model, match: GpuMatch) -> None:
        """Lay the model's weights out, which takes longer than an estimate. Raise as `check`."""
        self._estimator.prepared(self._estimator.ask(request, model, match))

    def lacks_checkpoint(self, request: FitRequest, model: Model, match: GpuMatch) -> bool:
        """Return whether the Hub may list a checkpoint in the format to serve, and none is known.
        Raise as `check`."""
        if model.source != "hub":
            return False
        query = self._estimator.ask(request, model, match)
        source = source_of(query.loaded, query.request.quantization, query.profile.engine)
        return query.checkpoint.derived is not None and source.placeholder is not None

    def check(
        self,
        request: FitRequest,
        model: Model,
        match: GpuMatch,
        *,
        siblings: Sequence[QuantizedRepo] = (),
        as_launched: bool = False,
    ) -> FitEstimate:
        """Return the estimate behind `answer`; as_launched: of the model and the format named,
        which no default changes. Raises InvalidRequestError where the question is impossible."""
        return self._estimator.check(
            self._estimator.ask(request, model, match, siblings=siblings, as_launched=as_launched)
        )

    def checked_with(self, checked: FitEstimate, siblings: Sequence[QuantizedRepo]) -> FitEstimate:
        """Return the estimate with repositories to load or to suggest: the same one where the
        engine loads none of them."""
        before = checked.query
        query = self._estimator.change(before, {}, siblings=siblings)
        if query.checkpoint != before.checkpoint:
            return self._estimator.check(query)
        choice = checked.choice
        if choice is not None:
            choice = structs.replace(choice, default=structs.replace(choice.default, query=query))
        return structs.replace(checked, query=query, choice=choice)

    def answer(
        self,
        request: FitRequest,
        model: Model,
        match: GpuMatch,
        siblings: Sequence[QuantizedRepo] = (),
    ) -> FitAnswer:
        """Return the FitAnswer. siblings: as in `answer_for`.

        Raises InvalidRequestError or UnsupportedError where the question is impossible.
        """
        return self.answer_for(self.check(request, model, match, siblings=siblings), siblings)

    def smaller_model(
        self,
        request: FitRequest,
        model: Model,
        match: GpuMatch,
        models: SmallerModels,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> Suggestion | None:
        """Return the smaller model of the family that fits, as a change of a question. Raise as
        `check`."""
        query = self._estimator.ask(request, model, match)
        return smaller_model(query, models, self._estimator, checkpoint)

    def needs(
        self, request: FitRequest, model: Model, smallest: Callable[[], Sequence[SmallestGpus]]
    ) -> FitAnswer:
        """Return the answer to a question without a GPU: what the model needs by format, and the
        smallest GPUs that hold it, which `smallest` finds. Raise as `check`."""
        return needs_answer(request, model, smallest, self._estimator)

    def answer_for(self, checked: FitEstimate, siblings: Sequence[QuantizedRepo]) -> FitAnswer:
        """Return the FitAnswer of what `check` returned. siblings: repositories to suggest, of the
        same weights in other formats, or, where the context is too long, of models alike that
        read more.

        Raises InvalidRequestError where no engine can divide the model so."""
        query, refused = checked.query, checked.refused
        if refused and (usual := self._usual(query)):
            instead_of = self.answer(
                structs.replace(query.original, engine=usual), query.model, query.match, siblings
            )
            return structs.replace(
                instead_of, assumed=[other_engine(refused, usual), *instead_of.assumed]
            )
        gpus = query.gpus_in_words
        workload, estimate = checked.workload, checked.estimate
        full = query.request.detail == "full"
        answer = FitAnswer(
            verdict="unsupported",
            summary=f"{query.model.id} is unsupported on {gpus}.",
            fit_probability=None,
            model=responses.model_answer(query.model),
            gpu=responses.gpu_answer(query.match, query.count),
            per_gpu=responses.per_gpu(
                estimate, checked.limited_by, checked.shown, workload.other_memory_bytes
            ),
            terms=responses.term_answers(estimate.fullest.terms, full),
            limits=Limits(kv_cache_tokens=cache_tokens_of(checked)),
            host_memory=None,
            suggestions=[],
            warnings=[
                *model_notes(query.model),
                *checked.prepared.scheme.warnings,
                *notes(checked),
            ],
            assumed=[*assumptions(checked), *self._default_format(checked)],
            understood_as=understood_as(checked),
            launch=None,
            read_as=list(size_readings(query.original.model, query.model)),
        )
        if refused:
            answer.suggestions = instead_of_refused(checked, self._estimator, siblings)
            why = self._why_refused(refused, query, answer.suggestions)
            answer.summary = f"{query.model.id} is unsupported on {gpus}: {why}"
            return answer
        self._judge(answer, checked, siblings)
        return answer

    def _judge(
        self, answer: FitAnswer, checked: FitEstimate, siblings: Sequence[QuantizedRepo]
    ) -> None:
        """Fill in the verdict, the limits and the launch of what the engine runs."""
        workload, estimate = checked.workload, checked.estimate
        full = checked.query.request.detail == "full"
        limits = auto_limits(checked, self._estimator)
        if workload.pooling:  # texts wait for a pass, however many there are
            limits = structs.replace(limits, max_concurrency=None)
        elif is_queued(checked):
            limits = structs.replace(limits, max_concurrency=1)
        fewest = fewest_gpus(checked, self._estimator)
        answer.verdict = checked.verdict
        answer.fit_probability = round(checked.probability, 4)
        answer.host_memory = self._estimator.host_memory(checked)
        answer.speed = speed_answer(checked)
        asked_format = parsing.quantization(checked.query.original.quantization)
        repositories = siblings if asked_format is None else ()
        answer.suggestions = (
            less_offloaded(checked, self._estimator, repositories)
            if checked.lacks_host
            else suggestions(checked, limits, fewest, self._estimator, repositories)
        )
        unsaid_format, half = _unsaid_format(checked.query), half_of(workload)
        answer.summary = responses.summary(
            answer.model.id
            + (f" in {unsaid_format}" if unsaid_format else "")
            + (f" ({half})" if half else ""),
            checked.query.gpus_in_words,
            workload,
            estimate,
            checked.verdict,
            checked.probability,
            limits,
            limited_by=checked.limited_by,
            outside=checked.outside,
            host=answer.host_memory,
            machine_gib=checked.query.request.host_memory_gib,
            settings=clause(checked) + targets_in_words(answer.speed) + conditions(checked),
            at_once=requests_at_once(checked),
            with_host=with_host_in_words(checked.query.request, answer.suggestions),
            changes=answer.suggestions,
        )
        answer.limits = Limits(
            kv_cache_tokens=limits.kv_cache_tokens,
            max_context_length=limits.max_context_length,
            max_concurrency=limits.max_concurrency,
            min_gpu_count=fewest,
        )
        answer.launch = launch_of(checked)
        if answer.launch is not None:
            answer.assumed += nodes_assumed(checked)
            if full:
                answer.launch = with_manifests(answer.launch, checked)
        answer.texts = text_answer(checked)
        answer.chosen = chosen_settings(checked)
        answer.defaults = defaults_answer(checked, self._estimator)
        answer.read_as = self._readings(checked)
        answer.summary += other_verdicts(answer.read_as, checked.verdict)
        if answer.speed is not None:
            answer.summary += in_words(answer.speed)
        if (full and workload.pipeline_parallel > 1) or estimate.gpus:
            answer.ranks = rank_answers(estimate)

    def _readings(self, checked: FitEstimate) -> list[Reading]:
        """Return what was guessed of the model and the GPU."""
        query = checked.query

        def judge(accelerator: Accelerator) -> Verdict | None:
            if checked.lacks_host:
                return "does_not_fit"
            other = structs.replace(query.match, accelerator=accelerator)
            return self._estimator.verdict(structs.replace(query, match=other))

        least = checked.estimate.fullest.required.low
        return [
            *size_readings(query.original.model, query.model),
            *gpu_readings(query.original.gpu or "", query.match, checked.verdict, least, judge),
        ]

    def _default_format(self, checked: FitEstimate) -> Iterator[Assumption]:
        """Yield that the engine's default format is assumed, with what the published one needs."""
        query = checked.query
        if (quantization := _assumed_format(query)) is None:
            return
        changes = {"quantization": parsing.AS_PUBLISHED}
        wide = self._estimator.possible(self._estimator.change(query, changes))
        published = f" (as published: {gib(wide.required)})" if wide is not None else ""
        why = f", {checked.workload.engine}'s default{published}"
        yield default_of("quantization", quantization, why)

    def _why_refused(
        self, refused: UnsupportedError, query: FitQuery, instead: Sequence[Suggestion]
    ) -> str:
        """Return why an engine refuses a question and what to send: what the engine names, unless
        that is refused as well and something else runs."""
        send = to_send(refused)
        if send and instead:
            again = self._estimator.attempt(self._estimator.change(query, send))
            if again is None or again.refused:
                return f"{refused.reason} To run it, {instead[0].change}."
        return sentence(refused)

    def _usual(self, query: FitQuery) -> EngineName | None:
        """Return the engine to take where none was named and the first usual one does not run
        these weights on the GPU; None for no other.

        Where the first one runs on such GPUs, and only not these weights, another must run
        them as they are published."""
        request = query.request
        if (
            request.engine is not None
            or request.engine_version is not None
            or query.spec.task == "encoder_decoder"
        ):
            return None
        for engine in DEFAULT_ENGINES[1:]:
            if not runs_engine(engine, query.accelerator):
                continue
            changes: dict[str, object] = {"engine": engine}
            runs = runs_engine(query.profile.engine, query.accelerator)
            if runs and request.quantization is None:
                changes["quantization"] = parsing.AS_PUBLISHED
            tried = self._estimator.possible(self._estimator.change(query, changes))
            if tried is not None and tried.refused is None:
                return engine
        return None


def _unsaid_format(query: FitQuery) -> str | None:
    """Return the format that is served, in words, where neither the question nor the model's id
    says it: an engine's default, or what a tag of Ollama stands for."""
    model, form = query.model, query.request.quantization
    if form is not None and form == model.named_format and query.checkpoint.derived is not None:
        return form.upper()
    return _assumed_format(query)


def _assumed_format(query: FitQuery) -> str | None:
    """Return the engine's default format of weights, in words, where the question leaves it out;
    None where it is named or as published."""
    form = query.request.quantization
    return None if form is None or query.original.quantization is not None else form.upper()
