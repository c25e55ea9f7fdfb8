"""What a GPU of a layout holds at the least: bounds by a few divisions, so that a search passes
over most of what cannot fit."""

from collections.abc import Sequence
from math import inf, prod
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.spec import Kind, ModelSpec
from fitgauge.engine.training.autograd.passes import (
    Passes,
    StageSegments,
    simulated,
    stage_segments,
)
from fitgauge.engine.training.autograd.segments import ModelSegments, segments
from fitgauge.engine.training.estimate import required_bytes
from fitgauge.engine.training.parallel.fsdp import computed, shards_embeddings, unit_groups
from fitgauge.engine.training.parallel.pipeline import held, stage_layers
from fitgauge.engine.training.parallel.validate import experts
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import Parameter, units
from fitgauge.engine.training.states.sharding import (
    ModelState,
    RankUnit,
    is_sharded,
    stage_units,
    to_rank,
)
from fitgauge.engine.training.workload import Checkpointing, Framework, TrainingWorkload

_ROUNDED = 0.99
"""What rounding may take of a rank's part: experts are sent whole tokens, and sizes that do not
divide are rounded."""


class _States(msgspec.Struct, frozen=True, gc=False):
    """What a rank's parameters need at the least."""

    weights: int
    """Weights [bytes]."""
    gradients: int
    """Gradients, where they stay through a step [bytes]."""
    states: int
    """Master weights and optimizer states [bytes]."""


class _Gathered(NamedTuple):
    """Parameters as FSDP gathers them."""

    root: int
    """Those that stay gathered through both passes [bytes]."""
    layers: int
    """Those of all layers [bytes]."""


class _Layer(NamedTuple):
    """What a layer holds depends on, besides the ranks that divide it."""

    framework: Framework
    """Training framework."""
    checkpointing: Checkpointing
    """Which activations are recomputed."""
    micro_batch_size: int
    """Sequences."""
    whole_experts: bool
    """Tensor-parallel ranks do not divide experts."""


_Degrees = tuple[int, int]
"""Tensor and context parallel ranks, which divide what a layer holds."""


