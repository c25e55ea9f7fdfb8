"""Facade over all services, for the API and the terminal."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.spec import Model
from fitgauge.engine.serving.registry import DEFAULT_ENGINES, ENGINES
from fitgauge.engine.serving.workload import EngineName
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.errors import FitgaugeError, HubError, ModelError, UnknownAcceleratorError
from fitgauge.logs.trace import TraceReader
from fitgauge.services.ask.schemas import AskAnswer, AskRequest
from fitgauge.services.ask.service import AskService
from fitgauge.services.common import parsing as words
from fitgauge.services.common.details import gpu_detail, model_detail
from fitgauge.services.common.fit_schemas import FitAnswer
from fitgauge.services.common.gpu_schemas import GpuDetail, GpuList
from fitgauge.services.common.long_questions import (
    QUESTION_SECONDS,
    Checkpoint,
    LongQuestions,
    queue_full,
)
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.model_schemas import ModelDetail
from fitgauge.services.common.name_readings import (
    find_gpu,
    gguf_engine,
    model_readings,
    with_gguf_engine,
    with_named_format,
)
from fitgauge.services.common.name_search import Names, search_names
from fitgauge.services.common.schemas import FitRequest, Verdict
from fitgauge.services.common.unsupported import as_invalid_request
from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
from fitgauge.services.compare.service import Comparer, Comparison, cells
from fitgauge.services.explain_log.parsed_log import RAN_OUT, read, without_names
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.explain_log.service import LogExplainer
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fit.longer_models import LongerModels
from fitgauge.services.fit.quantized_repos import QuantizedRepos, wants_quantized_repos
from fitgauge.services.fit.service import FitService
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer, ModelsForGpuRequest
from fitgauge.services.models_for_gpu.service import ModelsForGpu
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.recommend.service import Recommender
from fitgauge.services.recommend.smallest_training import smallest_training
from fitgauge.services.training_fit.rl_models import RlModels
from fitgauge.services.training_fit.rl_setup import named_model
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService
from fitgauge.services.training_plan.schemas import TrainingPlanAnswer, TrainingPlanRequest
from fitgauge.services.training_plan.service import Planner
from fitgauge.services.utilization.schemas import UtilizationAnswer, UtilizationRequest
from fitgauge.services.utilization.service import explain_utilization
from fitgauge.services.utilization.trace import explain_trace

_ROWS = 100
"""Rows of a table that are estimated at once: some ten milliseconds."""

_OPEN_TABLES = 16
"""Tables read at once. One took some 0.7 MiB between its rows, for as long as its
reader waits."""

_FEW_FORMATS = 3
"""Formats of all bundled models that are estimated in well below a second."""


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


class Services:
    """Resolves what a question names and answers it."""

    def __init__(
        self,
        models: ModelResolver,
        engines: Engines,
        catalog: Catalog,
        question_seconds: float = QUESTION_SECONDS,
    ) -> None:
        """question_seconds: the longest that a long question may take."""
        self._models = models
        self._siblings = QuantizedRepos(models)
        self._longer = LongerModels(models)
        self._checkpoints = Checkpoints(models)
        self._engines = engines
        self._serving = FitService(engines, self._checkpoints)
        self._training = TrainingFitService(load_training(), engines)
        self._ledger = LogExplainer(self._serving, self._training)
        self._comparer = Comparer(engines, self._checkpoints)
        self._models_for_gpu = ModelsForGpu(engines, models.snapshot, self._checkpoints)
        self._long = LongQuestions(question_seconds)
        self._open_tables = asyncio.Semaphore(_OPEN_TABLES)
        self._planner = Planner(load_training())
        self._ask = AskService(
            models.snapshot,
            catalog,
            {
                "check_fit": self._fit_answer,
                "check_training_fit": self._training_answer,
                "recommend_gpus": self.recommend_gpus,
                "list_models_that_fit": self.list_models_that_fit,
                "compare_fit": self.whole_comparison,
                "plan_training": self._plan_answer,
                "explain_log": self.explain_log,
            },
        )
        self.use(catalog)

    def use(self, catalog: Catalog) -> None:
        """Switch to this catalog. Questions in progress finish with the previous one."""
        self._catalog = catalog
        self._recommender = Recommender(self._engines, catalog, self._checkpoints)
        self._ask.use(catalog)

    @property
    def catalog(self) -> Catalog:
        """The catalog in force."""
        return self._catalog

    @property
    def long_questions_under_way(self) -> int:
        """Number of long questions that wait or are computed."""
        return self._long.under_way

    @as_invalid_request
    async def check_fit(self, request: FitRequest) -> tuple[CacheDependencies, FitAnswer]:
        """Return the answer and what it depends on. Raises the errors of fitgauge.errors.

        Where the model does not surely fit, or no checkpoint is known in the format to serve, look
        up quantized repositories of it, briefly."""
        if request.gpu is None:
            return await self._serving_needs(request)
        gpu = self._gpu(request.gpu, request.model, unlike=True)
        model = await self._models.find(request.model)
        filled = with_gguf_engine(with_named_format(request, model), model)
        if gpu.unlike and ENGINES[words.engine(filled.engine)].line_up is None:
            gpu = self._gpu(request.gpu, request.model)
        dependencies, answer = await self._fit(filled, model, gpu)
        if filled.engine is not None and request.engine is None:
            answer.assumed = [gguf_engine(filled.engine), *answer.assumed]
        verdict_of = partial(self._verdict, filled, gpu)
        answer.read_as = [*model_readings(model, verdict_of, answer.verdict), *answer.read_as]
        return dependencies, answer

    def _gpu(self, gpu: str, model: str, *, unlike: bool = False) -> GpuMatch:
        """Return the GPU that is meant. unlike: also GPUs of several kinds. Raises the errors of
        fitgauge.errors."""
        return find_gpu(self._catalog, self._models.snapshot, gpu, model, unlike=unlike)

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
        self, request: FitRequest, model: Model, gpu: GpuMatch
    ) -> tuple[CacheDependencies, FitAnswer]:
        """Return the answer about a model and a GPU, and what it depends on."""
        dependencies = CacheDependencies(self._catalog, request.model)
        if request.draft_model:
            model = await self._drafted(model, request, request.draft_model)
        if not self._serving.is_prepared(request, model, gpu):
            await self._long.run(lambda _: self._serving.prepare(request, model, gpu))
        checked = self._serving.check(request, model, gpu)
        if checked.too_long:
            longer = self._longer.find(model, checked.workload.context_length)
            return dependencies._replace(model=model), self._serving.answer_for(checked, longer)
        if not self._serving.lacks_checkpoint(request, model, gpu) and (
            not wants_quantized_repos(model, words.quantization(request.quantization))
            or checked.verdict == "fits"
        ):
            return dependencies._replace(model=model), self._serving.answer_for(checked)
        engine = words.engine(request.engine)
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
        checked = self._serving.checked_with(checked, siblings)
        return dependencies, self._serving.answer_for(checked, siblings)

    async def _serving_needs(self, request: FitRequest) -> tuple[CacheDependencies, FitAnswer]:
        """Return what a model needs where no GPU is named. Raises the errors of
        fitgauge.errors."""
        dependencies = CacheDependencies(self._catalog, request.model)
        model = await self._models.find(request.model)
        filled = with_named_format(request, model)
        if filled.draft_model:
            model = await self._drafted(model, filled, filled.draft_model)
        recommender = self._recommender
        answer = await self._long.run(
            lambda checkpoint: self._serving.needs(
                filled, model, lambda: recommender.smallest(filled, model, checkpoint)
            )
        )
        answer.read_as = [
            *model_readings(model, lambda _: None, answer.verdict),
            *answer.read_as,
        ]
        return dependencies._replace(model=model), answer

    async def _drafted(self, model: Model, request: FitRequest, name: str) -> Model:
        """Return the model with its draft model, attached as the engine does, else as a default
        one does: a suggestion may change the engine. Raises the errors of fitgauge.errors, with
        `draft_model` as their field."""
        try:
            draft = await self._models.find(name)
        except FitgaugeError as error:
            error.field = "draft_model"
            raise
        engines = (words.engine(request.engine), *DEFAULT_ENGINES)
        attach = next(filter(None, (ENGINES[engine].with_draft for engine in engines)))
        return structs.replace(model, spec=attach(model.spec, draft.spec, draft.id))

    @as_invalid_request
    async def check_training_fit(
        self, request: TrainingRequest
    ) -> tuple[CacheDependencies, TrainingAnswer]:
        """Return the answer about training and what it depends on. Raises the errors of
        fitgauge.errors."""
        dependencies = CacheDependencies(self._catalog, request.model)
        gpu = None if request.gpu is None else self._gpu(request.gpu, request.model)
        model = await self._models.find(request.model)
        rl_models = await self._rl_models(request)
        alone = rl_models.reward is None and rl_models.critic is None

        def answers(checkpoint: Checkpoint) -> TrainingAnswer:
            training = self._training.with_checkpoint(checkpoint)
            if gpu is not None:
                return training.answer(request, model, gpu, rl_models)
            judged = training.alone(request, model, rl_models)
            smallest = smallest_training(
                request, model, rl_models, judged.main, training, dependencies.catalog
            )
            return training.needs(request, model, judged, smallest, rl_models)

        answer = await self._long.run(answers)
        answer.read_as = [
            *model_readings(model, lambda _: None, answer.verdict),
            *answer.read_as,
        ]
        # An answer that depends on further models is not cached: their validity is not checked.
        return dependencies._replace(model=model if alone else None), answer

    async def _rl_models(self, request: TrainingRequest) -> RlModels:
        """Return the reward model and the critic that a request names. Raises the errors of
        fitgauge.errors."""
        names = (named_model(request.reward_model), named_model(request.critic_model))
        reward, critic = [await self._models.find(name) if name else None for name in names]
        return RlModels(reward, critic)

    @as_invalid_request
    async def plan_training(
        self, request: TrainingPlanRequest
    ) -> tuple[CacheDependencies, TrainingPlanAnswer]:
        """Return the layouts that train a model and what the answer depends on. Raises the errors
        of fitgauge.errors."""
        dependencies = CacheDependencies(self._catalog, request.model)
        gpu = self._gpu(request.gpu, request.model)
        model = await self._models.find(request.model)
        answer = await self._long.run(
            lambda checkpoint: self._planner.answer(request, model, gpu, checkpoint)
        )
        return dependencies._replace(model=model), answer

    async def ask(self, request: AskRequest) -> AskAnswer:
        """Return what a question in plain words means, and its answer. Raises QueueFullError."""
        return await self._ask.answer(request)

    async def _fit_answer(self, request: FitRequest) -> FitAnswer:
        return (await self.check_fit(request))[1]

    async def _training_answer(self, request: TrainingRequest) -> TrainingAnswer:
        return (await self.check_training_fit(request))[1]

    async def _plan_answer(self, request: TrainingPlanRequest) -> TrainingPlanAnswer:
        return (await self.plan_training(request))[1]

    async def whole_comparison(self, request: CompareRequest) -> CompareAnswer:
        """Return all rows of a table at once. Raises the errors of fitgauge.errors."""
        comparison = await self.compare_fit(request)
        return CompareAnswer(
            items=[row async for some in self.rows(comparison) for row in some],
            total=comparison.total,
        )

    @as_invalid_request
    async def recommend_gpus(self, request: RecommendRequest) -> RecommendAnswer:
        """Return the GPUs to use for a model. Raises the errors of fitgauge.errors."""
        model, recommender = await self._models.find(request.model), self._recommender
        if request.quantization is None and model.named_format is not None:
            request = structs.replace(request, quantization=model.named_format)
        return await self._long.run(
            lambda checkpoint: recommender.answer(request, model, checkpoint)
        )

    @as_invalid_request
    async def list_models_that_fit(self, request: ModelsForGpuRequest) -> ModelsForGpuAnswer:
        """Return the bundled models that run on a GPU. Raises the errors of fitgauge.errors."""
        gpu = self._catalog.find(request.gpu)
        many = len(words.split_list(request.quantizations)) > _FEW_FORMATS
        large = many or request.quantizations is None
        return await self._long.run(
            lambda checkpoint: self._models_for_gpu.answer(request, gpu, checkpoint), large=large
        )

    @as_invalid_request
    async def compare_fit(self, request: CompareRequest) -> Comparison:
        """Return the table, whose cells `rows` estimates. Raises the errors of fitgauge.errors."""
        gpus = [self._catalog.find(text) for text in words.split_list(request.gpus)]
        names = words.split_list(request.models)
        cells(len(names), len(gpus), 1)
        return self._comparer.compare(
            request, await asyncio.gather(*map(self._models.find, names)), gpus
        )

    async def rows(self, comparison: Comparison) -> AsyncIterator[list[CompareRow]]:
        """Yield the rows of a table in batches, at the pace of its reader. Raises QueueFullError
        before the first."""
        if self._open_tables.locked():
            raise queue_full()
        async with self._open_tables:
            some = await self._long.run(lambda checkpoint: comparison.take(_ROWS, checkpoint))
            while some:
                yield some
                some = await self._long.resume(
                    lambda checkpoint: comparison.take(_ROWS, checkpoint)
                )

    @as_invalid_request
    async def explain_log(self, request: ExplainLogRequest) -> LogAnswer:
        """Compare what a start-up log measured with the estimate. Raises the errors of
        fitgauge.errors."""
        reading = await self._long.run(lambda _: read(request, self._engines))
        launched, full = reading.serving or reading.training, request.detail == "full"
        if launched is None:
            return self._ledger.answer(reading, None, None, full=full)
        try:
            gpu = self._catalog.find(launched.gpu or "")
        except UnknownAcceleratorError:
            if request.gpu or reading.log.outcome not in RAN_OUT:
                raise
            return self._ledger.answer(without_names(reading, "gpu"), None, None, full=full)
        try:
            model = await self._models.find(launched.model)
        except (ModelError, HubError):
            if request.model or reading.log.outcome not in RAN_OUT:
                raise
            return self._ledger.answer(without_names(reading, "model"), None, None, full=full)
        return await self._long.resume(
            lambda _: self._ledger.answer(reading, model, gpu, full=full)
        )

    @as_invalid_request
    async def explain_utilization(self, request: UtilizationRequest) -> UtilizationAnswer:
        """Return how much of its GPUs a training run uses. Raises the errors of fitgauge.errors."""
        gpu = self._catalog.find(request.gpu)
        model = None
        if request.model is not None:
            model = await self._models.find(request.model)
        return explain_utilization(request, model, gpu)

    @as_invalid_request
    async def explain_trace(self, chunks: AsyncIterator[bytes]) -> UtilizationAnswer:
        """Return how the GPUs spend their time in a profiler trace, read in chunks. Raises
        InvalidRequestError where it is not a trace."""
        reader = TraceReader()
        async for chunk in chunks:
            await self._long.resume(partial(_feed, reader, chunk))
        return explain_trace(await self._long.resume(lambda _: reader.finish()), self._catalog)

    def holds(self, dependencies: CacheDependencies, model: Model | None) -> bool:
        """Return whether an answer is still valid. model: the one it was given from, or None where
        nothing else holds it in memory."""
        return (
            model is not None
            and dependencies.catalog is self._catalog
            and self._models.peek(dependencies.text) is model
            and (
                dependencies.engine is None
                or self._siblings.serial(model, dependencies.engine) == dependencies.siblings
            )
        )

    async def close(self) -> None:
        """Stop the background work."""
        self._long.close()
        await self._siblings.close()

    @as_invalid_request
    async def get_model(self, name: str) -> ModelDetail:
        """Return what a model is made of."""
        return model_detail(await self._models.find(name))

    def list_gpus(self, limit: int, offset: int) -> GpuList:
        """Return a page of the catalog."""
        rows, offers = self._catalog.all(), self._catalog.offers
        return GpuList(
            items=[gpu_detail(row, offers, full=False) for row in rows[offset : offset + limit]],
            total=len(rows),
        )

    def search_names(self, text: str) -> Names:
        """Return the bundled models and the GPUs whose names hold every word of a text."""
        return search_names(text, self._models.snapshot.ids(), self._catalog.all())

    def get_gpu(self, text: str) -> GpuDetail:
        """Return one accelerator by its id or any usual name. Raises
        UnknownAcceleratorError."""
        return gpu_detail(self._catalog.find(text).accelerator, self._catalog.offers, full=True)


def _feed(reader: TraceReader, chunk: bytes, _: Checkpoint) -> None:
    reader.feed(chunk)
