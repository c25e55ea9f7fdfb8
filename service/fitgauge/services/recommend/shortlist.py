"""The few options of a Pareto set that a person chooses from: the fewest GPUs, the cheapest, the
fastest, one with headroom, one with the weights as published."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Generic, NamedTuple, Protocol, TypeVar

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantization.requested import UNQUANTIZED, canonical_name
from fitgauge.services.common.smallest import READING_SPEED
from fitgauge.services.recommend.gpu_options import Plan
from fitgauge.services.recommend.objectives import order
from fitgauge.services.recommend.option_schemas import Role
from fitgauge.services.recommend.schemas import Objective
from fitgauge.services.recommend.search import Option

FEWEST_OPTIONS, MOST_OPTIONS = 3, 5

HEADROOM = 0.25
"""Share of the budget that an option with headroom leaves free."""

WIDEST = 2
"""Times the fewest GPUs that the fastest option takes at most, but for options that are shown
anyway: more of them are always faster."""

ROLES: dict[Objective, Role] = {
    "fewest_cards": "fewest_gpus",
    "smallest": "smallest",
    "fastest": "fastest",
    "most_headroom": "headroom",
    "cheapest": "cheapest",
    "cheapest_per_token": "cheapest_per_token",
}

REASONS: dict[Role, str] = {
    "fewest_gpus": "the fewest GPUs", "cheapest": "the cheapest", "fastest": "the fastest",
    "headroom": "with headroom", "as_published": "weights as published",
    "smallest": "the least memory", "cheapest_per_token": "the cheapest per token",
    "alternative": "an alternative",
}  # fmt: skip


class Deployment(Protocol):
    """What is picked: GPUs of one kind."""

    @property
    def accelerator(self) -> Accelerator:
        """The GPU."""


Picked = TypeVar("Picked", bound=Deployment)


class Pick(NamedTuple, Generic[Picked]):
    """An option that is shown first."""

    option: Picked
    """The option."""
    roles: list[Role]
    """What it is best at."""

    @property
    def reason(self) -> str:
        """The roles in words."""
        return " and ".join(REASONS[role] for role in self.roles)


def picked(best: Iterable[tuple[Role, Picked]], others: Iterable[Picked]) -> list[Pick[Picked]]:
    """Return up to five of the best by each role, and of fewer than three also others on further
    GPUs."""
    picks: list[Pick[Picked]] = []
    for role, option in best:
        pick_of_option = next((pick for pick in picks if pick.option is option), None)
        if pick_of_option is not None:
            if role not in pick_of_option.roles:
                pick_of_option.roles.append(role)
        elif len(picks) < MOST_OPTIONS:
            picks.append(Pick(option, [role]))
    for option in others:
        if len(picks) >= FEWEST_OPTIONS:
            break
        if all(pick.option.accelerator.id != option.accelerator.id for pick in picks):
            picks.append(Pick(option, ["alternative"]))
    return picks


def shortlist(
    front: Sequence[Option], objective: Objective, has_command: Callable[[Plan], bool]
) -> list[Pick[Option]]:
    """Return up to five options, the best by the objective first. has_command: whether a known
    checkpoint can be loaded for a plan.

    Options without a price, that are slower than people read, whose checkpoint has yet to be
    made or whose count is no power of two are taken only where there is no other."""
    with_command = {plan: has_command(plan) for plan in {option.plan for option in front}}
    usable = _some(front, lambda option: with_command[option.plan])
    usable = _some(usable, _is_readable)
    usable = _some(usable, lambda option: option.gpus.bit_count() == 1)
    priced = _some(usable, lambda option: option.criteria[4] < inf)
    others = sorted((*priced, *usable), key=lambda option: option.criteria[4])
    return picked(_best(usable, priced, objective), others)


def _best(
    usable: Sequence[Option], priced: Sequence[Option], objective: Objective
) -> Iterator[tuple[Role, Option]]:
    """Yield the best option by each role, the objective's first."""
    fewest = min(usable, key=order("fewest_cards"))
    cheapest = order("cheapest")
    roomy = [option for option in priced if _headroom(option) >= HEADROOM]
    published = [option for option in priced if _is_published(option.plan)]
    if all(_is_published(option.plan) for option in usable):
        published = []
    if objective != "fewest_cards":
        yield ROLES[objective], min(usable, key=order(objective))
    yield "fewest_gpus", fewest
    if any(0 < option.criteria[4] < inf for option in priced):
        yield "cheapest", min(priced, key=cheapest)
    narrow = _some(priced, lambda option: option.gpus <= WIDEST * fewest.gpus)
    narrow += [min(some, key=cheapest) for some in (priced, roomy, published) if some]
    if any(option.tokens_per_second is not None for option in narrow) and objective != "fastest":
        yield "fastest", min(narrow, key=order("fastest"))
    if roomy and objective != "most_headroom":
        yield "headroom", min(roomy, key=cheapest)
    if published:
        yield "as_published", min(published, key=cheapest)


def _some(options: Iterable[Option], wanted: Callable[[Option], bool]) -> list[Option]:
    """Return those that are wanted, all where none is."""
    every = list(options)
    return [option for option in every if wanted(option)] or every


def _is_readable(option: Option) -> bool:
    speed, requests = option.tokens_per_second, option.fitted.workload.concurrency
    return speed is None or speed / requests >= READING_SPEED


def _headroom(option: Option) -> float:
    budget = option.fitted.budget.expected
    return (budget - option.fitted.required.expected) / max(1, budget)


def _is_published(plan: Plan) -> bool:
    return plan.quantization is None or canonical_name(plan.quantization) in UNQUANTIZED
