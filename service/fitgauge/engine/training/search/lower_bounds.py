"""What a GPU of a layout holds at the least: bounds by a few divisions, so that a search passes
over most of what cannot fit."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from fitgauge.engine.memo import WeakMemo
from fitgauge.engine.model.spec import Kind, ModelSpec
from fitgauge.engine.training.autograd.passes import (
    Passes,
    StageSegments,
    simulated,
    stage_segments,
)
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.parallel.fsdp import computed
from fitgauge.engine.training.parallel.pipeline import held, stage_layers
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import Parameter, units
from fitgauge.engine.training.states.sharding import RankUnit, is_sharded, stage_units, to_rank
from fitgauge.engine.training.workload import Framework, TrainingWorkload


class _States(msgspec.Struct, frozen=True, gc=False):
    """What a rank's parameters need at the least."""

    weights: int
    """Weights [bytes]."""
    gradients: int
    """Gradients that stay through a step [bytes]."""
    states: int
    """Master weights and optimizer states [bytes]."""


class Floors:
    """The floors of one model under the settings of `base`, on any degrees."""

    def __init__(
        self, spec: ModelSpec, base: TrainingWorkload, frameworks: Iterable[Framework]
    ) -> None:
        self._spec = spec
        self._whole = {
            framework: _whole(spec, replace(base, framework=framework, zero_stage=3))
            for framework in frameworks
        }
        self._of_first: dict[tuple[Framework, int], tuple[_States, _States]] = {}

    def states(self, layout: TrainingWorkload) -> float:
        """Of the first pipeline stage, or of any were all alike: the fullest has no less than
        either [bytes]."""
        alike = (
            self._divided(layout, *self._held(layout.framework, range(max(1, self._spec.layers))))
            / layout.pipeline_parallel
        )
        return max(self._first(layout), alike)

    def need(self, workload: TrainingWorkload) -> float:
        """Return the same with the passes of the first stage [bytes]; without them where a rule
        of thumb counts activations."""
        if rule_of(self._spec, workload) != "recipe":
            return self.states(workload)
        return max(
            self.states(workload), self._first(workload) + _passes_bytes(self._spec, workload)
        )

    def _first(self, layout: TrainingWorkload) -> float:
        """Return the states of the first stage on one rank."""
        return self._divided(
            layout, *self._held(layout.framework, _first_stage(self._spec, layout))
        )

    def _divided(self, layout: TrainingWorkload, shared: _States, routed: _States) -> float:
        """Return one rank's part of both: what every rank has whole counts as divided like the
        rest."""
        ranks, ways = (
            layout.data_parallel // layout.data_parallel_replicate * layout.context_parallel,
            layout.tensor_parallel,
        )
        expert_ways = layout.expert_parallel * layout.expert_ways
        return _share(shared, layout, ways, ranks) + _share(
            routed, layout, expert_ways, max(1, ranks * ways // expert_ways)
        )

    def _held(self, framework: Framework, layers: range) -> tuple[_States, _States]:
        """Return what all have and what experts have of the first stage, which has these layers,
        before anything is divided."""
        key = (framework, layers.stop)
        if key not in self._of_first:
            last = layers.stop == max(1, self._spec.layers)
            shared, routed = (
                stage_units(slices, layers, first=True, last=last)
                for slices in self._whole[framework]
            )
            self._of_first[key] = _summed(shared), _summed(routed)
        return self._of_first[key]


def _first_stage(spec: ModelSpec, layout: TrainingWorkload) -> range:
    return stage_layers(max(1, spec.layers), layout)[0]


def _whole(spec: ModelSpec, alone: TrainingWorkload) -> tuple[list[RankUnit], list[RankUnit]]:
    """Return every unit of a model on one rank, with as much offloaded as can be: parameters
    that all have, and experts."""
    all_units = units(spec, alone)
    shared, routed = (
        [
            to_rank(
                replace(unit, parameters=tuple(p for p in unit.parameters if _routed(p) is wanted)),
                alone,
            )
            for unit in all_units
        ]
        for wanted in (False, True)
    )
    return shared, routed


def _routed(parameter: Parameter) -> bool:
    return parameter.count > 1 or parameter.kind is Kind.EXPERT


def _summed(slices: Sequence[tuple[RankUnit, int]]) -> _States:
    return _States(
        weights=sum(count * piece.states.weights for piece, count in slices),
        gradients=sum(count * piece.states.gradients for piece, count in slices),
        states=sum(
            count * (piece.states.master_weights + piece.states.optimizer_states)
            for piece, count in slices
        ),
    )


def _share(whole: _States, layout: TrainingWorkload, ways: int, ranks: int) -> float:
    """Return one rank's part of what tensor or expert parallelism cuts, and ZeRO divides over
    `ranks`. Megatron's gradients alone are there all the time (stages.py, _phases)."""
    gradients = (
        whole.gradients if layout.framework == "megatron" and not layout.steps_in_backward else 0
    )
    over_weights, over_states = (
        ranks if is_sharded(of, layout) else 1 for of in ("weights", "states")
    )
    return (whole.weights / over_weights + whole.states / over_states + gradients) / ways


def _passes_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return what the passes hold on the first stage [bytes], were every expert on a rank of its
    own and no gradient kept: what is kept of gradients, and gradients of more experts, only add
    to it. So it is the same for all degrees of expert and data parallelism."""
    stages = workload.pipeline_parallel
    in_flight = held(
        workload.pipeline_schedule, 0, stages, workload.micro_batches, workload.pipeline_chunks
    ).most
    most = replace(
        workload,
        expert_parallel=max(1, experts(spec)),
        expert_tensor_parallel=workload.expert_ways,
        data_parallel=1,
        micro_batches=1,
    )
    relevant = computed(most)
    passes = _PASSES.get_or_compute(spec, relevant, lambda: _passes(spec, relevant))
    return max(passes.forward_peak, passes.backward_peak) + int((in_flight - 1) * passes.between)


_PASSES: WeakMemo[ModelSpec, TrainingWorkload, Passes] = WeakMemo(512)


def _passes(spec: ModelSpec, workload: TrainingWorkload) -> Passes:
    """Return those of the first stage without what is there before them and after them."""
    alone, model_segments = workload.pipeline_parallel == 1, segments(spec, workload)
    line = stage_segments(
        model_segments, None if alone else _first_stage(spec, workload), last=alone
    )
    return simulated(StageSegments(segments=line.segments), stays=0)
