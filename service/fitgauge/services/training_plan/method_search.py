"""The search for the layouts that train a model by one method, over the counts of GPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import slices_refusal
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.serving.fit import verdict
from fitgauge.engine.training.estimate import training_need
from fitgauge.engine.training.odds import Demand, training_probability
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.search.layouts import Choices
from fitgauge.engine.training.search.lower_bounds import Floors
from fitgauge.engine.training.search.plans import Holds, Plan, search
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.common.unsupported import hint, to_send
from fitgauge.services.training_fit.degree_candidates import whole_nodes
from fitgauge.services.training_fit.echo import workload_fields
from fitgauge.services.training_fit.launchers.registry import defaults_note
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_plan.choices import (
    bases_of,
    between,
    choices_of,
    filled_settings,
    refuse_impossible,
    sent_settings,
    settled_frameworks,
    split_choices,
    splits_layers,
    splits_sequences,
    started,
    wider,
)
from fitgauge.services.training_plan.schemas import Objective, TrainingPlanRequest


@dataclass(frozen=True, slots=True)
class MethodPlans:
    """The plans of one method."""

    base: TrainingWorkload
    """What every layout has in common."""
    choices: Choices
    """What was searched."""
    plans: list[Plan]
    """The plans, the best first."""
    sure: list[Plan]
    """Those of them that surely fit."""
    tool_defaults: Note | None = None
    """Which settings are a tool's."""


class MethodSearch:
    """Searches the layouts of one method. Raises InvalidRequestError where none of them can run."""

    def __init__(
        self,
        request: TrainingPlanRequest,
        model: Model,
        match: GpuMatch,
        profile: TrainingProfile,
        checkpoint: Checkpoint,
    ) -> None:
        self._request, self._model, self._accelerator = request, model, match.accelerator
        self._profile, self._checkpoint = profile, checkpoint
        choices = choices_of(request, model, match)
        self._bases = bases_of(request, model, self._accelerator)
        self._widest = choices.counts[-1]
        frameworks = settled_frameworks(self._bases, choices.frameworks, self._widest)
        self._base = self._bases(frameworks[0], self._widest)
        self._choices = structs.replace(
            choices,
            frameworks=frameworks,
            splits_sequences=splits_sequences(request, self._base),
            splits_layers=splits_layers(request, self._base),
        )
        refused = slices_refusal(self._accelerator, choices.counts[0]) or refusal(
            started(request, self._base), self._accelerator
        )
        if refused is not None:
            raise InvalidRequestError(
                refused.reason,
                hint=hint(refused),
                field=refused.parameter,
                code="unsupported",
                send=to_send(refused),
            )
        self._floors = Floors(model.spec, self._bases, profile)
        self._looked_at: set[int] = set()
        """Counts whose plans that surely fit were searched."""

    def plans(self) -> MethodPlans:
        """Return the plans in the order of the objective."""
        refuse_impossible(self._bases, self._model, self._choices)
        plans = self._of_counts()
        for count in sorted({_fewest(plans), _fewest(self._sure(plans))}):
            for middle in between(self._choices.counts, count):
                plans += self._plans(structs.replace(self._choices, counts=(middle,)))
        plans += self._slower_but_sure(plans)
        objective, sure = self._request.objective or "fewest_gpus", self._sure(plans)
        plans.sort(key=lambda plan: _order(plan, objective, plan not in sure))
        return MethodPlans(self._base, self._choices, plans, sure, self._tool_defaults())

    def _of_counts(self) -> list[Plan]:
        """Return plans of the counts to try, and of more until one surely holds the model; the
        choices are then those that were searched."""
        plans, tried = self._plans(self._choices), 0
        while True:
            if not plans:
                plans = self._of_whole_nodes(tried)
            plans += self._slower_but_sure(plans)
            more = None if self._sure(plans) else wider(self._request, self._choices)
            if more is None:
                return plans
            self._choices, tried = more, self._choices.counts[-1]
            plans += self._plans(structs.replace(more, counts=more.counts[-1:]))

    def _of_whole_nodes(self, tried: int) -> list[Plan]:
        """Return plans of more than `tried` GPUs in counts that divide the layers into equal
        stages, which powers of two may not."""
        choices = self._choices
        if len(choices.counts) == 1 or "megatron" not in choices.frameworks:
            return []
        nodes = sorted(
            count for count in whole_nodes(self._model.spec) if tried < count <= choices.counts[-1]
        )
        of_nodes = structs.replace(choices, counts=tuple(nodes), frameworks=("megatron",))
        return self._searched(of_nodes)

    def _slower_but_sure(self, plans: Sequence[Plan]) -> list[Plan]:
        """Return the plans of the fewest GPUs that surely hold the model where none of the fastest
        plans on so many does."""
        by_count = {plan.workload.gpus: plan.workload for plan in plans}
        for count, workload in sorted(by_count.items()):
            if count == _fewest(self._sure(plans)):
                break
            if count in self._looked_at:
                continue
            self._looked_at.add(count)
            batch = workload.data_parallel * workload.micro_batch_size * workload.micro_batches
            of_count = structs.replace(self._choices, counts=(count,), global_batch_size=batch)
            if more := self._plans(of_count, self._is_sure):
                return more
        return []

    def _plans(self, choices: Choices, holds: Holds | None = None) -> list[Plan]:
        parts = split_choices(self._request, self._base, choices)
        return [plan for part in parts for plan in self._searched(part, holds)]

    def _searched(self, choices: Choices, holds: Holds | None = None) -> list[Plan]:
        usable = self._accelerator.usable.expected
        return search(
            self._model.spec, self._bases, choices, self._need, usable, self._floors, holds
        )

    def _need(self, workload: TrainingWorkload) -> Demand:
        self._checkpoint()
        return training_need(self._model.spec, workload, self._profile)

    def _sure(self, plans: Iterable[Plan]) -> list[Plan]:
        return [plan for plan in plans if self._is_sure(plan.demand)]

    def _is_sure(self, demand: Demand) -> bool:
        chance = training_probability(demand, self._accelerator.usable, self._profile)
        return verdict(chance) == "fits"

    def _tool_defaults(self) -> Note | None:
        """Return which settings are a tool's."""
        request, framework = self._request, self._choices.frameworks[0]
        return defaults_note(
            sent_settings(request),
            filled_settings(request, self._model, self._accelerator, framework, self._widest),
            workload_fields(self._base, self._accelerator, 1, self._model),
        )


def _fewest(plans: Iterable[Plan]) -> int:
    """Return the least GPUs of a plan, 0 for none."""
    return min((plan.workload.gpus for plan in plans), default=0)


def _order(plan: Plan, objective: Objective, tight: bool) -> tuple[float, ...]:
    """Return the sort key: certain plans before tight ones, which may run out of memory."""
    if objective == "fastest":
        return (tight, -plan.throughput)
    if objective == "cheapest":
        return (tight, -plan.efficiency, plan.workload.gpus)
    return (tight, plan.workload.gpus, -plan.throughput)
