"""Facade over all services, for the API and the terminal.

Each service is imported and built when a question first needs it: a command asks one question, and
all imports together take longer than its answer. The API builds them all at its start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from fitgauge.services.common import parsing
from fitgauge.services.common.answer_facts import AnswerAgain, AsOf
from fitgauge.services.common.answer_ids import read_answer_id
from fitgauge.services.common.answered import AnswerFacts, facts_of, note
from fitgauge.services.common.details import gpu_detail, model_detail
from fitgauge.services.common.gpu_schemas import GpuDetail, GpuList
from fitgauge.services.common.hub_names import HubNames
from fitgauge.services.common.long_questions import QUESTION_SECONDS, LongQuestions
from fitgauge.services.common.name_search import Names, search_names
from fitgauge.services.common.pages import take_page
from fitgauge.services.common.unsupported import as_invalid_request
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fit.service import FitService
from fitgauge.services.provenance import Provenance
from fitgauge.services.requests import LINKED
from fitgauge.services.serving_questions import CacheDependencies, ServingQuestions
from fitgauge.services.shared import Shared
from fitgauge.spans import span

if TYPE_CHECKING:
    from fitgauge.catalog.catalog import Catalog
    from fitgauge.catalog.engines import Engines
    from fitgauge.engine.model.model import Model
    from fitgauge.engine.serving.start_log.measurements import StartLog
    from fitgauge.services.ask.schemas import AskAnswer, AskRequest
    from fitgauge.services.ask.service import AskService
    from fitgauge.services.common.fit_schemas import FitAnswer
    from fitgauge.services.common.model_resolver import ModelResolver
    from fitgauge.services.common.model_schemas import ModelDetail
    from fitgauge.services.common.schemas import FitRequest
    from fitgauge.services.compare.schemas import CompareAnswer, CompareRequest, CompareRow
    from fitgauge.services.compare.service import Comparison
    from fitgauge.services.compare.tables import Tables
    from fitgauge.services.explain_log.schemas import ExplainLogRequest, LogAnswer
    from fitgauge.services.models_for_gpu.schemas import ModelsForGpuAnswer, ModelsForGpuRequest
    from fitgauge.services.models_for_gpu.service import ModelsForGpu
    from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
    from fitgauge.services.recommend.service import Recommender
    from fitgauge.services.run_questions import RunQuestions
    from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
    from fitgauge.services.training_plan.schemas import TrainingPlanAnswer, TrainingPlanRequest
    from fitgauge.services.training_questions import TrainingQuestions
    from fitgauge.services.utilization.schemas import UtilizationAnswer, UtilizationRequest

_FEW_FORMATS = 3
"""Formats of all bundled models that are estimated in well below a second."""


class Services:
    """Resolves what a question names and answers it."""

    def __init__(
        self,
        models: ModelResolver,
        engines: Engines,
        catalog: Catalog,
        question_seconds: float = QUESTION_SECONDS,
    ) -> None:
        """question_seconds: the processor time that a long question may take."""
        self._models = models
        self._engines = engines
        self._catalog = catalog
        self._hub_names = HubNames(models.hub)
        self._long = LongQuestions(question_seconds)
        checkpoints = Checkpoints(models)
        serving = FitService(engines, checkpoints)
        self._shared = Shared(models, engines, checkpoints, serving, self._long)
        self._questions = ServingQuestions(models, serving, self._long)
        self._provenance = Provenance(models.snapshot, engines)

    @cached_property
    def _training(self) -> TrainingQuestions:
        from fitgauge.services.training_questions import TrainingQuestions

        return TrainingQuestions(self._shared)

    @cached_property
    def _runs(self) -> RunQuestions:
        from fitgauge.services.run_questions import RunQuestions

        return RunQuestions(self._shared, self._training.fit)

    @cached_property
    def _models_for_gpu(self) -> ModelsForGpu:
        from fitgauge.services.models_for_gpu.service import ModelsForGpu

        return ModelsForGpu(self._engines, self._models.snapshot, self._shared.checkpoints)

    @cached_property
    def _tables(self) -> Tables:
        from fitgauge.services.compare.service import Comparer
        from fitgauge.services.compare.tables import Tables

        comparer = Comparer(self._engines, self._shared.checkpoints)
        return Tables(self._models, comparer, self._long)

    @cached_property
    def _recommender(self) -> Recommender:
        """Of the catalog in force."""
        from fitgauge.services.recommend.service import Recommender

        return Recommender(self._engines, self._catalog, self._shared.checkpoints)

    @cached_property
    def _ask(self) -> AskService:
        from fitgauge.services.ask.requests import REQUESTS
        from fitgauge.services.ask.service import AskService

        answers = {operation: self._answers[operation] for operation in REQUESTS}
        return AskService(self._models.snapshot, self._catalog, answers)

    @property
    def _answers(self) -> Mapping[str, Callable[[Any], Awaitable[Struct]]]:
        """What answers each operation."""
        return {
            "check_fit": self._fit_answer,
            "check_training_fit": self._training_answer,
            "recommend_gpus": self.recommend_gpus,
            "list_models_that_fit": self.list_models_that_fit,
            "compare_fit": self.compare_page,
            "plan_training": self._plan_answer,
            "explain_log": self.explain_log,
            "explain_utilization": self.explain_utilization,
        }

    def build(self) -> None:
        """Build every service now, so that no question waits for imports."""
        _ = self._runs, self._models_for_gpu, self._tables, self._recommender, self._ask

    def use(self, catalog: Catalog) -> None:
        """Switch to this catalog. Questions in progress finish with the previous one."""
        self._catalog = catalog
        vars(self).pop("_recommender", None)
        if "_ask" in vars(self):
            self._ask.use(catalog)

    def hold_model(self, text: str, model: Model) -> None:
        """Take a name for this model from now on."""
        self._models.hold(text, model)

    @property
    def catalog(self) -> Catalog:
        """The catalog in force."""
        return self._catalog

    def as_of(self) -> AsOf:
        """Return how old the facts in force are."""
        return self._provenance.as_of(self._catalog)

    @property
    def long_questions_under_way(self) -> int:
        """Number of long questions that wait or are computed."""
        return self._long.under_way

    @as_invalid_request
    async def check_fit(
        self, request: FitRequest, *, elsewhere: bool = True
    ) -> tuple[CacheDependencies, FitAnswer]:
        """Return the answer and what it depends on. elsewhere: whether other GPUs are suggested
        where no change helps on these. Raises the errors of fitgauge.errors."""
        catalog = self._catalog
        dependencies, answer = await self._questions.answer(
            request, catalog, lambda: self._recommender, elsewhere=elsewhere
        )
        self._provenance.link(answer, request, catalog)
        note(facts_of("check_fit", answer))
        return dependencies, answer

    @as_invalid_request
    async def check_training_fit(
        self, request: TrainingRequest
    ) -> tuple[CacheDependencies, TrainingAnswer]:
        """Return the answer about training and what it depends on. Raises the errors of
        fitgauge.errors."""
        catalog = self._catalog
        dependencies, answer = await self._training.check(request, catalog)
        self._provenance.link(answer, request, catalog)
        note(facts_of("check_training_fit", answer))
        return dependencies, answer

    @as_invalid_request
    async def plan_training(
        self, request: TrainingPlanRequest
    ) -> tuple[CacheDependencies, TrainingPlanAnswer]:
        """Return the layouts that train a model and what the answer depends on. Raises the errors
        of fitgauge.errors."""
        catalog = self._catalog
        dependencies, answer = await self._training.plan(request, catalog)
        self._provenance.link(answer, request, catalog)
        note(facts_of("plan_training", answer))
        return dependencies, answer

    async def ask(self, request: AskRequest) -> AskAnswer:
        """Return what a question in plain words means, and its answer. Raises QueueFullError."""
        catalog = self._catalog
        answer = await self._ask.answer(request)
        self._provenance.date(answer, catalog)
        return answer

    async def _fit_answer(self, request: FitRequest) -> FitAnswer:
        return (await self.check_fit(request))[1]

    async def _training_answer(self, request: TrainingRequest) -> TrainingAnswer:
        return (await self.check_training_fit(request))[1]

    async def _plan_answer(self, request: TrainingPlanRequest) -> TrainingPlanAnswer:
        return (await self.plan_training(request))[1]

    async def whole_comparison(self, request: CompareRequest) -> CompareAnswer:
        """Return all rows of a table at once. Raises the errors of fitgauge.errors."""
        return await self._tables.whole(await self.compare_fit(request))

    @as_invalid_request
    async def recommend_gpus(self, request: RecommendRequest) -> RecommendAnswer:
        """Return the GPUs to use for a model. Raises the errors of fitgauge.errors."""
        model, recommender = await self._models.find(request.model), self._recommender
        catalog, filled = self._catalog, request
        if request.quantization is None and model.named_format is not None:
            filled = structs.replace(request, quantization=model.named_format)
        with span("search", operation="recommend_gpus"):
            answer = await self._long.run(
                lambda checkpoint: recommender.answer(filled, model, checkpoint)
            )
        self._provenance.link(answer, request, catalog)
        note(facts_of("recommend_gpus", answer))
        return answer

    @as_invalid_request
    async def list_models_that_fit(self, request: ModelsForGpuRequest) -> ModelsForGpuAnswer:
        """Return the bundled models that run on a GPU. Raises the errors of fitgauge.errors."""
        catalog = self._catalog
        gpu = catalog.find(request.gpu)
        many = len(parsing.split_list(request.quantizations)) > _FEW_FORMATS
        large = many or request.quantizations is None
        with span("search", operation="list_models_that_fit"):
            answer = await self._long.run(
                lambda checkpoint: self._models_for_gpu.answer(request, gpu, checkpoint),
                large=large,
            )
        self._provenance.link(answer, request, catalog)
        return answer

    async def compare_fit(self, request: CompareRequest) -> Comparison:
        """Return the table, whose cells `rows` estimates. Raises the errors of fitgauge.errors."""
        return await self._tables.compare(request, self._catalog)

    def rows(self, comparison: Comparison) -> AsyncIterator[list[CompareRow]]:
        """Yield the rows of a table in batches, at the pace of its reader. Raises QueueFullError
        before the first."""
        return self._tables.rows(comparison)

    async def compare_page(self, request: CompareRequest) -> CompareAnswer:
        """Return a page of a table. Raises the errors of fitgauge.errors."""
        catalog = self._catalog
        with span("search", operation="compare_fit"):
            answer = await self._tables.page(request, catalog)
        self._provenance.link(answer, request, catalog)
        return answer

    @as_invalid_request
    async def explain_log(self, request: ExplainLogRequest) -> LogAnswer:
        """Compare what a start-up log measured with the estimate. Raises the errors of
        fitgauge.errors."""
        catalog = self._catalog
        answer = await self._runs.explain_log(request, catalog)
        self._provenance.date(answer, catalog)
        return answer

    @as_invalid_request
    async def explain_run(self, log: StartLog, request: ExplainLogRequest) -> LogAnswer:
        """Compare a run with its estimate, as `explain_log` does; `request.log` is not read."""
        return await self._runs.explain_run(log, request, self._catalog)

    @as_invalid_request
    async def explain_utilization(self, request: UtilizationRequest) -> UtilizationAnswer:
        """Return how much of its GPUs a training run uses. Raises the errors of fitgauge.errors."""
        catalog = self._catalog
        answer = await self._runs.explain_utilization(request, catalog)
        self._provenance.link(answer, request, catalog)
        return answer

    @as_invalid_request
    async def explain_trace(self, chunks: AsyncIterator[bytes]) -> UtilizationAnswer:
        """Return how the GPUs spend their time in a profiler trace, read in chunks. Raises
        InvalidRequestError where it is not a trace."""
        catalog = self._catalog
        answer = await self._runs.explain_trace(chunks, catalog)
        self._provenance.date(answer, catalog)
        return answer

    def holds(self, dependencies: CacheDependencies, model: Model | None) -> bool:
        """Return whether an answer is still valid. model: the one it was given from, or None where
        nothing else holds it in memory."""
        return dependencies.catalog is self._catalog and self._questions.holds(dependencies, model)

    async def close(self) -> None:
        """Stop the background work."""
        self._long.close()
        await self._questions.close()
        await self._hub_names.close()

    async def answer_again(self, answer_id: str) -> AnswerAgain:
        """Return the answer of a permalink, computed again. Raises UnknownAnswerError, and the
        errors of fitgauge.errors."""
        operation, request = read_answer_id(answer_id, LINKED)
        answer = await self._answers[operation](request)
        fields = msgspec.to_builtins(request)
        sent = {name: value for name, value in fields.items() if value is not None}
        return AnswerAgain(operation, sent, msgspec.to_builtins(answer))

    @as_invalid_request
    async def get_model(self, name: str) -> ModelDetail:
        """Return what a model is made of."""
        answer = model_detail(await self._models.find(name))
        self._provenance.date(answer, self._catalog)
        note(AnswerFacts(answer.id, None))
        return answer

    def list_gpus(self, limit: int, offset: int) -> GpuList:
        """Return a page of the catalog."""
        rows, offers = self._catalog.all(), self._catalog.offers
        items, following = take_page(
            rows[offset:], limit, offset, len(rows), lambda row: gpu_detail(row, offers, full=False)
        )
        return GpuList(items=items, total=len(rows), next_offset=following, as_of=self.as_of())

    async def search_names(self, text: str, hub: bool = False) -> Names:
        """Return the bundled models and the GPUs whose names hold every word of a text; `hub`:
        what the Hub lists for it too."""
        names = search_names(text, self._models.snapshot.ids(), self._catalog.all())
        if hub:
            listed = await self._hub_names.find(text)
            names.hub = [name for name in listed if name not in names.models]
        return names

    def get_gpu(self, text: str) -> GpuDetail:
        """Return one accelerator by its id or any usual name. Raises
        UnknownAcceleratorError."""
        answer = gpu_detail(self._catalog.find(text).accelerator, self._catalog.offers, full=True)
        self._provenance.date(answer, self._catalog)
        return answer
