"""recommend_gpus: what should this model be served on? For training see training.py."""

from collections.abc import Callable, Iterator

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.training import load_training
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.model import Model
from fitgauge.engine.serving.language_model import language_model
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.common.schemas import FitRequest, Suggestion
from fitgauge.services.common.weight_cache import WeightCache
from fitgauge.services.fit.batch_estimator import BatchEstimator
from fitgauge.services.fit.checkpoints import Checkpoints
from fitgauge.services.fit.estimate import Estimator
from fitgauge.services.fit.workload import context_length_of
from fitgauge.services.recommend import candidates as choices
from fitgauge.services.recommend import objectives as orders
from fitgauge.services.recommend.constraints import limits
from fitgauge.services.recommend.costs import Costs, clouds
from fitgauge.services.recommend.echo import serving_fields
from fitgauge.services.recommend.elsewhere import as_suggestion, worth_naming
from fitgauge.services.recommend.gpu_options import GpuLimit, GpuPool, Plan
from fitgauge.services.recommend.no_options import no_option
from fitgauge.services.recommend.pages import page_of
from fitgauge.services.recommend.prefill import Prompts
from fitgauge.services.recommend.responses import ResponseBuilder, measurements
from fitgauge.services.recommend.schemas import Objective, RecommendAnswer, RecommendRequest
from fitgauge.services.recommend.search import Option, Search, SearchFilter
from fitgauge.services.recommend.shortlist import shortlist
from fitgauge.services.recommend.smallest import recommend_requests, smallest_gpus, smallest_options
from fitgauge.services.recommend.task_fields import refuse_other_fields
from fitgauge.services.recommend.training import TrainingRecommender
from fitgauge.services.recommend.warnings import serving_warnings

_FEW_BITS = "int4"
"""The format of the fewest bits that models are usually served in; of a file Q4_K_M."""

_FEWEST_AT_ONCE = 256
"""Requests that vLLM runs at once on its smallest GPUs, where nothing is said. Source:
engine/serving/vllm/defaults.py."""