class Floors:
    """The floors of one model under the settings of `base`, on any degrees."""

    def __init__(
        self, spec: ModelSpec, base: TrainingWorkload, profile: TrainingProfile | None = None
    ) -> None:
        """`profile`: of what a process holds besides tensors; None to leave that out."""
        self._spec = spec
        self._base = base
        self._profile = profile
        self._whole: dict[Framework, tuple[list[RankUnit], list[RankUnit]]] = {}
        self._of_first: dict[tuple[Framework, int], tuple[_States, _States]] = {}
        self._traced: dict[_Layer, dict[_Degrees, ModelSegments]] = {}
        self._groups: dict[tuple[int, int, int], _Gathered] = {}
        self._passes: dict[tuple[_Layer, _Degrees, int, bool], Passes] = {}

    def states(self, layout: TrainingWorkload) -> float:
        """Of the first pipeline stage, or of any were all alike: the fullest has no less than
        either [bytes]."""
        return self._with_process(self._states(layout), layout)

    def need(self, workload: TrainingWorkload, enough: float = inf) -> float:
        """Return the same with the passes of the first stage [bytes]; without them where a rule
        of thumb counts activations. `enough`: a bound above it need not be closer."""
        least = self._with_process(self._states(workload), workload)
        if least > enough or rule_of(self._spec, workload) != "recipe":
            return least
        first = self._first(workload)
        passes = self._passes_bytes(workload, enough - first)
        return max(least, self._with_process(first + passes, workload))

    def _with_process(self, tensors: float, workload: TrainingWorkload) -> float:
        """Return what a process with these tensors needs at the least [bytes]."""
        if self._profile is None:
            return tensors
        return required_bytes(int(tensors), workload, self._profile)

    def _states(self, layout: TrainingWorkload) -> float:
        layers = range(max(1, self._spec.layers))
        alike = self._divided(layout, *self._held(layout.framework, layers))
        return max(self._first(layout), alike / layout.pipeline_parallel)

    def _passes_bytes(self, workload: TrainingWorkload, enough: float) -> float:
        """Return what the passes hold on the first stage [bytes], were every expert on a rank of
        its own and no gradient kept: what is kept of gradients, and gradients of more experts,
        only add to it. So it is the same for all degrees of expert and data parallelism.

        Tensor and context parallel ranks each hold at least their part of what fewer of them do:
        they divide tensors, and exchange more of them. So a tape of fewer ranks bounds it too."""
        layer = _Layer(
            workload.framework,
            workload.activation_checkpointing,
            workload.micro_batch_size,
            workload.expert_ways != workload.tensor_parallel,
        )
        degrees = tensor, context = workload.tensor_parallel, workload.context_parallel
        traced = self._traced.setdefault(layer, {})
        if degrees not in traced:
            fewer = [(t, c) for t, c in traced if tensor % t == context % c == 0]
            if fewer:
                nearest = max(fewer, key=prod)
                part = prod(nearest) / prod(degrees) * _ROUNDED
                least = part * self._of_first_stage(workload, layer, nearest)
                if least > enough:
                    return least
            traced[degrees] = segments(self._spec, computed(_spread_out(self._spec, workload)))
        return self._of_first_stage(workload, layer, degrees)

    def _of_first_stage(
        self, workload: TrainingWorkload, layer: _Layer, degrees: _Degrees
    ) -> float:
        """Return what the passes hold by the tape of these degrees [bytes], with what FSDP
        gathers: the root all the time, and all layers at the loss where it keeps them."""
        stages = workload.pipeline_parallel
        layers = _first_stage(self._spec, workload)
        key = layer, degrees, len(layers), stages == 1
        if key not in self._passes:
            self._passes[key] = _passes(self._traced[layer][degrees], layers, alone=stages == 1)
        passes = self._passes[key]
        highest = max(passes.forward_peak, passes.backward_peak)
        if stages == 1:
            if workload.framework != "fsdp":
                return highest
            gathered = self._gathered(workload)
            kept = gathered.layers if workload.zero_stage == 2 else 0
            return gathered.root + max(highest, kept + passes.opening)
        in_flight = held(
            workload.pipeline_schedule, 0, stages, workload.micro_batches, workload.pipeline_chunks
        ).most
        return highest + int((in_flight - 1) * passes.between)

    def _gathered(self, workload: TrainingWorkload) -> _Gathered:
        """Return what FSDP gathers of the whole model, without padding."""
        key = workload.tensor_parallel, workload.expert_parallel, workload.expert_ways
        if key not in self._groups:
            alone = replace(workload, data_parallel=1, data_parallel_replicate=1)
            root, groups = unit_groups(self._spec, alone)
            layers = sum(
                len(unit.layers) * group.gathered
                for unit, group in zip(units(self._spec, alone), groups, strict=True)
                if group is not None
            )
            apart = shards_embeddings(self._spec, alone)
            self._groups[key] = _Gathered(0 if apart else root.gathered, layers)
        return self._groups[key]

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
        if framework not in self._whole:
            alone = replace(self._base, framework=framework, zero_stage=3)
            self._whole[framework] = _whole(self._spec, alone)
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
    `ranks`. Gradients are there all the time under Megatron, and where a step has several
    micro-batches (phases.py, _phases; fsdp_phases.py)."""
    stay = layout.framework == "megatron" or layout.micro_batches > 1
    parts: list[tuple[ModelState, int]] = [("weights", whole.weights), ("states", whole.states)]
    if stay and not layout.steps_in_backward:
        parts.append(("gradients", whole.gradients))
    return sum(size / (ranks if is_sharded(of, layout) else 1) for of, size in parts) / ways


def _spread_out(spec: ModelSpec, workload: TrainingWorkload) -> TrainingWorkload:
    """Return the workload with every expert on a rank of its own."""
    return replace(
        workload,
        expert_parallel=max(1, experts(spec)),
        expert_tensor_parallel=workload.expert_ways,
    )


def _passes(model_segments: ModelSegments, layers: range, *, alone: bool) -> Passes:
    """Return those of the first stage without what is there before them and after them."""
    line = stage_segments(model_segments, None if alone else layers, last=alone)
    return simulated(StageSegments(segments=line.segments), stays=0)
