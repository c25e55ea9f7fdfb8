"""Deployments that train a model, and the few of them that a person chooses from."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.performance.flops import peak_tflops, token_flops
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.recommend.costs import Costs
from fitgauge.services.recommend.option_schemas import Role
from fitgauge.services.recommend.pareto import Criteria
from fitgauge.services.recommend.schemas import Objective
from fitgauge.services.recommend.shortlist import HEADROOM, ROLES, WIDEST, Pick, picked


class Layout(NamedTuple):
    """One way to train on a number of GPUs."""

    workload: TrainingWorkload
    """Framework, degrees and checkpointing."""
    demand: Demand
    """What the fullest GPU holds."""
    throughput: float
    """Speed in that of one GPU without pipeline bubbles."""

    @property
    def required(self) -> Bytes:
        """The least memory that the fullest can run in."""
        return self.demand.required


class Trained(NamedTuple):
    """The fewest of a GPU that suffice for a method."""

    accelerator: Accelerator
    """The GPU."""
    gpus: int
    """The fewest of it that suffice."""
    layout: Layout
    """The fastest layout that fits on so many."""
    tokens_per_second: float | None
    """Upper bound of the speed, at full peak; None if unknown."""
    criteria: Criteria
    """What it is compared by."""

    @property
    def headroom(self) -> int:
        """Bytes that stay free on the fullest GPU."""
        return self.accelerator.usable.expected - self.layout.required.expected


def training_shortlist(front: Sequence[Trained], objective: Objective) -> list[Pick[Trained]]:
    """Return up to five deployments: of several methods the best of each by the objective, then
    the cheapest, the fastest and one with headroom of the first.

    Options without a price are taken only where there is no other."""
    return picked(_best(front, objective), sorted(front, key=lambda one: one.criteria[4]))


def _best(front: Sequence[Trained], objective: Objective) -> Iterator[tuple[Role, Trained]]:
    by_method: dict[str, list[Trained]] = {}
    for trained in front:
        by_method.setdefault(trained.layout.workload.method, []).append(trained)
    for method, several in by_method.items():
        by_method[method] = [one for one in several if one.criteria[4] < inf] or several
        yield ROLES[objective], _first(by_method[method], objective)
    main = next(iter(by_method.values()))
    fewest = _first(main, "fewest_cards")
    yield "fewest_gpus", fewest
    if any(0 < one.criteria[4] < inf for one in main):
        yield "cheapest", _first(main, "cheapest")
    narrow = [one for one in main if one.gpus <= WIDEST * fewest.gpus]
    yield "fastest", _first(narrow, "fastest")
    if roomy := [
        one for one in narrow if one.headroom >= HEADROOM * one.accelerator.usable.expected
    ]:
        yield "headroom", _first(roomy, "cheapest")


def _first(several: Sequence[Trained], objective: Objective) -> Trained:
    """Return the best by an objective; of those alike the cheapest."""
    return min(
        several,
        key=lambda one: (
            order(one, objective)[0],
            one.criteria[4],
            *one.criteria,
            one.accelerator.id,
        ),
    )


def trained_on(
    accelerator: Accelerator, count: int, layout: Layout, model: Model, costs: Costs
) -> Trained:
    """Return an option with its criteria: count, memory, -tokens a second at the peak, nothing
    for bits, price."""
    workload = layout.workload
    fastest = peak_tflops(accelerator, "bf16") or peak_tflops(accelerator, "fp16")
    flops = token_flops(
        model.spec, workload.sequence_length, frozen_base=workload.uses_adapters
    ).model
    speed = round(layout.throughput * fastest * 1e12 / flops, 1) if fastest else None
    cost = costs.usd_per_hour(accelerator, count)
    mark = (
        count,
        count * accelerator.usable.expected,
        -speed if speed else 1.0,
        0.0,
        inf if cost is None else cost,
    )
    return Trained(accelerator, count, layout, speed, mark)


def order(trained: Trained, objective: Objective) -> tuple[float, ...]:
    """Return the key of an objective: what comes first is least."""
    count, memory, slowness, _, cost = trained.criteria
    first = {
        "fewest_cards": (count,),
        "smallest": (memory,),
        "fastest": (slowness,),
        "most_headroom": (trained.layout.required.expected - trained.accelerator.usable.expected,),
        "cheapest": (cost,),
        "cheapest_per_token": (cost / -slowness if slowness < 0 else inf,),
    }[objective]
    return (*first, *trained.criteria)
