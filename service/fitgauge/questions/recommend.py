"""recommend_gpus: what should this model be served on?"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Literal

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.catalog.engines import Engines
from fitgauge.engine.architecture import Model
from fitgauge.engine.decode import EFFICIENCY
from fitgauge.engine.quantity import gib
from fitgauge.errors import InvalidQuestion
from fitgauge.questions import answers, choices
from fitgauge.questions.fitting import Fitting
from fitgauge.questions.launch import launch_command
from fitgauge.questions.prepared import Preparer
from fitgauge.questions.recommend_schemas import DecodeAnswer, Fields, RecommendAnswer, Recommendation, RecommendRequest
from fitgauge.questions.schemas import FitRequest, Launch
from fitgauge.questions.search import Option, Search, Wanted, identity

Objective = Literal["fewest_cards", "smallest", "fastest", "most_headroom"]

_PAGE = 20
_ORDERS: dict[Objective, Callable[[Option], tuple[float, ...]]] = {
    "fewest_cards": lambda option: option.criteria,
    "smallest": lambda option: (option.criteria[1], option.gpus, *option.criteria[2:]),
    "fastest": lambda option: (option.criteria[2], *option.criteria),
    "most_headroom": lambda option: (option.fitted.required.expected - option.fitted.budget.expected, *option.criteria),
}
_CONSTRAINTS = ("max_gpu_count", "min_tokens_per_second", "no_quantization", "min_weight_bits", "quantization", "gpus", "vendors", "engine")
"""Constraints in the order in which they are given up to see which of them leaves nothing."""


class Recommender:
    """Searches the cards of a catalog for one model. Arithmetic alone; tens of milliseconds, so not for an event loop."""

    def __init__(self, engines: Engines, catalog: Catalog) -> None:
        self._engines = engines
        self._catalog = catalog
        self._preparer = Preparer()

    def answer(self, request: RecommendRequest, model: Model) -> RecommendAnswer:
        """The Pareto set, ordered. Raises InvalidQuestion where nothing is left, naming the constraint that empties the set."""
        objective = _objective(request.objective)
        fitting = Fitting(model, self._engines, self._preparer)
        front = self.front(request, model, fitting)
        if not front:
            raise self._nothing(request, model, fitting)
        front.sort(key=lambda option: (_ORDERS[objective](option), identity(option)))
        start = request.offset or 0
        return RecommendAnswer(
            summary=_summary(model, front, objective),
            model=answers.model_answer(model),
            objective=objective,
            items=[_recommendation(option, request, model) for option in front[start : start + (request.limit or _PAGE)]],
            total=len(front),
            warnings=_warnings(request, model, front),
            understood_as=_understood(request, model, front[0], objective),
        )

    def front(self, request: RecommendRequest, model: Model, fitting: Fitting) -> list[Option]:
        """The options that nothing beats. Raises InvalidQuestion where constraints contradict each other."""
        cards, plans = choices.cards(request, self._catalog), choices.plans(request, model, fitting)
        return Search(model, _question(request, model), fitting, cards, plans, Wanted(slowest=request.min_tokens_per_second or 0.0)).front()

    def _nothing(self, request: RecommendRequest, model: Model, fitting: Fitting) -> InvalidQuestion:
        """Which constraint leaves nothing: the first without which something fits; else what the workload asks too much of."""
        for name in _CONSTRAINTS:
            if getattr(request, name) in (None, False):
                continue
            try:
                found = self.front(structs.replace(request, **{name: None}), model, fitting)
            except InvalidQuestion:
                continue
            if found:
                cards = answers.cards_in_words(found[0].accelerator, found[0].gpus)
                said = f"{name} empties the set: with {name} {_told(getattr(request, name))} nothing holds {model.id}."
                hint = f"Without it {cards} would do, {_stored(found[0])} on {found[0].plan.engine}."
                return InvalidQuestion(said, hint=hint, field=name)
        least = structs.replace(request, context_length=min(1024, request.context_length or 1024), concurrency=1)
        if least != request and (found := self.front(least, model, fitting)):
            cards = answers.cards_in_words(found[0].accelerator, found[0].gpus)
            hint = f"Send a shorter context_length or a lower concurrency: one request of {least.context_length} tokens fits on {cards}."
            return InvalidQuestion(f"The workload empties the set: nothing holds {model.id} with it.", hint=hint, field="context_length")
        hint = "Send a smaller model, a narrower quantization, or leave a constraint out."
        return InvalidQuestion(f"Nothing that is allowed here holds {model.id}.", hint=hint, field="model")


def _question(request: RecommendRequest, model: Model) -> FitRequest:
    """The workload as a question to check_fit, but for the card, the engine and the format."""
    return FitRequest(
        model=model.id,
        gpu="any",
        context_length=request.context_length,
        concurrency=request.concurrency,
        kv_cache_dtype=request.kv_cache_dtype,
    )


def _objective(text: str | None) -> Objective:
    """The order that is meant. Raises InvalidQuestion for one that is unknown."""
    word = "_".join((text or "fewest_cards").strip().lower().replace("-", " ").replace("_", " ").split())
    known = {"_".join(name.split("_")): name for name in _ORDERS} | {"fewest_gpus": "fewest_cards"}
    if word not in known:
        matches = tuple(get_close_matches(word, known, n=2))
        raise InvalidQuestion(f"{word[:40]!r} is no objective.", hint=f"Send {', '.join(_ORDERS)}.", matches=matches, field="objective")
    return known[word]


def _recommendation(option: Option, request: RecommendRequest, model: Model) -> Recommendation:
    """One option in the words of the contract."""
    fitted, plan, speed = option.fitted, option.plan, option.speed
    sent: Fields = {"model": request.model, "gpu": option.accelerator.name, "gpu_count": option.gpus, "engine": plan.engine}
    sent |= {"context_length": fitted.workload.context_length, "concurrency": fitted.workload.concurrency}
    optional = {"quantization": plan.quantization, "kv_cache_dtype": request.kv_cache_dtype}
    sent |= {name: value for name, value in optional.items() if value is not None}
    question = structs.replace(_question(request, model), model=request.model, quantization=plan.quantization)
    per_request = round(speed.expected / fitted.workload.concurrency, 2) if speed else 0.0
    return Recommendation(
        gpu=answers.gpu_answer(option.accelerator, option.gpus),
        engine=plan.engine,
        quantization=plan.quantization or "as published",
        weight_bits=plan.bits,
        verdict=fitted.verdict,
        fit_probability=round(fitted.probability, 4),
        required_bytes=fitted.required,
        budget_bytes=fitted.budget.expected,
        headroom_bytes=fitted.budget.expected - fitted.required.expected,
        total_usable_bytes=option.criteria[1],
        decode=DecodeAnswer(tokens_per_second=speed, per_request=per_request, basis="assumed") if speed else None,
        request=sent,
        launch=Launch(command=launch_command(model, question, fitted.workload)),
    )


def _summary(model: Model, front: Sequence[Option], objective: Objective) -> str:
    """The best option in a sentence."""
    best = front[0]
    cards = answers.cards_in_words(best.accelerator, best.gpus)
    needs, has = gib(best.fitted.required.expected), gib(best.fitted.budget.expected)
    each = " per GPU" if best.gpus > 1 else ""
    words = {
        "fewest_cards": "The fewest cards",
        "smallest": "The least memory",
        "fastest": "The fastest",
        "most_headroom": "The most headroom",
    }
    said = f"{words[objective]} for {model.id}: {cards} with {best.plan.engine}, {_stored(best)}, needing {needs}{each} of {has}."
    return (
        f"{said} Of {len(front)} options none beats another in cards, memory, speed and bits a weight at once." if len(front) > 1 else said
    )


def _warnings(request: RecommendRequest, model: Model, front: Sequence[Option]) -> list[str]:
    said = [*model.warnings, *model.spec.notes]
    if request.context_length is None:
        said.append(f"No context_length was asked for: {front[0].fitted.workload.context_length} tokens were taken.")
    if any(option.speed for option in front):
        low, expected, high = EFFICIENCY
        said.append(
            f"Speeds are a roofline by memory bandwidth at {expected:.0%} of peak ({low:.0%} to {high:.0%}): assumed, not measured."
        )
    if any(option.plan.quantization for option in front):
        said.append("Formats other than as published need a checkpoint that holds them, or an engine that quantizes while loading.")
    said.append("Prices are not in the catalog: options are not compared by cost.")
    return said


def _understood(request: RecommendRequest, model: Model, option: Option, objective: Objective) -> Fields:
    filled: Fields = {
        "model": model.id,
        "context_length": option.fitted.workload.context_length,
        "concurrency": option.fitted.workload.concurrency,
        "objective": objective,
        "max_gpu_count": request.max_gpu_count or 16,
    }
    names = ("engine", "quantization", "kv_cache_dtype", "no_quantization", "min_weight_bits", "min_tokens_per_second")
    told = {name: getattr(request, name) for name in names}
    told |= {"vendors": ", ".join(choices.listed(request.vendors)) or None, "gpus": ", ".join(choices.listed(request.gpus)) or None}
    return filled | {name: value for name, value in told.items() if value is not None}


def _stored(option: Option) -> str:
    return f"in {option.plan.quantization}" if option.plan.quantization else "as published"


def _told(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)
