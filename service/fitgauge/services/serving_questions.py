"""check_fit from request to answer: names resolved, drafts attached, checkpoints and longer models
looked up, and what a cached answer depends on."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import FitgaugeError
from fitgauge.services.common import parsing
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.host_memory import lacks_host
from fitgauge.services.common.kubernetes import node_size
from fitgauge.services.common.long_questions import Checkpoint, LongQuestions
from fitgauge.services.common.loop_turns import LoopTurns
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.name_readings import (
    engine_of_format,
    engine_of_name,
    engine_of_options,
    find_gpu,
    model_readings,
    with_named_format,
)
from fitgauge.services.common.responses import MOST_WITH_OTHERS
from fitgauge.services.common.schemas import FitRequest, Suggestion, Verdict
from fitgauge.services.common.smaller_models import SmallerModels
from fitgauge.services.common.smallest import change_to_fit, helps_here, host_suffices, is_here
from fitgauge.services.common.token_prices import per_million
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.less_offloaded import nothing_offloaded
from fitgauge.services.fit.longer_models import LongerModels
from fitgauge.services.fit.quantized_repos import QuantizedRepos, wants_quantized_repos
from fitgauge.services.fit.service import FitService
from fitgauge.services.fit.suggest import in_order, with_host_in_words
from fitgauge.spans import span

if TYPE_CHECKING:
    from fitgauge.services.recommend.service import Recommender


def price_speeds(answer: FitAnswer, gpu: GpuMatch, catalog: Catalog) -> None:
    """Fill in what a million tokens of answers, or texts, cost at the speed of an answer, where
    the GPUs' rent is known."""
    if answer.gpu is None or (answer.speed is None and answer.texts is None):
        return
    node = node_size(gpu.accelerator, None)
    price = catalog.offers.price(gpu.accelerator.id, answer.gpu.count, None, node)
    if price is None:
        return
    low, high = price.usd_per_hour_low, price.usd_per_hour_high
    if answer.speed is not None and (tokens := answer.speed.tokens_per_second) is not None:
        answer.speed.usd_per_million_output_tokens = per_million(
            low, high, (tokens.low, tokens.expected, tokens.high)
        )
    if answer.texts is not None:
        texts = answer.texts.texts_per_second
        answer.texts.usd_per_million_texts = per_million(
            low, high, (texts.low, texts.expected, texts.high)
        )


class CacheDependencies(NamedTuple):
    """What an answer depends on: it is valid as long as these are current."""

    catalog: Catalog
    """The catalog of the answer."""
    text: str
    """The model as the request names it."""
    model: Model | None = None
    """None where the answer must not be cached."""
    engine: EngineName | None = None
    """Set where the answer depends on quantized repositories."""
    siblings: int | None = None
    """Serial number of the list of quantized repositories."""


