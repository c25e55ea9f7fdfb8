"""Plans: no other placement takes fewer GPUs or less money, and none takes more than there is."""

import sys
from itertools import pairwise, product

import pytest

from fitgauge.catalog.catalog import bundled
from fitgauge.services.fleet import integer_program
from fitgauge.services.fleet.packing import Demanded, SolverMissingError, plan
from fitgauge.services.fleet.pools import Pool, pool_of
from fitgauge.services.fleet.schemas import GpuEntry


def pool(name, available=None, per_machine=8, price=1.0):
    entry = GpuEntry(
        gpu="H100", name=name, count=available, per_machine=per_machine, usd_per_hour=price
    )
    return pool_of(entry, bundled())


def unpriced(name, **options):
    return pool(name, **options)._replace(usd_per_hour=None)


def cost(pools: list[Pool], used: dict[str, int]) -> float:
    return sum(one.paid(-(-used[one.name] // one.per_machine)) * one.usd_per_hour for one in pools)


def best(demanded, pools, objective):
    """Return the best (unplaced, first, second) over all placements of single copies."""
    copies = [model for model in demanded for _ in range(model.replicas)]
    by_name = {one.name: one for one in pools}
    outcomes = []
    for choice in product(*([None, *model.counts] for model in copies)):
        used = dict.fromkeys(by_name, 0)
        for model, name in zip(copies, choice, strict=True):
            if name is not None:
                used[name] += model.counts[name]
        if any(one.available is not None and used[one.name] > one.available for one in pools):
            continue
        gpus, price = sum(used.values()), round(cost(pools, used), 6)
        first = (gpus, price) if objective == "fewest" else (price, gpus)
        outcomes.append((choice.count(None), *first))
    return min(outcomes)


@pytest.mark.parametrize(
    ("entry", "available", "per_machine"),
    [
        (GpuEntry(gpu="2x p5.48xlarge"), 16, 8),
        (GpuEntry(gpu="g6e.12xlarge", count=3), 12, 4),
        (GpuEntry(gpu="2x H100", count=3), 3, 8),
    ],
)
def test_machines_of_a_cloud_are_counted_and_paid_by_their_gpus(entry, available, per_machine):
    read = pool_of(entry, bundled())
    assert (read.available, read.per_machine) == (available, per_machine)
    offer = next(iter(bundled().offers.named(entry.gpu.removeprefix("2x "))), None)
    if offer is not None:
        assert read.name == f"{read.accelerator.name} ({entry.gpu})"
        assert read.usd_per_hour * per_machine == pytest.approx(offer.usd_per_hour_low)


CASES = [
    ([Demanded("a", 2, {"x": 2, "y": 1}), Demanded("b", 1, {"x": 4})], [pool("x"), pool("y")]),
    (
        [Demanded("a", 3, {"x": 2, "y": 4}), Demanded("b", 2, {"x": 1, "y": 1})],
        [pool("x", available=4, price=3.0), pool("y", per_machine=4, price=1.0)],
    ),
    (
        [Demanded("a", 3, {"x": 8}), Demanded("b", 2, {"x": 4}), Demanded("c", 1, {"y": 2})],
        [pool("x", available=16, price=2.0), pool("y", available=1, per_machine=1)],
    ),
    (
        [Demanded("a", 1, {"x": 1, "y": 1}), Demanded("b", 4, {"y": 2})],
        [pool("x", per_machine=1, price=0.5), pool("y", per_machine=8, price=0.9)],
    ),
    (  # x is no better than y for either, but y is limited; z is no better than x
        [Demanded("a", 2, {"x": 4, "y": 2, "z": 4}), Demanded("b", 2, {"x": 2, "y": 2})],
        [pool("x"), pool("y", available=4, price=0.5), pool("z", per_machine=16, price=1.1)],
    ),
    (  # as few and as cheap a GPU, but whole machines of it cost more
        [Demanded("a", 1, {"x": 2, "y": 2}), Demanded("b", 1, {"x": 2, "y": 4})],
        [pool("x", per_machine=8), pool("y", per_machine=4)],
    ),
]


@pytest.mark.parametrize("objective", ["fewest", "cheapest"])
@pytest.mark.parametrize("demanded, pools", CASES)
def test_no_placement_is_better(demanded, pools, objective):
    answer = plan(demanded, pools, objective)
    used = {use.gpu: use.gpus for use in answer.pools}
    assert answer.usd_per_hour == pytest.approx(
        cost(pools, {one.name: used.get(one.name, 0) for one in pools})
    )
    if objective == "fewest":
        first = (answer.gpus, answer.usd_per_hour)
    else:
        first = (answer.usd_per_hour, answer.gpus)
    outcome = (sum(answer.unplaced.values()), *first)
    assert outcome == pytest.approx(best(demanded, pools, objective))


@pytest.mark.parametrize("demanded, pools", CASES)
def test_every_copy_is_placed_once_or_said_to_be_without_gpus(demanded, pools):
    answer = plan(demanded, pools, "fewest")
    for model in demanded:
        placed = sum(one.replicas for one in answer.placements if one.name == model.name)
        assert placed + answer.unplaced.get(model.name, 0) == model.replicas
        for one in answer.placements:
            if one.name == model.name:
                assert one.gpu_count == model.counts[one.gpu]


def test_the_solver_is_not_asked_about_gpus_that_others_replace(monkeypatch):
    asked, solve = [], integer_program.solve
    monkeypatch.setattr(
        integer_program,
        "solve",
        lambda replicas, counts, pools, **options: (
            asked.append(len(pools)) or solve(replicas, counts, pools, **options)
        ),
    )
    demanded = [Demanded("a", 3, {"x": 2, "y": 2, "z": 1}), Demanded("b", 1, {"x": 1, "y": 1})]
    pools = [pool("x"), pool("y", per_machine=16), pool("z", price=2.0)]
    answer = plan(demanded, pools, "cheapest")
    assert asked == [2]
    assert {one.gpu for one in answer.pools} <= {"x", "z"}


def test_gpus_without_a_price_are_no_part_of_the_cheapest():
    demanded = [Demanded("a", 1, {"x": 1, "y": 2}), Demanded("b", 1, {"x": 1})]
    answer = plan(demanded, [unpriced("x"), pool("y")], "cheapest")
    assert [(one.name, one.gpu) for one in answer.placements] == [("a", "y")]
    assert answer.unplaced == {"b": 1}


def test_a_plan_with_an_unpriced_machine_has_no_price():
    answer = plan([Demanded("a", 1, {"x": 1})], [unpriced("x")], "fewest")
    assert (answer.gpus, answer.machines, answer.usd_per_hour) == (1, 1, None)


@pytest.mark.parametrize(
    "per_machine, available, counts",
    [
        (8, None, (1, 2, 4, 8, 16)),
        (8, 6, (1, 2, 4)),
        (6, None, (1, 2, 6, 12)),
        (1, None, (1, 2, 4, 8, 16)),
        (10, None, (1, 2, 10)),
    ],
)
def test_counts_of_a_copy_divide_one_another(per_machine, available, counts):
    one = pool("x", available=available, per_machine=per_machine)
    assert one.counts == counts
    assert all(larger % smaller == 0 for smaller, larger in pairwise(counts))


def test_the_solver_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "fitgauge.services.fleet.integer_program", None)
    with pytest.raises(SolverMissingError):
        plan([Demanded("a", 1, {"x": 1})], [pool("x")], "fewest")


@pytest.mark.parametrize("available, paid", [(None, 8), (16, 8), (4, 4)])
def test_no_more_is_paid_than_there_is(available, paid):
    answer = plan([Demanded("a", 1, {"x": 1})], [pool("x", available=available)], "cheapest")
    assert (answer.machines, answer.usd_per_hour) == (1, paid)
