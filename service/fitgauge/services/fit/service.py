"""check_fit: will this model fit on this GPU when it is served?"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.model.spec import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.fit import ServingLimits
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.engine.serving.support import runs_engine
from fitgauge.engine.serving.workload import EngineName
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.assumptions import default_of, model_notes
from fitgauge.services.common.default_engine import other_engine
from fitgauge.services.common.schemas import Assumption, FitAnswer, FitRequest, Launch, Limits
from fitgauge.services.common.unsupported import sentence
from fitgauge.services.fit.assumptions import assumptions
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fit.echo import understood_as
from fitgauge.services.fit.estimate import Estimator, FitEstimate, FitQuery
from fitgauge.services.fit.launch import launch, source_of
from fitgauge.services.fit.limits import fewest_cards, limits_of
from fitgauge.services.fit.quantized_repos import QuantizedRepo
from fitgauge.services.fit.suggest import suggest, suggestions
from fitgauge.services.fit.warnings import notes
from fitgauge.services.fit.workload import serving_workload


class FitService:
    """Answers serving questions about models that are at hand. Pure arithmetic: no I/O, no
    await."""

    def __init__(self, engines: Engines, checkpoints: Checkpoints | None = None) -> None:
        """checkpoints: published repositories that may be loaded instead of a model."""
        self._estimator = Estimator(engines, checkpoints)

    def is_prepared(self, request: FitRequest, model: Model, found: GpuMatch) -> bool:
        """Return whether the model's weights are laid out already. Raise as `check`."""
        return self._estimator.is_prepared(self._estimator.ask(request, model, found))

    def prepare(self, request: FitRequest, model: Model, found: GpuMatch) -> None:
        """Lay the model's weights out, which takes longer than an estimate. Raise as `check`."""
        self._estimator.prepared(self._estimator.ask(request, model, found))

    def lacks_checkpoint(self, request: FitRequest, model: Model, found: GpuMatch) -> bool:
        """Return whether the Hub may list a checkpoint in the format to serve, and none is known.
        Raise as `check`."""
        if model.source != "hub":
            return False
        asked = self._estimator.ask(request, model, found)
        source = source_of(asked.loaded, asked.request.quantization, asked.profile.engine)
        return asked.choice.derived is not None and source.placeholder is not None

    def check(
        self,
        request: FitRequest,
        model: Model,
        found: GpuMatch,
        *,
        siblings: Sequence[QuantizedRepo] = (),
        as_launched: bool = False,
    ) -> FitEstimate:
        """Return the estimate behind `answer`; as_launched: of the model and the format named,
        which no default changes. Raises InvalidRequestError where the question is impossible."""
        return self._estimator.check(
            self._estimator.ask(request, model, found, siblings=siblings, as_launched=as_launched)
        )

    def answer(
        self,
        request: FitRequest,
        model: Model,
        found: GpuMatch,
        siblings: Sequence[QuantizedRepo] = (),
    ) -> FitAnswer:
        """Return the FitAnswer. siblings: published repositories of the same weights, to suggest.

        Raises InvalidRequestError or UnsupportedError where the question is impossible.
        """
        asked = self._estimator.ask(request, model, found, siblings=siblings)
        checked = self._estimator.check(asked)
        refused = checked.refused
        if refused and (usual := self._usual(asked)):
            instead_of = self.answer(
                structs.replace(asked.original, engine=usual), model, found, siblings
            )
            return structs.replace(
                instead_of, assumed=[other_engine(refused, usual), *instead_of.assumed]
            )
        limits = limits_of(checked, self._estimator)
        cards, full = (
            answers.cards_in_words(asked.accelerator, asked.count),
            asked.request.detail == "full",
        )
        workload, estimate = checked.workload, checked.estimate
        said = answers.summary(
            model, cards, workload, estimate, checked.verdict, checked.probability, limits
        )
        return FitAnswer(
            verdict="unsupported" if refused else checked.verdict,
            summary=f"{model.id} is unsupported on {cards}: {sentence(refused)}"
            if refused
            else said,
            fit_probability=None if refused else round(checked.probability, 4),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(asked.accelerator, asked.count),
            per_gpu=answers.per_gpu(estimate, workload.other_memory_bytes),
            terms=answers.term_answers(estimate.fullest.terms, full),
            limits=_limits(limits, None if refused else fewest_cards(checked, self._estimator)),
            suggestions=(
                suggest(asked, self._estimator)
                if refused
                else suggestions(
                    checked,
                    limits,
                    self._estimator,
                    siblings if words.quantization(request.quantization) is None else (),
                )
            ),
            warnings=[
                *model_notes(model),
                *checked.prepared.scheme.warnings,
                *notes(checked),
            ],
            assumed=[*assumptions(checked), *self._default_format(checked)],
            understood_as=understood_as(checked),
            launch=_launch(checked, limits),
            ranks=(
                answers.rank_answers(estimate) if full and workload.pipeline_parallel > 1 else UNSET
            ),
        )

    def _default_format(self, checked: FitEstimate) -> Iterator[Assumption]:
        """Yield that the engine's default format is assumed, with what the published one needs."""
        asked = checked.asked
        quantization = asked.request.quantization
        if asked.original.quantization is not None or quantization is None:
            return
        changes = {"quantization": words.AS_PUBLISHED}
        wide = self._estimator.possible(self._estimator.change(asked, changes))
        published = f" (as published: {gib(wide.required)})" if wide is not None else ""
        why = f", {checked.workload.engine}'s default{published}"
        yield default_of("quantization", quantization.upper(), why)

    def _usual(self, asked: FitQuery) -> EngineName | None:
        """Return the engine to take where none was named and the first usual one does not run
        these weights on the card; None for no other.

        Where the first one runs on such cards, and only not these weights, another must run
        them as they are published."""
        request = asked.request
        if (
            request.engine is not None
            or request.engine_version is not None
            or asked.spec.task == "encoder_decoder"
        ):
            return None
        for engine in DEFAULT_ENGINES[1:]:
            changes: dict[str, object] = {"engine": engine}
            runs = runs_engine(asked.profile.engine, asked.accelerator)
            if runs and request.quantization is None:
                changes["quantization"] = words.AS_PUBLISHED
            tried = self._estimator.possible(self._estimator.change(asked, changes))
            if tried is not None and tried.refused is None:
                return engine
        return None


def _limits(limits: ServingLimits, fewest: int | None) -> Limits:
    return Limits(
        kv_cache_tokens=limits.kv_cache_tokens,
        max_context_length=limits.max_context_length,
        max_concurrency=limits.max_concurrency,
        min_gpu_count=fewest,
    )


def _launch(checked: FitEstimate, limits: ServingLimits) -> Launch:
    """Return how to start it, without settings that only repeat what the engine takes by itself."""
    asked, workload = checked.asked, checked.workload
    request = asked.request
    for name in ("gpu_memory_utilization", "max_num_seqs", "max_batched_tokens"):
        if getattr(request, name) is not None:
            without = structs.replace(
                request, **{name: None}, tensor_parallel=workload.tensor_parallel
            )
            default = serving_workload(
                without, asked.spec, asked.accelerator, asked.count, asked.profile
            )
            if getattr(default, name) == getattr(workload, name):
                request = structs.replace(request, **{name: None})
    tokens = limits.kv_cache_tokens if checked.estimate.given_pool_bytes is not None else None
    return launch(asked.loaded, request, workload, pool_tokens=tokens, laid=checked.prepared.laid)
