"""Where every copy of every model runs, on the fewest GPUs or for the least money: an integer
program, solved by HiGHS.

Sizes within a machine divide one another (`pools`), so copies fill machines without gaps, and a sum
over a pool says how many machines they take."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple

from fitgauge.services.fleet.pools import Pool
from fitgauge.services.fleet.schemas import Placement, Plan, PoolUse

if TYPE_CHECKING:
    from fitgauge.services.fleet.integer_program import Solution


class SolverMissingError(Exception):
    """The package of the solver is not installed."""


class Demanded(NamedTuple):
    """A model to place."""

    name: str
    """Its entry."""
    replicas: int
    """Copies."""
    counts: Mapping[str, int]
    """GPUs of a copy, by the name of the pool, where it fits."""


class _Group(NamedTuple):
    """Models that are placed alike."""

    models: list[Demanded]
    """The models."""
    counts: dict[str, int]
    """GPUs of a copy, by the name of the pool."""
    replicas: int
    """Copies of all of them."""


def plan(
    demanded: Sequence[Demanded], pools: Sequence[Pool], objective: Literal["fewest", "cheapest"]
) -> Plan:
    """Return the best plan; among equal ones the cheaper, then the one with fewer GPUs. As many
    copies are placed as there are GPUs for. For the cheapest, GPUs without a price are left out.

    Raises SolverMissingError."""
    if objective == "cheapest":
        pools = [pool for pool in pools if pool.usd_per_hour is not None]
    groups = _groups(demanded, {pool.name for pool in pools})
    pools = _undominated(groups, pools)
    solution = _solved(groups, pools, objective)
    placements, unplaced = _placements(groups, pools, solution.copies)
    order = {model.name: number for number, model in enumerate(demanded)}
    placements.sort(key=lambda placement: order[placement.name])
    unplaced |= {
        model.name: model.replicas
        for model in demanded
        if not any(pool.name in model.counts for pool in pools)
    }
    uses = list(_uses(pools, placements))
    prices = [use.usd_per_hour for use in uses]
    amounts = [price for price in prices if price is not None]
    return Plan(
        objective=objective,
        gpus=sum(use.gpus for use in uses),
        machines=sum(use.machines for use in uses),
        usd_per_hour=round(sum(amounts), 4) if len(amounts) == len(prices) else None,
        gap=round(solution.gap, 4),
        pools=uses,
        placements=placements,
        unplaced=unplaced,
    )


def _groups(demanded: Sequence[Demanded], names: set[str]) -> list[_Group]:
    """Return the models by what a copy takes of each of these pools, without those that fit on
    none."""
    alike: defaultdict[tuple[tuple[str, int], ...], list[Demanded]] = defaultdict(list)
    for model in demanded:
        counts = tuple(sorted(item for item in model.counts.items() if item[0] in names))
        if counts:
            alike[counts].append(model)
    return [
        _Group(models, dict(counts), sum(model.replicas for model in models))
        for counts, models in alike.items()
    ]


def _undominated(groups: Sequence[_Group], pools: Sequence[Pool]) -> list[Pool]:
    """Return the pools without those whose copies can all move to another one and take no more GPUs
    and no more money there, by known prices; of pools that are alike the first stays."""

    def dominates(one: Pool, other: Pool) -> bool:
        return (
            one.available is None
            and other.per_machine % one.per_machine == 0
            and one.usd_per_hour is not None
            and other.usd_per_hour is not None
            and one.usd_per_hour <= other.usd_per_hour
            and all(
                one.name in group.counts and group.counts[one.name] <= group.counts[other.name]
                for group in groups
                if other.name in group.counts
            )
        )

    left: list[Pool] = []
    for pool in pools:
        if not any(dominates(one, pool) for one in left):
            left = [one for one in left if not dominates(pool, one)]
            left.append(pool)
    return left


def _solved(
    groups: Sequence[_Group], pools: Sequence[Pool], objective: Literal["fewest", "cheapest"]
) -> "Solution":
    """Return the copies of every group in every pool. Raises SolverMissingError."""
    try:
        program = import_module("fitgauge.services.fleet.integer_program")
    except ImportError:
        raise SolverMissingError from None
    solution: Solution = program.solve(
        [group.replicas for group in groups],
        [[group.counts.get(pool.name) for pool in pools] for group in groups],
        [
            program.Capacity(
                pool.available, pool.per_machine, pool.paid(1) * (pool.usd_per_hour or 0.0)
            )
            for pool in pools
        ],
        by_price=objective == "cheapest",
    )
    return solution


def _placements(
    groups: Sequence[_Group], pools: Sequence[Pool], copies: Sequence[Sequence[int]]
) -> tuple[list[Placement], dict[str, int]]:
    """Return where the models of every group run, the first of the file first, and the copies that
    find no GPUs."""
    placements, unplaced = [], {}
    for group, of_group in zip(groups, copies, strict=True):
        free = {pool.name: number for pool, number in zip(pools, of_group, strict=True) if number}
        for model in group.models:
            left = model.replicas
            for name in list(free):
                taken = min(left, free[name])
                if taken:
                    placement = Placement(
                        name=model.name, gpu=name, replicas=taken, gpu_count=group.counts[name]
                    )
                    placements.append(placement)
                    left -= taken
                    free[name] -= taken
            if left:
                unplaced[model.name] = left
    return placements, unplaced


def _uses(pools: Sequence[Pool], placements: Sequence[Placement]) -> list[PoolUse]:
    """Return what is taken of every pool, where anything is."""
    gpus: defaultdict[str, int] = defaultdict(int)
    for placement in placements:
        gpus[placement.gpu] += placement.replicas * placement.gpu_count
    uses = []
    for pool in pools:
        if used := gpus[pool.name]:
            machines = -(-used // pool.per_machine)
            price = pool.usd_per_hour
            cost = None if price is None else round(pool.paid(machines) * price, 4)
            uses.append(PoolUse(gpu=pool.name, gpus=used, machines=machines, usd_per_hour=cost))
    return uses
