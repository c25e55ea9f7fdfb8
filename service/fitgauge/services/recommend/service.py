"""recommend_gpus: what should this model be served on? For training see training.py."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

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
from fitgauge.services.recommend.constraints import (
    cheapest,
    limits,
    overconstrained,
    relaxed_constraints,
    watts,
)
from fitgauge.services.recommend.costs import Costs, clouds
from fitgauge.services.recommend.echo import serving_fields
from fitgauge.services.recommend.elsewhere import as_suggestion, worth_naming
from fitgauge.services.recommend.gpu_options import GpuLimit, GpuPool, Plan
from fitgauge.services.recommend.pages import page_of
from fitgauge.services.recommend.prefill import Prompts
from fitgauge.services.recommend.responses import ResponseBuilder, measurements, stored
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.recommend.search import Option, Search, SearchFilter
from fitgauge.services.recommend.shortlist import shortlist
from fitgauge.services.recommend.smallest import recommend_requests, smallest_gpus, smallest_options
from fitgauge.services.recommend.task_fields import refuse_other_fields
from fitgauge.services.recommend.training import TrainingRecommender
from fitgauge.services.recommend.warnings import serving_warnings

_FEW_BITS = "int4"
"""The format of the fewest bits that models are usually served in; of a file Q4_K_M."""

_SHORTEST = 1024
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
            raise self._nothing(request, model, fitting)
        front.sort(key=orders.order(objective))
        question = _question(request, model)
        prompts = self._prompts(request, question, model, fitting)
        responses = ResponseBuilder(
            request,
            question,
            model,
            objective,
            self._costs(request),
            prompts,
            fitting,
            self._estimator,
        )
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
        question = _question(request, model)
        responses = ResponseBuilder(
            request,
            question,
            model,
            orders.objective(None),
            self._costs(request),
            self._prompts(request, question, model, fitting),
            fitting,
            self._estimator,
        )
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
        prompts = self._prompts(request, question, model, fitting)
        each = request.min_tokens_per_second_per_request or 0.0
        wanted = SearchFilter(
            slowest=max(request.min_tokens_per_second or 0.0, each * (request.concurrency or 1)),
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

    def _prompts(
        self, request: RecommendRequest, question: FitRequest, model: Model, fitting: BatchEstimator
    ) -> Prompts:
        return Prompts(
            model,
            question,
            fitting,
            request.prompt_tokens or context_length_of(question, model.spec),
        )

    def _less(self, request: RecommendRequest, model: Model, fitting: BatchEstimator) -> str:
        """Return the largest smaller workload that fits under these constraints, in fields to send;
        empty if none does."""
        for context, requests in _smaller(
            request, context_length_of(_question(request, model), model.spec)
        ):
            if self.front(
                structs.replace(request, context_length=context, concurrency=requests),
                model,
                fitting,
            ):
                return f"concurrency {requests} at context_length {context}"
        return ""

    def _nothing(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> InvalidRequestError:
        """Return the error of a request without options: quotas, some of the constraints, else the
        workload."""
        return (
            self._over_quota(request, model, fitting)
            or self._overconstrained(request, model, fitting)
            or self._too_large(request, model, fitting)
            or InvalidRequestError(
                f"No allowed option fits {model.id}.",
                hint=(
                    "Send a smaller model, a quantization with fewer bits, or fewer constraints."
                ),
                field="model",
                code="no-option",
            )
        )

    def _over_quota(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> InvalidRequestError | None:
        """Return the error of a request that quotas alone leave without options."""
        if not self._catalog.quotas:
            return None
        unlimited = Recommender(self._engines, self._catalog.unlimited(), self._checkpoints)
        options = unlimited.front(request, model, fitting)
        if not options:
            return None
        gpus = answers.gpu_count_in_words(options[0].accelerator, options[0].gpus)
        quota = self._catalog.quota(options[0].accelerator)
        return InvalidRequestError(
            f"No option fits your quotas: this needs {gpus}, the quota is {quota}.",
            hint="Send a smaller workload or other GPUs, or have the quota raised.",
            field="gpus",
            code="over-quota",
        )

    def _overconstrained(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> InvalidRequestError | None:
        """Return the error of a request that has options without some of its constraints."""
        relaxed = relaxed_constraints(request, lambda less: self.front(less, model, fitting))
        if relaxed is None:
            return None
        names, options = relaxed
        prompts = self._prompts(request, _question(request, model), model, fitting)
        best, why = _nearest(names, options, prompts)
        instead = (
            f"{answers.gpu_count_in_words(best.accelerator, best.gpus)}, {stored(best)} on"
            f" {best.plan.engine},"
        )
        refused = overconstrained(request, names, model.id, instead, why)
        of_gpus = request.gpus and {"gpus", "max_gpu_count"} & set(names)
        if of_gpus and (less := self._less(request, model, fitting)):
            gpus = request.gpus if isinstance(request.gpus, str) else "these GPUs"
            refused.hint = f"{refused.hint} On {gpus}, {less} fits."
        return refused

    def _too_large(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> InvalidRequestError | None:
        """Return the error of a request that has options for one short request."""
        least = structs.replace(
            request,
            context_length=min(_SHORTEST, request.context_length or _SHORTEST),
            concurrency=1,
        )
        options = self.front(least, model, fitting) if least != request else None
        if not options:
            return None
        gpus = answers.gpu_count_in_words(options[0].accelerator, options[0].gpus)
        return InvalidRequestError(
            f"No option fits this workload of {model.id}.",
            hint=(
                "Send a shorter `context_length` or a lower `concurrency`: one request of"
                f" {least.context_length} tokens fits on {gpus}."
            ),
            field="context_length",
            code="no-option",
        )


def _smaller(request: RecommendRequest, context: int) -> Iterator[tuple[int, int]]:
    """Yield (Context length, concurrency) of less and less: fewer requests down to one, then
    shorter ones."""
    requests = request.concurrency or 1
    while requests > 1:
        requests //= 2
        yield context, requests
    while context > _SHORTEST:
        context //= 2
        yield context, 1


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
    """Return whether a deployment keeps within its limits and waiting time; None where nothing
    is limited."""
    within, longest = limits(request, costs), request.max_seconds_to_first_token
    if within is None and longest is None:
        return None

    def allowed(accelerator: Accelerator, count: int, plan: Plan) -> bool:
        if within is not None and not within(accelerator, count):
            return False
        if longest is None:
            return True
        seconds = prompts.seconds(accelerator, count, plan)
        return seconds is not None and seconds.expected <= longest

    return allowed


def _nearest(
    names: Sequence[str], options: Sequence[Option], prompts: Prompts
) -> tuple[Option, str]:
    """Of what is left without the constraints `names` the option that comes nearest to keeping
    them, and how near in words."""

    def waiting(option: Option) -> float:
        seconds = prompts.seconds(option.accelerator, option.gpus, option.plan)
        return seconds.expected if seconds else inf

    def drawing(option: Option) -> float:
        return watts(option.accelerator, option.gpus) or inf

    if "max_usd_per_hour" in names:
        best = min(options, key=orders.order("cheapest"))
        return best, cheapest(best.criteria[4])
    if {"min_tokens_per_second", "min_tokens_per_second_per_request"} & set(names):
        best = min(options, key=orders.order("fastest"))
        return best, f"the fastest, at {-best.criteria[2]:,.0f} tokens a second"
    if "max_seconds_to_first_token" in names:
        best = min(options, key=lambda option: (waiting(option), orders.order("cheapest")(option)))
        return best, f"the shortest wait, {waiting(best):.2g} s"
    if "max_watts" in names:
        best = min(options, key=lambda option: (drawing(option), orders.order("cheapest")(option)))
        return best, f"it draws the least, {drawing(best):,.0f} W"
    return min(options, key=orders.order("fewest_cards")), ""


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
