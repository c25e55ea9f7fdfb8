"""Objectives: the orders of recommendations."""

from collections.abc import Callable
from difflib import get_close_matches
from math import inf

from fitgauge.errors import InvalidRequestError
from fitgauge.services.recommend.schemas import Objective
from fitgauge.services.recommend.search import Option, identity


def usd_per_token(option: Option) -> float:
    """Dollars an hour over tokens a second, infinite where one of them is unknown."""
    cost, slowness = option.criteria[4], option.criteria[2]
    return cost / -slowness if slowness < 0 else inf


_ORDERS: dict[Objective, Callable[[Option], tuple[float, ...]]] = {
    "fewest_cards": lambda option: (option.gpus, option.criteria[4], *option.criteria[1:]),
    "smallest": lambda option: (option.criteria[1], option.gpus, *option.criteria[2:]),
    "fastest": lambda option: (option.criteria[2], *option.criteria),
    "most_headroom": lambda option: (
        option.fitted.required.expected - option.fitted.budget.expected,
        *option.criteria,
    ),
    "cheapest": lambda option: (option.criteria[4], option.criteria[2], *option.criteria),
    "cheapest_per_token": lambda option: (usd_per_token(option), *option.criteria),
}

_SYNONYMS: dict[str, Objective] = {
    "fewest": "fewest_cards", "fewest_gpus": "fewest_cards", "least_memory": "smallest",
    "speed": "fastest", "throughput": "fastest", "latency": "fastest",
    "lowest_latency": "fastest", "highest_throughput": "fastest",
    "headroom": "most_headroom", "cheap": "cheapest", "cost": "cheapest", "price": "cheapest",
    "lowest_cost": "cheapest",
    "lowest_price": "cheapest", "cost_per_token": "cheapest_per_token",
    "price_per_token": "cheapest_per_token",
}  # fmt: skip


def order(objective: Objective) -> Callable[[Option], tuple[object, ...]]:
    """Return the key of this order. Of as many GPUs the cheapest comes first, at one price the
    fastest; what has no known price comes last."""
    first = _ORDERS[objective]
    return lambda option: (first(option), identity(option))


def objective(text: str | None) -> Objective:
    """Return the order that is meant. Raises InvalidRequestError for one that is unknown."""
    word = "_".join(
        (text or "fewest_cards").strip().lower().replace("-", " ").replace("_", " ").split()
    )
    names = {name: name for name in _ORDERS} | _SYNONYMS
    if word not in names:
        matches = tuple(dict.fromkeys(names[near] for near in get_close_matches(word, names, n=2)))
        raise InvalidRequestError(
            f"Unknown objective {word[:40]!r}.",
            hint=f"Send {', '.join(_ORDERS)}.",
            matches=matches,
            field="objective",
            code="unknown-value",
        )
    return names[word]
