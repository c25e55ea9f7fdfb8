"""Searches layouts: which hold a model on how many GPUs, and which are worth showing."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.search.layouts import Choices, checkpointed, in_batches, layouts
from fitgauge.engine.training.search.lower_bounds import Bases, Floors, StatesFloor
from fitgauge.engine.training.search.throughput import flops_of, throughput_at
from fitgauge.engine.training.workload import Checkpointing, TrainingWorkload

_PER_COUNT = 4
_CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full")
_LARGEST_MICRO_BATCH = 64


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that holds the model."""

    workload: TrainingWorkload
    """The layout with its settings."""
    demand: Demand
    """What its fullest GPU takes."""
    throughput: float
    """Its speed in that of one GPU that computes nothing twice and never waits."""

    @property
    def required(self) -> Bytes:
        """The least memory that its fullest GPU can run in."""
        return self.demand.required

    @property
    def efficiency(self) -> float:
        """Throughput of one GPU: 1 where nothing is computed twice and no GPU waits."""
        return self.throughput / self.workload.gpus


Need = Callable[[TrainingWorkload], Demand]
Holds = Callable[[Demand], bool]


def search(
    spec: ModelSpec,
    bases: Bases,
    choices: Choices,
    need: Need,
    usable_bytes: int,
    floors: Floors | None = None,
    holds: Holds | None = None,
) -> list[Plan]:
    """Return the Pareto set of every number of GPUs: no other layout on as many is faster and
    smaller; of each the fastest few.

    `need`: what the fullest GPU of a workload takes; `floors`: those of an earlier search of this
    model under these bases; `holds`: whether a GPU holds that, by default where no more is expected
    than is usable. Of a layout the least checkpointing that fits is taken, since it is the
    fastest."""
    holds = holds or (lambda demand: demand.required.expected <= usable_bytes)
    one = _Search(spec, bases, choices, need, usable_bytes, floors or Floors(spec, bases), holds)
    return [plan for count in choices.counts for plan in one.plans(count)]


class _Candidate(NamedTuple):
    """A layout with a way of checkpointing, in the order that candidates are looked at."""

    slowness: float
    """Less its throughput."""
    floor: float
    """What it needs at the least [bytes]."""
    number: int
    """Of the layout."""
    step: int
    """Number of its way of checkpointing, the fastest first."""
    undecided: tuple[int, ...]
    """Faster ways of checkpointing that may fit, but are larger than a plan that is faster."""
    workload: TrainingWorkload | None = None
    """The layout with that checkpointing, once the passes are in its floor."""


