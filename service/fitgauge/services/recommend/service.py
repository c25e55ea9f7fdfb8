"""recommend_gpus: what should this model be served on? For training see recommend_training.py."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.catalog.training import load_training
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.memo import Memo
from fitgauge.engine.model.spec import Model
from fitgauge.engine.serving.support import context_refusal
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.need_schemas import SmallestGpus
from fitgauge.services.common.schemas import FitRequest
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
from fitgauge.services.recommend.gpu_options import GpuLimit, GpuPool, Plan
from fitgauge.services.recommend.pages import page_of
from fitgauge.services.recommend.prefill import Prompts
from fitgauge.services.recommend.responses import ResponseBuilder, measurements, stored
from fitgauge.services.recommend.schemas import RecommendAnswer, RecommendRequest
from fitgauge.services.recommend.search import MOST_CARDS, Option, Search, SearchFilter
from fitgauge.services.recommend.shortlist import shortlist
from fitgauge.services.recommend.smallest import (
    recommend_request,
    smallest_gpus,
    smallest_options,
)
from fitgauge.services.recommend.training import TrainingRecommender

_SHORTEST = 1024
_FEWEST_AT_ONCE = 256
"""Requests that vLLM runs at once on its smallest cards, where nothing is said. Source:
engine/serving/vllm/defaults.py."""
_OF_TRAINING = (
    "method",
    "framework",
    "sequence_length",
    "global_batch_size",
    "precision",
    "optimizer",
    "lora_rank",
)
_OF_SERVING = (
    *(
        "context_length",
        "concurrency",
        "engine",
        "quantization",
        "kv_cache_dtype",
        "no_quantization",
        "min_weight_bits",
    ),
    *("min_tokens_per_second", "min_quality", "prompt_tokens", "max_seconds_to_first_token"),
    *("min_tokens_per_second_per_request", "settings"),
)


class Recommender:
    """Searches the cards of a catalog for one model. Arithmetic alone; tens of milliseconds, so
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
        self._known_costs: Memo[object, Costs] = Memo(16)
        self._pools: Memo[object, tuple[list[GpuLimit], GpuPool]] = Memo(4)
        self._training = TrainingRecommender(load_training(), catalog)

    def answer(
        self, request: RecommendRequest, model: Model, checkpoint: Checkpoint = no_checkpoint
    ) -> RecommendAnswer:
        """Return the Pareto set, ordered. Raises InvalidRequestError where nothing is left,
        naming the constraint that empties the set."""
        objective = orders.objective(request.objective)
        _refuse_other_fields(request)
        if request.task == "training":
            trained = self._training.answer(request, model, objective, checkpoint)
            return structs.replace(
                trained, warnings=[*trained.warnings, *choices.quotas_told(request, self._catalog)]
            )
        if too_long := context_refusal(request.context_length or 0, model.spec):
            raise too_long
        fitting = BatchEstimator(
            model, self._engines, self._preparer, checkpoint, self._checkpoints
        )
        front = self.front(request, model, fitting)
        if not front:
            raise self._nothing(request, model, fitting)
        front.sort(key=orders.order(objective))
        question = _question(request, model)
        telling = ResponseBuilder(
            request,
            question,
            model,
            objective,
            self._costs(request),
            self._prompts(request, question, model, fitting),
            fitting,
            self._estimator,
        )
        picks = shortlist(
            front,
            objective,
            lambda plan: fitting.has_checkpoint(plan.quantization, plan.engine),
        )
        options = [telling.pick(pick) for pick in picks]
        page = page_of(request, front)
        items = [telling.recommendation(option) for option in page]
        return RecommendAnswer(
            summary=telling.summary(picks, options[0], len(front)),
            model=answers.model_answer(model),
            objective=objective,
            options=options,
            items=items,
            total=len(front),
            measurements=measurements(
                option.plan for option in (*(pick.option for pick in picks), *page)
            ),
            warnings=[
                *telling.warnings(front, [*options, *items]),
                *choices.quotas_told(request, self._catalog),
            ],
            understood_as=telling.understood(front[0]),
        )

    def smallest(
        self, fit: FitRequest, model: Model, checkpoint: Checkpoint = no_checkpoint
    ) -> list[SmallestGpus]:
        """Return the fewest, the cheapest and the fastest GPUs that hold the workload of a
        question without a GPU: of those that are rented out, else of all. Raise
        InvalidRequestError where the question is impossible."""
        fitting = BatchEstimator(
            model, self._engines, self._preparer, checkpoint, self._checkpoints
        )
        for priced in (True, False):
            request = recommend_request(fit, priced=priced)
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

    def front(
        self, request: RecommendRequest, model: Model, fitting: BatchEstimator
    ) -> list[Option]:
        """Return the options that nothing beats. Raises InvalidRequestError where constraints
        contradict each other."""
        costs, question = self._costs(request), _question(request, model)
        cards, plans = (
            choices.cards(request, self._catalog, costs),
            choices.plans(request, model, fitting),
        )
        prompts = self._prompts(request, question, model, fitting)
        each = request.min_tokens_per_second_per_request or 0.0
        wanted = SearchFilter(
            slowest=max(request.min_tokens_per_second or 0.0, each * (request.concurrency or 1)),
            passes=_allowed(request, costs, prompts),
        )
        return Search(model, question, fitting, self._pool(cards, costs), plans, wanted).front()

    def _pool(self, cards: list[GpuLimit], costs: Costs) -> GpuPool:
        key = (costs, *((card.accelerator.id, card.most) for card in cards))
        known = self._pools.get(key)
        if known is None or known[0] != cards:
            known = cards, GpuPool(cards, costs.usd_per_hour)
            self._pools.put(key, known)
        return known[1]

    def _costs(self, request: RecommendRequest) -> Costs:
        named, owned = (
            clouds(words.split_list(request.clouds), self._catalog.offers),
            bool(request.owned),
        )
        known = self._known_costs.get((named, owned, request.gpus_per_node))
        if known is None:
            known = Costs(
                self._catalog.offers, named, owned=owned, gpus_per_node=request.gpus_per_node
            )
            self._known_costs.put((named, owned, request.gpus_per_node), known)
        return known

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
        if self._catalog.quotas and (
            found := Recommender(self._engines, self._catalog.unlimited(), self._checkpoints).front(
                request, model, fitting
            )
        ):
            cards, quota = (
                answers.cards_in_words(found[0].accelerator, found[0].gpus),
                self._catalog.quota(found[0].accelerator),
            )
            said = f"No option fits your quotas: this needs {cards}, the quota is {quota}."
            return InvalidRequestError(
                said,
                hint=("Send a smaller workload or other GPUs, or have the quota raised."),
                field="gpus",
                code="over-quota",
            )
        if parted := relaxed_constraints(request, lambda less: self.front(less, model, fitting)):
            names, found = parted
            prompts = self._prompts(request, _question(request, model), model, fitting)
            best, why = _nearest(names, found, prompts)
            instead = (
                f"{answers.cards_in_words(best.accelerator, best.gpus)}, {stored(best)} on"
                f" {best.plan.engine},"
            )
            refused = overconstrained(request, names, model.id, instead, why)
            if (
                request.gpus
                and {"gpus", "max_gpu_count"} & set(names)
                and (less := self._less(request, model, fitting))
            ):
                refused.hint = (
                    f"{refused.hint} On"
                    f" {request.gpus if isinstance(request.gpus, str) else 'these GPUs'}, {less}"
                    " fits."
                )
            return refused
        least = structs.replace(
            request,
            context_length=min(_SHORTEST, request.context_length or _SHORTEST),
            concurrency=1,
        )
        if least != request and (found := self.front(least, model, fitting)):
            cards = answers.cards_in_words(found[0].accelerator, found[0].gpus)
            hint = (
                "Send a shorter `context_length` or a lower `concurrency`: one request of"
                f" {least.context_length} tokens fits on {cards}."
            )
            return InvalidRequestError(
                f"No option fits this workload of {model.id}.",
                hint=hint,
                field="context_length",
                code="no-option",
            )
        hint = "Send a smaller model, a quantization with fewer bits, or fewer constraints."
        return InvalidRequestError(
            f"No allowed option fits {model.id}.",
            hint=hint,
            field="model",
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


def _nearest(names: Sequence[str], found: Sequence[Option], prompts: Prompts) -> tuple[Option, str]:
    """Of what is left without the constraints `names` the option that comes nearest to keeping
    them, and how near in words."""

    def waiting(option: Option) -> float:
        seconds = prompts.seconds(option.accelerator, option.gpus, option.plan)
        return seconds.expected if seconds else inf

    def drawing(option: Option) -> float:
        return watts(option.accelerator, option.gpus) or inf

    if "max_usd_per_hour" in names:
        best = min(found, key=orders.order("cheapest"))
        return best, cheapest(best.criteria[4])
    if {"min_tokens_per_second", "min_tokens_per_second_per_request"} & set(names):
        best = min(found, key=orders.order("fastest"))
        return best, f"the fastest, at {-best.criteria[2]:,.0f} tokens a second"
    if "max_seconds_to_first_token" in names:
        best = min(found, key=lambda option: (waiting(option), orders.order("cheapest")(option)))
        return best, f"the shortest wait, {waiting(best):.2g} s"
    if "max_watts" in names:
        best = min(found, key=lambda option: (drawing(option), orders.order("cheapest")(option)))
        return best, f"it draws the least, {drawing(best):,.0f} W"
    return min(found, key=orders.order("fewest_cards")), ""


def _refuse_other_fields(request: RecommendRequest) -> None:
    """Raise InvalidRequestError for a field of the other task, and for more cards than one
    deployment serves on."""
    task, others = (
        ("serving", _OF_TRAINING) if request.task != "training" else ("training", _OF_SERVING)
    )
    for name in others:
        if getattr(request, name) is not None:
            other = "training" if task == "serving" else "serving"
            raise InvalidRequestError(
                f"`{name}` is a field of {other}.",
                hint=f"Send `task` {other}, or leave out `{name}`.",
                field=name,
                code="conflicting-fields",
            )
    if task == "serving" and (request.max_gpu_count or 0) > MOST_CARDS:
        said = (
            f"`max_gpu_count` {request.max_gpu_count} exceeds the limit of {MOST_CARDS} GPUs per"
            " deployment."
        )
        raise InvalidRequestError(
            said,
            hint=f"Send {MOST_CARDS} or less.",
            field="max_gpu_count",
            code="invalid-value",
        )


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
        max_num_seqs=request.concurrency if many else None,
        settings=request.settings,
    )
