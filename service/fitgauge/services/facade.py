"""Questions: the one door to every answer, for the API, the terminal and whoever else asks."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple
from weakref import ref

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.training import load_training
from fitgauge.engine.model.spec import Model
from fitgauge.engine.serving.vllm.speculative import with_draft
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import FitgaugeError
from fitgauge.logs.trace import TraceReader
from fitgauge.services.common import parsing as words
from fitgauge.services.common.details import gpu_detail, model_detail
from fitgauge.services.common.gpu_schemas import GpuDetail, GpuList
from fitgauge.services.common.long_questions import (
    QUESTION_SECONDS,
    Checkpoint,
    LongQuestions,
    queue_full,
)
from fitgauge.services.common.lru_cache import LruCacheBytes
from fitgauge.services.common.model_resolver import ModelResolver
from fitgauge.services.common.schemas import FitAnswer, FitRequest, ModelDetail
from fitgauge.services.compare.schemas import CompareRequest, CompareRow
from fitgauge.services.compare.service import Comparer, Comparison, cells
from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
from fitgauge.services.explain_log.service import LogExplainer, read
from fitgauge.services.fit.quantized_repos import QuantizedRepos, wants_quantized_repos
from fitgauge.services.fit.service import FitService
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer, ModelsForGpuRequest
from fitgauge.services.models_for_gpu.service import ModelsForGpu
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.recommend.service import Recommender
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
"""Rows of a comparison made in one go: some ten milliseconds."""

_OPEN_TABLES = 32
"""Tables that are read at once. One takes up to 1 MiB between its rows, for as long as its
reader waits."""

_FEW_FORMATS = 3
"""Formats of all bundled models that are estimated in well below a second."""
_CACHE_BYTES, _LARGEST_ENTRY, _ENTRY_OVERHEAD = 16 * 2**20, 256 * 2**10, 1024
"""Bytes of the cache of encoded answers: of all entries, of the largest that is stored, and what
an entry takes in addition to its question and its answer (tuples, strings, hash table; rounded
up)."""


class CacheDependencies(NamedTuple):
    """What an answer rests on: it holds for as long as these are what is known. siblings: the
    number of those that were known."""

    catalog: Catalog
    text: str
    model: Model | None = None
    engine: EngineName | None = None
    siblings: int | None = None


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
        self._engines = engines
        self._serving = FitService(engines)
        self._ledger = LogExplainer(self._serving)
        self._training = TrainingFitService(load_training(), engines)
        self._comparer = Comparer(engines)
        self._models_for_gpu = ModelsForGpu(engines, models.snapshot)
        self._long = LongQuestions(question_seconds)
        self._open_tables = asyncio.Semaphore(_OPEN_TABLES)
        self._planner = Planner(load_training())
        self._answers: LruCacheBytes[tuple[CacheDependencies, ref[Model], bytes]] = LruCacheBytes(
            _CACHE_BYTES, _LARGEST_ENTRY
        )
        self.use(catalog)

    def use(self, catalog: Catalog) -> None:
        """From now on answers are given from this catalog; questions under way keep the one they
        began with."""
        self._catalog = catalog
        self._recommender = Recommender(self._engines, catalog)

    @property
    def catalog(self) -> Catalog:
        """The catalog that is in force."""
        return self._catalog

    @property
    def long_questions_under_way(self) -> int:
        """How many long questions wait or are computed."""
        return self._long.under_way

    async def check_fit(self, request: FitRequest) -> tuple[CacheDependencies, FitAnswer]:
        """Return the answer, and what it rests on. Raises the errors of fitgauge.errors.

        Where the model does not fit for certain, published quantized siblings of it are looked
        up for a short while."""
        grounds, found = (
            CacheDependencies(self._catalog, request.model),
            self._catalog.find(request.gpu),
        )
        model = await self._models.find(request.model)
        if request.draft_model:
            model = await self._drafted(model, request.draft_model)
        if not self._serving.is_prepared(request, model, found):
            await self._long.run(lambda _: self._serving.prepare(request, model, found))
        if (
            not wants_quantized_repos(model, request.quantization)
            or self._serving.check(request, model, found).verdict == "fits"
        ):
            return grounds._replace(model=model), self._serving.answer(request, model, found)
        engine = words.engine(request.engine)
        siblings = await self._siblings.find(model, engine)
        grounds = grounds._replace(
            model=model, engine=engine, siblings=self._siblings.serial(model, engine)
        )
        if request.draft_model:
            siblings = tuple(
                [
                    one._replace(model=await self._drafted(one.model, request.draft_model))
                    for one in siblings
                ]
            )
        return grounds, self._serving.answer(request, model, found, siblings)

    async def _drafted(self, model: Model, name: str) -> Model:
        """Return the model with its draft model. Raises the errors of fitgauge.errors, which
        then speak of `draft_model`."""
        try:
            draft = await self._models.find(name)
        except FitgaugeError as error:
            error.field = "draft_model"
            raise
        return structs.replace(model, spec=with_draft(model.spec, draft.spec, draft.id))

    async def check_training_fit(
        self, request: TrainingRequest
    ) -> tuple[CacheDependencies, TrainingAnswer]:
        """Return the answer about training, and what it rests on. Raises the errors of
        fitgauge.errors."""
        grounds, found = (
            CacheDependencies(self._catalog, request.model),
            self._catalog.find(request.gpu),
        )
        model = await self._models.find(request.model)
        cast = await self._cast(request)
        alone = cast.reward is None and cast.critic is None
        answer = await self._long.run(
            lambda checkpoint: self._training.with_checkpoint(checkpoint).answer(
                request, model, found, cast
            )
        )
        # An answer that depends on further models is not cached: those may have changed.
        return grounds._replace(model=model if alone else None), answer

    async def _cast(self, request: TrainingRequest) -> RlModels:
        """Return the reward model and the critic that a request names. Raises the errors of
        fitgauge.errors."""
        names = (named_model(request.reward_model), named_model(request.critic_model))
        reward, critic = [await self._models.find(name) if name else None for name in names]
        return RlModels(reward, critic)

    async def plan_training(
        self, request: TrainingPlanRequest
    ) -> tuple[CacheDependencies, TrainingPlanAnswer]:
        """Return the layouts that train a model, and what the answer rests on. Raises the errors
        of fitgauge.errors."""
        grounds, found = (
            CacheDependencies(self._catalog, request.model),
            self._catalog.find(request.gpu),
        )
        model = await self._models.find(request.model)
        answer = await self._long.run(
            lambda checkpoint: self._planner.answer(request, model, found, checkpoint)
        )
        return grounds._replace(model=model), answer

    async def recommend_gpus(self, request: RecommendRequest) -> RecommendAnswer:
        """Return what to serve a model on. Raises the errors of fitgauge.errors."""
        model, recommender = await self._models.find(request.model), self._recommender
        return await self._long.run(
            lambda checkpoint: recommender.answer(request, model, checkpoint)
        )

    async def list_models_that_fit(self, request: ModelsForGpuRequest) -> ModelsForGpuAnswer:
        """Return which bundled models run on a card. Raises the errors of fitgauge.errors."""
        found = self._catalog.find(request.gpu)
        large = len(words.split_list(request.quantizations)) > _FEW_FORMATS
        return await self._long.run(
            lambda checkpoint: self._models_for_gpu.answer(request, found, checkpoint), large=large
        )

    async def compare_fit(self, request: CompareRequest) -> Comparison:
        """Return the table that is meant, to be filled by `rows`. Raises the errors of
        fitgauge.errors."""
        gpus = [self._catalog.find(text) for text in words.split_list(request.gpus)]
        names = words.split_list(request.models)
        cells(len(names), len(gpus), 1)
        return self._comparer.compare(
            request, await asyncio.gather(*map(self._models.find, names)), gpus
        )

    async def rows(self, comparison: Comparison) -> AsyncIterator[list[CompareRow]]:
        """Yield the rows of a table as they are made, a few at a time, so that they wait for a
        slow reader. Raises QueueFullError before the first."""
        if self._open_tables.locked():
            raise queue_full()
        async with self._open_tables:
            some = await self._long.run(lambda checkpoint: comparison.take(_ROWS, checkpoint))
            while some:
                yield some
                some = await self._long.resume(
                    lambda checkpoint: comparison.take(_ROWS, checkpoint)
                )

    async def explain_log(self, request: ExplainLogRequest) -> LogAnswer:
        """Return what a start-up log measured, compared with the estimate. Raises
        the errors of fitgauge.errors."""
        reading = await self._long.run(lambda _: read(request, self._engines))
        asked, full = reading.asked, request.detail == "full"
        if asked is None:
            return self._ledger.answer(reading, None, None, full=full)
        found = self._catalog.find(asked.gpu)
        model = await self._models.find(asked.model)
        return await self._long.resume(
            lambda _: self._ledger.answer(reading, model, found, full=full)
        )

    async def explain_utilization(self, request: UtilizationRequest) -> UtilizationAnswer:
        """Return how much of its GPUs a training run uses. Raises the errors of fitgauge.errors."""
        found, model = self._catalog.find(request.gpu), None
        if request.model is not None:
            model = await self._models.find(request.model)
        return explain_utilization(request, model, found)

    async def explain_trace(self, chunks: AsyncIterator[bytes]) -> UtilizationAnswer:
        """Return where the GPUs' time goes in a profiler's trace, read as it comes in. Raises
        InvalidRequestError for what is no trace."""
        reader = TraceReader()
        async for chunk in chunks:
            await self._long.resume(partial(_feed, reader, chunk))
        return explain_trace(await self._long.resume(lambda _: reader.finish()), self._catalog)

    def recall(self, asked: tuple[str, bytes]) -> bytes | None:
        """Return the encoded answer to these very bytes of this question, where what it rests on
        is still what is known; else None."""
        kept = self._answers.get(asked)
        if kept is None:
            return None
        grounds, model_in_memory, answer = kept
        model = model_in_memory()
        if (
            grounds.catalog is not self._catalog
            or model is None
            or self._models.peek(grounds.text) is not model
        ):
            return None
        if (
            grounds.engine is not None
            and self._siblings.serial(model, grounds.engine) != grounds.siblings
        ):
            return None
        return answer

    def remember(
        self, asked: tuple[str, bytes], grounds: CacheDependencies, answer: bytes
    ) -> bytes:
        """Store an encoded answer for `recall`, and return it. It does not keep its model in
        memory."""
        if grounds.model is not None:
            size = len(asked[1]) + len(answer) + _ENTRY_OVERHEAD
            self._answers.put(
                asked, (grounds._replace(model=None), ref(grounds.model), answer), size
            )
        return answer

    async def close(self) -> None:
        """End what goes on in the background."""
        self._long.close()
        await self._siblings.close()

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

    def get_gpu(self, text: str) -> GpuDetail:
        """Return one accelerator, by id or by what people call it. Raises
        UnknownAcceleratorError."""
        return gpu_detail(self._catalog.find(text).accelerator, self._catalog.offers, full=True)


def _feed(reader: TraceReader, chunk: bytes, _: Checkpoint) -> None:
    reader.feed(chunk)