class _Search(NamedTuple):
    """What one search is about; see `search`."""

    spec: ModelSpec
    """The model."""
    bases: Bases
    """Settings of a framework and a number of GPUs."""
    choices: Choices
    """What it may choose from."""
    need: Need
    """What the fullest GPU of a workload takes."""
    usable_bytes: int
    """Of a GPU."""
    floors: Floors
    """What layouts need at the least."""
    holds: Holds
    """Whether a GPU holds a demand."""

    def plans(self, count: int) -> list[Plan]:
        """Return the Pareto set on `count` GPUs."""
        every = (
            (layout, self.floors.states(layout))
            for layout in layouts(self.spec, self.bases, self.choices, count)
        )
        possible = [(layout, least) for layout, least in every if least.bytes <= self.usable_bytes]
        return pareto([self._widest(plan) for plan in self._fastest(possible)])

    def _fastest(self, possible: Sequence[tuple[TrainingWorkload, StatesFloor]]) -> list[Plan]:
        """Return the fastest plans of the Pareto set of these layouts, fastest first. `possible`:
        each with what its states need at the least.

        Layouts are looked at in the order of their speed, so that what is slower than the last plan
        kept is not estimated; nor is what by its floor cannot fit, or cannot be smaller than the
        plan kept. Such a one may fit, and then no more checkpointing is tried: that is estimated
        where a plan depends on it."""
        kinds, tried = self.choices.checkpointing or _CHECKPOINTING, self._tries
        as_candidate = self._candidates(possible, kinds)
        waiting = [as_candidate(number, 0, ()) for number in range(len(possible))]
        heapify(waiting)
        chosen: list[tuple[tuple[float, ...], Plan]] = []
        while waiting and len(chosen) < _PER_COUNT:
            slowness, best = waiting[0].slowness, chosen[-1] if chosen else None
            while waiting and waiting[0].slowness == slowness:
                _, floor, number, step, undecided, workload = heappop(waiting)
                smallest = self.usable_bytes if best is None else best[1].required.expected
                layout, states = possible[number]
                if states.bytes > smallest:
                    continue
                if not tried(kinds[step], layout):
                    heappush(waiting, as_candidate(number, step + 1, undecided))
                    continue
                if workload is None:
                    workload = checkpointed(layout, kinds[step])
                    floor = self.floors.need(workload, states, smallest)
                    candidate = _Candidate(slowness, floor, number, step, undecided, workload)
                    heappush(waiting, candidate)
                    continue
                if floor <= smallest:
                    faster = (checkpointed(layout, kinds[each]) for each in undecided)
                    if any(self.holds(self.need(other)) for other in faster):
                        continue
                    demand, undecided = self.need(workload), ()
                    if self.holds(demand):
                        plan = Plan(workload=workload, demand=demand, throughput=-slowness)
                        ranked = _rank(plan, number), plan
                        best = ranked if best is None else min(best, ranked)
                        continue
                elif floor <= self.usable_bytes:
                    undecided = (*undecided, step)
                if step + 1 < len(kinds):
                    heappush(waiting, as_candidate(number, step + 1, undecided))
            if best is not None and (not chosen or best is not chosen[-1]):
                chosen.append(best)
        return [plan for _, plan in chosen]

    def _candidates(
        self,
        possible: Sequence[tuple[TrainingWorkload, StatesFloor]],
        kinds: Sequence[Checkpointing],
    ) -> Callable[[int, int, tuple[int, ...]], _Candidate]:
        """Return what makes a candidate of the number of a layout, that of its way of
        checkpointing, and those that are undecided."""
        flops = {
            kind: flops_of(self.spec, replace(layout, activation_checkpointing=kind))
            for kind in kinds
            for layout, _ in possible[:1]
        }

        def as_candidate(number: int, step: int, undecided: tuple[int, ...]) -> _Candidate:
            layout, least = possible[number]
            pace = throughput_at(self.spec, layout, flops[kinds[step]], self.choices.flops_per_byte)
            return _Candidate(-pace, least.bytes, number, step, undecided)

        return as_candidate

    def _tries(self, kind: Checkpointing, layout: TrainingWorkload) -> bool:
        """Return whether this way of checkpointing is tried under the framework of a layout."""
        fixed = bool(self.choices.checkpointing)
        return fixed or kind != "selective" or layout.framework in self.choices.selective

    def _widest(self, plan: Plan) -> Plan:
        """Return the plan with the largest micro-batch that fits and keeps the global batch. In a
        pipeline it stays: fewer micro-batches wait more."""
        workload, choices = plan.workload, self.choices
        if choices.micro_batch_sizes or workload.pipeline_parallel > 1:
            return plan
        size, ranks = workload.micro_batch_size * 2, workload.data_parallel
        while size <= _LARGEST_MICRO_BATCH and choices.global_batch_size % (ranks * size) == 0:
            base = self.bases(workload.framework, workload.gpus)
            batches = choices.global_batch_size // (ranks * size)
            wider = in_batches(plan.workload, base, size, batches)
            if self.floors.need(wider, self.floors.states(wider), self.usable_bytes) > (
                self.usable_bytes
            ):
                break
            demand = self.need(wider)
            if demand.required.high > self.usable_bytes:
                break
            plan = Plan(workload=wider, demand=demand, throughput=plan.throughput)
            size *= 2
        return plan


def _rank(plan: Plan, number: int) -> tuple[float, ...]:
    """Return the order of plans: the smaller one, of two alike the faster, then the simpler,
    then the first of the layouts."""
    return plan.required.expected, -plan.throughput, *_complexity(plan.workload), number


def pareto(plans: Sequence[Plan]) -> list[Plan]:
    """Return those that no other plan beats in throughput and memory at once; of two alike the
    simpler one."""
    ordered = sorted(
        plans,
        key=lambda plan: (-plan.throughput, plan.required.expected, _complexity(plan.workload)),
    )
    chosen: list[Plan] = []
    for plan in ordered:
        if not chosen or plan.required.expected < chosen[-1].required.expected:
            chosen.append(plan)
    return chosen


def _complexity(workload: TrainingWorkload) -> tuple[int, int, int]:
    return (
        workload.tensor_parallel * workload.context_parallel,
        workload.pipeline_parallel,
        workload.zero_stage,
    )