class Recommender:
    """Searches the GPUs of a catalog for one model. Arithmetic alone; tens of milliseconds, so
    not for an event loop."""

    def __init__(
        self, engines: Engines, catalog: Catalog, checkpoints: Checkpoints | None = None
    ) -> None:
        """checkpoints: the published repositories that options may load."""
        self._engines = engines
        self._checkpoints = checkpoints
        self._catalog = catalog
        self._preparer = WeightCache()
        self._estimator = Estimator(engines, checkpoints, self._preparer)
        self._by_clouds: Memo[object, Costs] = Memo(16)
        self._pools: Memo[object, tuple[list[GpuLimit], GpuPool]] = Memo(4)
        self._training = TrainingRecommender(load_training(), catalog)

    def answer(
        self, request: RecommendRequest, model: Model, checkpoint: Checkpoint = no_checkpoint
    ) -> RecommendAnswer:
        """Return the Pareto set, ordered. Raises InvalidRequestError where nothing is left,
        naming the constraint that empties the set."""
        objective = orders.objective(request.objective)
        refuse_other_fields(request)
        if request.task == "training":
            trained = self._training.answer(request, model, objective, checkpoint)
            return structs.replace(
                trained,
                warnings=[*trained.warnings, *choices.quota_warnings(request, self._catalog)],
            )
        model = _served(request, model)
        fitting = BatchEstimator(
            model, self._engines, self._preparer, checkpoint, self._checkpoints
        )
        front = self.front(request, model, fitting)
        for other in _others(request, model) if not front else ():
            if front := self.front(other, model, fitting):
                request = other
                break
        if not front:
            raise self._no_option(request, model, fitting)
        front.sort(key=orders.order(objective))
        prompts = self._prompts(request, model, fitting)
        responses = self._responses(request, model, objective, prompts, fitting)
        picks = shortlist(
            front,
            objective,
            lambda plan: fitting.formats.has_checkpoint(plan.quantization, plan.engine),
        )
        options = [responses.pick(pick) for pick in picks]
        items, following = page_of(request, front, responses.recommendation)
        start = request.offset or 0
        page = front[start : start + len(items)]
        return RecommendAnswer(
            summary=responses.summary(picks, options, len(front)),
            model=answers.model_answer(model),
            objective=objective,
            options=options,
            items=items,
            total=len(front),
            next_offset=following,
            measurements=measurements(
                option.plan for option in (*(pick.option for pick in picks), *page)
            ),
            warnings=[
                *serving_warnings(request, model, front, [*options, *items]),
                *choices.quota_warnings(request, self._catalog),
            ],
            understood_as=serving_fields(request, model, front[0], objective, prompts.tokens),
        )

    def smallest(
        self, fit: FitRequest, model: Model, checkpoint: Checkpoint = no_checkpoint
    ) -> list[SmallestGpus]:
        """Return the fewest, the cheapest and the fastest GPUs that hold the workload of a
        question without a GPU: of those that are rented out, else of those sold, else of all.
        Raise InvalidRequestError where the question is impossible."""
        model = _served(fit, model)
        fitting = BatchEstimator(
            model, self._engines, self._preparer, checkpoint, self._checkpoints
        )
        for request in recommend_requests(fit):
            if options := smallest_options(self.front(request, model, fitting)):
                break
        prompts = self._prompts(request, model, fitting)
        responses = self._responses(request, model, orders.objective(None), prompts, fitting)
        return [smallest_gpus(option, reasons, responses) for option, reasons in options]

    def elsewhere(
        self, fit: FitRequest, model: Model, checkpoint: Checkpoint = no_checkpoint
    ) -> list[Suggestion]:
        """Return other GPUs that hold the workload of a question, as changes of it. Raise as
        `smallest`."""
        suggested = (
            as_suggestion(one, self._catalog.find(one.gpu), fit, model, self._estimator)
            for one in worth_naming(self.smallest(fit, model, checkpoint))
        )
        return [one for one in suggested if one is not None]

    def front(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> list[Option]:
        """Return the options that nothing beats. Raises InvalidRequestError where constraints
        contradict each other."""
        costs, question = self._costs(request), _question(request, model)
        gpus, plans = (
            choices.gpu_limits(request, self._catalog, costs),
            choices.plans(request, model, fitting),
        )
        prompts = self._prompts(request, model, fitting)
        wanted = SearchFilter(
            slowest=request.min_tokens_per_second or 0.0,
            passes=_allowed(request, costs, prompts),
            names_gpus=bool(request.gpus or request.owned),
        )
        return Search(model, question, fitting, self._pool(gpus, costs), plans, wanted).front()

    def _pool(self, gpus: list[GpuLimit], costs: Costs) -> GpuPool:
        key = (costs, *((limit.accelerator.id, limit.most) for limit in gpus))
        pool = self._pools.get(key)
        if pool is None or pool[0] != gpus:
            pool = gpus, GpuPool(gpus, costs.usd_per_hour)
            self._pools.put(key, pool)
        return pool[1]

    def _costs(self, request: RecommendRequest) -> Costs:
        named, owned = (
            clouds(words.split_list(request.clouds), self._catalog.offers),
            bool(request.owned),
        )
        costs = self._by_clouds.get((named, owned, request.gpus_per_node))
        if costs is None:
            costs = Costs(
                self._catalog.offers, named, owned=owned, gpus_per_node=request.gpus_per_node
            )
            self._by_clouds.put((named, owned, request.gpus_per_node), costs)
        return costs

    def _prompts(self, request: RecommendRequest, model: Model, fitting: BatchEstimator) -> Prompts:
        question = _question(request, model)
        tokens = request.prompt_tokens or context_length_of(question, model.spec)
        return Prompts(model, question, fitting, tokens)

    def _responses(
        self,
        request: RecommendRequest,
        model: Model,
        objective: Objective,
        prompts: Prompts,
        fitting: BatchEstimator,
    ) -> ResponseBuilder:
        return ResponseBuilder(
            request,
            _question(request, model),
            model,
            objective,
            self._costs(request),
            prompts,
            fitting,
            self._estimator,
        )

    def _no_option(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> InvalidRequestError:
        """Return why nothing is left of a request."""
        unlimited = None
        if self._catalog.quotas:
            free = Recommender(self._engines, self._catalog.unlimited(), self._checkpoints)
            unlimited = self._catalog, lambda one: free.front(one, model, fitting)
        return no_option(
            request,
            model,
            lambda one: self.front(one, model, fitting),
            unlimited,
            self._prompts(request, model, fitting),
            context_length_of(_question(request, model), model.spec),
        )


def _others(request: RecommendRequest, model: Model) -> Iterator[RecommendRequest]:
    """Yield what to look for where nothing fits: where no GPUs are named, those that are not sold
    by themselves too, such as Macs; of a quantized model 4 bits, where no format is named."""
    if not (request.gpus or request.vendors or request.kinds or request.include):
        yield structs.replace(request, include=choices.EVERY_KIND)
    wide = request.no_quantization or request.min_weight_bits or request.min_quality
    if model.is_quantized and not (request.quantization or wide):
        yield structs.replace(request, quantization=_FEW_BITS)


def _allowed(
    request: RecommendRequest, costs: Costs, prompts: Prompts
) -> Callable[[Accelerator, int, Plan], bool] | None:
    """Return whether a deployment keeps within its limits, and is expected to reach the speeds
    asked for at the load; None where nothing is limited."""
    within, longest = limits(request, costs), request.max_seconds_to_first_token
    least = request.min_tokens_per_second_per_request
    if within is None and longest is None and least is None:
        return None

    def allowed(accelerator: Accelerator, count: int, plan: Plan) -> bool:
        if within is not None and not within(accelerator, count):
            return False
        if longest is not None:
            seconds = prompts.wait(accelerator, count, plan)
            if seconds is None or seconds.expected > longest:
                return False
        if least is None:
            return True
        speed = prompts.at_load(accelerator, count, plan)
        return speed is not None and speed.tokens_per_second_per_request.expected >= least

    return allowed


def _served(request: RecommendRequest | FitRequest, model: Model) -> Model:
    """Return what engines load of a model, without its encoders where that is asked."""
    spec = language_model(model.spec) if request.language_model_only else model.spec
    return model if spec == model.spec else structs.replace(model, spec=spec)


def _question(request: RecommendRequest, model: Model) -> FitRequest:
    """Return the workload as a request to check_fit, without GPU, engine and format.

    `max_num_seqs` is set where the concurrency exceeds the engines' default.
    """
    many = (request.concurrency or 1) > _FEWEST_AT_ONCE
    return FitRequest(
        model=model.id,
        gpu="any",
        context_length=request.context_length,
        concurrency=request.concurrency,
        kv_cache_dtype=request.kv_cache_dtype,
        language_model_only=request.language_model_only,
        max_num_seqs=request.concurrency if many else None,
        settings=request.settings,
    )
