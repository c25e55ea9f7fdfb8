"""What a recommendation must keep within, and which of its constraints leaves nothing."""

from collections.abc import Callable
from math import inf
from typing import TypeVar

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.kubernetes import nodes
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.recommend.costs import Costs
from fitgauge.services.recommend.schemas import RecommendRequest

_CONSTRAINTS = (
    *(
        "max_usd_per_hour",
        "max_watts",
        "max_seconds_to_first_token",
        "min_tokens_per_second",
        "min_tokens_per_second_per_request",
        "max_nodes",
        "max_gpu_count",
    ),
    *(
        "min_quality",
        "no_quantization",
        "min_weight_bits",
        "quantization",
        "engine",
        "clouds",
        "gpus",
        "kinds",
        "vendors",
    ),
)
"""Constraints in the order in which they are given up to see which of them leaves nothing."""

_Option = TypeVar("_Option")
Front = Callable[[RecommendRequest], list[_Option]]
"""What is left of a question; raises InvalidRequestError where its constraints contradict each
other."""


def watts(accelerator: Accelerator, count: int) -> int | None:
    """Return the thermal design power of `count` GPUs [W], None if unknown."""
    return None if accelerator.tdp_watts is None else count * accelerator.tdp_watts


def limits(request: RecommendRequest, costs: Costs) -> Callable[[Accelerator, int], bool] | None:
    """Return whether so many GPUs keep within nodes, power and budget; None where none of them
    is limited. What is unknown does not."""
    most_nodes, most_watts, budget = request.max_nodes, request.max_watts, request.max_usd_per_hour
    if most_nodes is None and most_watts is None and budget is None:
        return None

    def within(accelerator: Accelerator, count: int) -> bool:
        if most_nodes is not None and nodes(accelerator, count, request.gpus_per_node) > most_nodes:
            return False
        if most_watts is not None and not _at_most(watts(accelerator, count), most_watts):
            return False
        return budget is None or _at_most(costs.usd_per_hour(accelerator, count), budget)

    return within


def _at_most(amount: float | None, most: float) -> bool:
    return amount is not None and amount <= most


def relaxed_constraints(
    request: RecommendRequest, front: Front[_Option]
) -> tuple[list[str], list[_Option]] | None:
    """Return the constraints without which something is left, and that: one alone if any does, else
    the fewest of the first ones together.

    None where something else is in the way.
    """
    constraints = [name for name in _CONSTRAINTS if getattr(request, name) not in (None, False)]
    for names in [
        *([name] for name in constraints),
        *(constraints[:count] for count in range(2, len(constraints) + 1)),
    ]:
        if options := _without(request, names, front):
            for name in names:
                fewer = [other for other in names if other != name]
                if fewer and (still := _without(request, fewer, front)):
                    names, options = fewer, still
            return names, options
    return None


def _without(request: RecommendRequest, names: list[str], front: Front[_Option]) -> list[_Option]:
    """Return the options without some constraints; none where the others contradict each other.
    Without `gpus`, `owned` is dropped too."""
    given_up = [*names, "owned"] if "gpus" in names else names
    try:
        return front(structs.replace(request, **dict.fromkeys(given_up)))
    except IMPOSSIBLE:
        return []


def overconstrained(
    request: RecommendRequest, names: list[str], held: str, instead: str, why: str
) -> InvalidRequestError:
    """Return the error of constraints that no option for `held` satisfies.

    instead: an option without them.
    why: why that option is named; may be empty.
    """
    constraints = " and ".join(f"`{name}` {_formatted(getattr(request, name))}" for name in names)
    message = f"No option for {held} satisfies {constraints}."
    hint = f"Without {'it' if len(names) == 1 else 'them'}, {instead} fits"
    return InvalidRequestError(
        message, hint=f"{hint}: {why}." if why else f"{hint}.", field=names[0], code="no-option"
    )


def cheapest(usd_per_hour: float) -> str:
    """Return why an option over the budget is named: its price."""
    return (
        f"the cheapest, at {usd_per_hour:.2f} USD an hour"
        if usd_per_hour < inf
        else "its price is unknown"
    )


def _formatted(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.9g}"
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