class ServingQuestions:
    """Resolves what a serving question names, and lets the service answer it."""

    def __init__(self, models: ModelResolver, serving: FitService, long: LongQuestions) -> None:
        self._models = models
        self._serving = serving
        self._long = long
        self._turns = LoopTurns()
        self._siblings = QuantizedRepos(models)
        self._longer = LongerModels(models)
        self._smaller = SmallerModels(models)

    async def answer(
        self,
        request: FitRequest,
        catalog: Catalog,
        recommender: "Callable[[], Recommender]",
        *,
        elsewhere: bool,
    ) -> tuple[CacheDependencies, FitAnswer]:
        """Return the answer and what it depends on. Raises the errors of fitgauge.errors.
        recommender: gives the one of the catalog. elsewhere: whether smaller models and other
        GPUs are suggested where no change helps.

        Where the model does not surely fit, or no checkpoint is known in the format to serve, look
        up quantized repositories of it, briefly."""
        if request.gpu is None:
            return await self._needs(request, catalog, recommender())
        snapshot = self._models.snapshot
        gpu = find_gpu(catalog, snapshot, request.gpu, request.model, unlike=True)
        model = await self._models.find(request.model)
        filled = await self._with_draft_id(with_named_format(request, model))
        implied = (
            engine_of_name(request, model)
            or engine_of_format(filled, gpu)
            or engine_of_options(filled)
        )
        if implied is not None:
            filled = structs.replace(filled, engine=implied.value)
        if gpu.unlike and ENGINES[parsing.engine(filled.engine)].line_up is None:
            gpu = find_gpu(catalog, snapshot, request.gpu, request.model)
        with span("estimate", operation="check_fit"):
            dependencies, answer = await self._fit(filled, model, gpu, catalog)
        if elsewhere and not helps_here(answer.verdict, answer.suggestions):
            await self._add_others(answer, filled, model, gpu, recommender())
        price_speeds(answer, gpu, catalog)
        if implied is not None:
            answer.assumed = [implied, *answer.assumed]
        verdict_of = partial(self._verdict, filled, gpu)
        answer.read_as = [*model_readings(model, verdict_of, answer.verdict), *answer.read_as]
        return dependencies, answer

    async def _add_others(
        self,
        answer: FitAnswer,
        request: FitRequest,
        model: Model,
        gpu: GpuMatch,
        recommender: "Recommender",
    ) -> None:
        """Suggest a smaller model of the family on these GPUs, and other GPUs for this one, where
        the question has an answer on any; with nothing offloaded where the machine holds less."""
        lacks = lacks_host(answer.host_memory, request.host_memory_gib)
        sent = nothing_offloaded(request) if lacks else {}
        request = structs.replace(request, **sent)

        def others(checkpoint: Checkpoint) -> list[Suggestion]:
            smaller = self._serving.smaller_model(request, model, gpu, self._smaller, checkpoint)
            changes = [] if smaller is None else [smaller]
            with suppress(*IMPOSSIBLE):
                changes += recommender.elsewhere(request, model, checkpoint)
            return [structs.replace(one, request=sent | one.request) for one in changes]

        more = await self._long.run(others)
        here = answer.suggestions
        answer.suggestions = in_order(here, request, MOST_WITH_OTHERS, more)
        other = next((one for one in more if one.verdict == "fits"), None)
        if other is None or with_host_in_words(request, here):
            return
        if not change_to_fit(here, request.gpu_count or 1):
            answer.summary += f" To fit, {other.change}."
        elif is_here(other) and not any(map(host_suffices, here)):
            answer.summary += f" Or {other.change}."

    def _verdict(self, request: FitRequest, gpu: GpuMatch, name: str) -> Verdict | None:
        """Return the verdict of a question with another model; None where it has none."""
        model = self._models.bundled(name)
        if model is None:
            return None
        try:
            checked = self._serving.check(request, model, gpu)
        except (FitgaugeError, UnsupportedError):
            return None
        return "unsupported" if checked.refused else checked.verdict

    async def _fit(
        self, request: FitRequest, model: Model, gpu: GpuMatch, catalog: Catalog
    ) -> tuple[CacheDependencies, FitAnswer]:
        """Return the answer about a model and a GPU, and what it depends on."""
        dependencies = CacheDependencies(catalog, request.model)
        if request.draft_model:
            model = await self._drafted(model, request, request.draft_model)
        if not self._serving.is_prepared(request, model, gpu):
            await self._long.run(lambda _: self._serving.prepare(request, model, gpu))
        await self._turns.take()
        checked = self._serving.check(request, model, gpu)
        if checked.too_long:
            longer = self._longer.find(model, checked.workload.context_length)
            return dependencies._replace(model=model), self._serving.answer_for(checked, longer)
        if not self._serving.lacks_checkpoint(request, model, gpu) and (
            not wants_quantized_repos(model, parsing.quantization(request.quantization))
            or checked.verdict == "fits"
        ):
            smaller = () if request.quantization else self._siblings.smaller(model)
            answer = self._serving.answer_for(checked, smaller)
            return dependencies._replace(model=model), answer
        engine = parsing.engine(request.engine)
        siblings = await self._siblings.find(model, engine)
        dependencies = dependencies._replace(
            model=model, engine=engine, siblings=self._siblings.serial(model, engine)
        )
        if request.draft_model:
            siblings = tuple(
                [
                    one._replace(model=await self._drafted(one.model, request, request.draft_model))
                    for one in siblings
                ]
            )
        await self._turns.take()
        checked = self._serving.checked_with(checked, siblings)
        return dependencies, self._serving.answer_for(checked, siblings)

    async def _needs(
        self, request: FitRequest, catalog: Catalog, recommender: "Recommender"
    ) -> tuple[CacheDependencies, FitAnswer]:
        """Return what a model needs where no GPU is named. Raises the errors of
        fitgauge.errors."""
        dependencies = CacheDependencies(catalog, request.model)
        model = await self._models.find(request.model)
        filled = await self._with_draft_id(with_named_format(request, model))
        implied = engine_of_options(filled)
        if implied is not None:
            filled = structs.replace(filled, engine=implied.value)
        if filled.draft_model:
            model = await self._drafted(model, filled, filled.draft_model)
        answer = await self._long.run(
            lambda checkpoint: self._serving.needs(
                filled, model, lambda: recommender.smallest(filled, model, checkpoint)
            )
        )
        if implied is not None:
            answer.assumed = [implied, *answer.assumed]
        answer.read_as = [*model_readings(model, lambda _: None, answer.verdict), *answer.read_as]
        return dependencies._replace(model=model), answer

    async def _with_draft_id(self, request: FitRequest) -> FitRequest:
        """Return the question with the repository of its draft model, as the command names it.
        Raises the errors of fitgauge.errors, with `draft_model` as their field."""
        if not request.draft_model:
            return request
        try:
            draft = await self._models.find(request.draft_model)
        except FitgaugeError as error:
            error.field = "draft_model"
            raise
        return structs.replace(request, draft_model=draft.id)

    async def _drafted(self, model: Model, request: FitRequest, name: str) -> Model:
        """Return the model with its draft model, attached as the engine does, else as a default
        one does: a suggestion may change the engine. Raises the errors of fitgauge.errors."""
        draft = await self._models.find(name)
        engines = (parsing.engine(request.engine), *DEFAULT_ENGINES)
        attach = next(filter(None, (ENGINES[engine].with_draft for engine in engines)))
        return structs.replace(model, spec=attach(model.spec, draft.spec, draft.id))

    def holds(self, dependencies: CacheDependencies, model: Model | None) -> bool:
        """Return whether an answer is still valid. model: the one it was given from, or None where
        nothing else holds it in memory."""
        return (
            model is not None
            and self._models.peek(dependencies.text) is model
            and (
                dependencies.engine is None
                or self._siblings.serial(model, dependencies.engine) == dependencies.siblings
            )
        )

    async def close(self) -> None:
        """Stop the background work."""
        await self._siblings.close()
