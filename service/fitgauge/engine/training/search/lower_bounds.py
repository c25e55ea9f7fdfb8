"""What a GPU of a layout holds at the least: bounds by a few divisions, so that a search passes
over most of what cannot fit."""

from collections.abc import Callable, Sequence
from math import inf
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
from fitgauge.engine.training.autograd.segments import ModelSegments, expert_spread, segments
from fitgauge.engine.training.parallel.fsdp import computed, shards_embeddings, unit_groups
from fitgauge.engine.training.parallel.pipeline import held, stage_layers
from fitgauge.engine.training.profile import (
    TrainingProfile,
    least_fragmentation_bytes,
    outside_bytes,
)
from fitgauge.engine.training.rules_of_thumb import rule_of
from fitgauge.engine.training.states.parameters import Parameter, units
from fitgauge.engine.training.states.sharding import RankUnit, is_sharded, stage_units, to_rank
from fitgauge.engine.training.workload import Checkpointing, Framework, Schedule, TrainingWorkload

Bases = Callable[[Framework, int], TrainingWorkload]
"""The settings that all layouts under a framework share on so many GPUs: a tool and a trainer's
script take others under another, and on one GPU."""

_ROUNDED = 0.99
"""What rounding may take of a rank's part: experts are sent whole tokens, and sizes that do not
divide are rounded."""

_FROM_TWO = 8
"""The smallest micro-batch a quarter of which is several sequences."""


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


class StatesFloor(NamedTuple):
    """What the states of a layout need at the least, whatever is recomputed."""

    bytes: float
    """Of the fullest stage, with the process around it."""
    first_stage: float
    """Of the first pipeline stage alone, without the process [bytes]."""
    layers: range
    """Layers of the first stage."""


def for_all(base: TrainingWorkload) -> Bases:
    """Return the same settings for every framework and number of GPUs."""
    return lambda framework, count: base


class _Layer(NamedTuple):
    """What a layer holds depends on, besides the ranks that divide it."""

    framework: Framework
    """Training framework."""
    several: bool
    """Whether there are several GPUs."""
    checkpointing: Checkpointing
    """Which activations are recomputed."""
    micro_batch_size: int
    """Sequences."""
    whole_experts: bool
    """Tensor-parallel ranks do not divide experts."""


class _Ranks(NamedTuple):
    """The ranks that divide what a layer holds."""

    tensor: int
    """Tensor-parallel ranks."""
    context: int
    """Context-parallel ranks."""
    expert: int
    """Ranks that experts are spread over; see `expert_spread`."""

    @property
    def parts(self) -> int:
        """Into how many parts they divide it."""
        return self.tensor * self.context

    def bounds(self, other: "_Ranks") -> bool:
        """Return whether one of these holds at least its part of what one of `other` holds."""
        return (
            self.tensor % other.tensor == self.context % other.context == 0
            and self.expert <= other.expert
        )


class Floors:
    """The floors of one model under the settings of `bases`, on any degrees."""

    def __init__(
        self, spec: ModelSpec, bases: Bases, profile: TrainingProfile | None = None
    ) -> None:
        """`profile`: of what a process holds besides tensors; None to leave that out."""
        self._spec = spec
        self._bases = bases
        self._profile = profile
        self._outside: dict[bool, int] = {}
        self._whole: dict[tuple[Framework, bool], tuple[list[RankUnit], list[RankUnit]]] = {}
        self._of_first: dict[tuple[Framework, bool, int], tuple[_States, _States]] = {}
        self._traced: dict[_Layer, dict[_Ranks, ModelSegments]] = {}
        self._groups: dict[tuple[int, int, int], _Gathered] = {}
        self._passes: dict[tuple[_Layer, _Ranks, int, bool], Passes] = {}
        self._in_flight: dict[tuple[Schedule, int, int, int], float] = {}

    def states(self, layout: TrainingWorkload) -> StatesFloor:
        """Return the floor of the first pipeline stage, or of any were all alike: the fullest has
        no less than either."""
        count = max(1, self._spec.layers)
        layers = stage_layers(count, layout)[0]
        first = self._divided(layout, *self._held(layout, layers))
        if layout.pipeline_parallel == 1:
            return StatesFloor(self._with_process(first, layout), first, layers)
        whole = self._divided(layout, *self._held(layout, range(count)))
        most = max(first, whole / layout.pipeline_parallel)
        return StatesFloor(self._with_process(most, layout), first, layers)

    def need(self, workload: TrainingWorkload, states: StatesFloor, enough: float = inf) -> float:
        """Return the floor with the passes of the first stage [bytes]; without them where a rule
        of thumb counts activations. `enough`: a bound above it need not be closer."""
        if states.bytes > enough or rule_of(self._spec, workload) != "recipe":
            return states.bytes
        first = states.first_stage
        passes = self._passes_bytes(workload, states.layers, enough - first)
        return max(states.bytes, self._with_process(first + passes, workload))

    def _with_process(self, tensors: float, workload: TrainingWorkload) -> float:
        """Return what a process with these tensors needs at the least [bytes]."""
        if self._profile is None:
            return tensors
        several, size = workload.gpus > 1, int(tensors)
        if several not in self._outside:
            self._outside[several] = outside_bytes(workload, self._profile)
        return size + least_fragmentation_bytes(size, self._profile) + self._outside[several]

    def _passes_bytes(self, workload: TrainingWorkload, layers: range, enough: float) -> float:
        """Return what the passes hold on the first stage at the least [bytes]: no gradient is
        kept.

        Tensor and context parallel ranks each hold at least their part of what fewer of them do:
        they divide tensors, and exchange more of them. A rank of fewer experts holds less. So
        another tape bounds it too, and a closer bound than `enough` takes a tape of its own."""
        layer = _Layer(
            workload.framework,
            workload.gpus > 1,
            workload.activation_checkpointing,
            workload.micro_batch_size,
            workload.expert_ways != workload.tensor_parallel,
        )
        ranks = _Ranks(
            workload.tensor_parallel, workload.context_parallel, expert_spread(self._spec, workload)
        )
        traced = self._traced.setdefault(layer, {})
        if ranks not in traced:
            least = self._extrapolated(workload, layers, layer, ranks)
            if least > enough:
                return least
            others = [other for other in traced if ranks.bounds(other)]
            if others:
                nearest = max(others, key=lambda other: (other.parts, -other.expert))
                part = nearest.parts / ranks.parts * _ROUNDED
                least = part * self._of_first_stage(workload, layers, layer, nearest)
                if least > enough:
                    return least
            traced[ranks] = segments(self._spec, computed(workload))
        return self._of_first_stage(workload, layers, layer, ranks)

    def _extrapolated(
        self, workload: TrainingWorkload, layers: range, layer: _Layer, ranks: _Ranks
    ) -> float:
        """Return what the tapes of a half and a quarter of the sequences say of all [bytes]; 0
        without them. Tensors have a size for every token or a constant one, so that a peak, the
        most of their sums, rises ever more steeply; a single sequence runs other operations."""
        if layer.micro_batch_size < _FROM_TWO:
            return 0
        half, quarter = (
            layer._replace(micro_batch_size=layer.micro_batch_size // part) for part in (2, 4)
        )
        if ranks not in self._traced.get(half, {}) or ranks not in self._traced.get(quarter, {}):
            return 0
        most, least = (
            self._of_first_stage(workload, layers, each, ranks) for each in (half, quarter)
        )
        return most + 2 * (most - least) * _ROUNDED

    def _of_first_stage(
        self, workload: TrainingWorkload, layers: range, layer: _Layer, ranks: _Ranks
    ) -> float:
        """Return what the passes hold by the tape of these ranks [bytes], with what FSDP gathers:
        the root all the time, and all layers at the loss where it keeps them."""
        stages = workload.pipeline_parallel
        key = layer, ranks, len(layers), stages == 1
        if key not in self._passes:
            self._passes[key] = _passes(self._traced[layer][ranks], layers, alone=stages == 1)
        passes = self._passes[key]
        highest = max(passes.forward_peak, passes.backward_peak)
        if stages > 1:
            return highest + int((self._held_at_once(workload) - 1) * passes.between)
        if workload.framework != "fsdp":
            return highest
        gathered = self._gathered(workload)
        unfreed = gathered.layers if workload.zero_stage == 2 else 0
        return gathered.root + max(highest, unfreed + passes.opening)

    def _held_at_once(self, workload: TrainingWorkload) -> float:
        """Return the micro-batches whose activations the first stage holds."""
        key = (
            workload.pipeline_schedule,
            workload.pipeline_parallel,
            workload.micro_batches,
            workload.pipeline_chunks,
        )
        if key not in self._in_flight:
            schedule, stages, micro_batches, chunks = key
            self._in_flight[key] = float(held(schedule, 0, stages, micro_batches, chunks).most)
        return self._in_flight[key]

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

    def _divided(self, layout: TrainingWorkload, shared: _States, routed: _States) -> float:
        """Return one rank's part of both: what every rank has whole counts as divided like the
        rest."""
        ranks = layout.data_parallel // layout.data_parallel_replicate * layout.context_parallel
        ways = layout.tensor_parallel
        expert_ways = layout.expert_parallel * layout.expert_ways
        return _share(shared, layout, ways, ranks) + _share(
            routed, layout, expert_ways, max(1, ranks * ways // expert_ways)
        )

    def _held(self, layout: TrainingWorkload, layers: range) -> tuple[_States, _States]:
        """Return what all have and what experts have of the first stage, which has these layers,
        before anything is divided."""
        framework, gpus = layout.framework, layout.gpus
        settings = (framework, gpus > 1)
        key = (*settings, layers.stop)
        if settings not in self._whole:
            alone = replace(self._bases(framework, gpus), framework=framework, zero_stage=3)
            self._whole[settings] = _whole(self._spec, alone)
        if key not in self._of_first:
            last = layers.stop == max(1, self._spec.layers)
            shared, routed = (
                stage_units(slices, layers, first=True, last=last)
                for slices in self._whole[settings]
            )
            self._of_first[key] = _summed(shared), _summed(routed)
        return self._of_first[key]


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
    size = whole.weights / (ranks if is_sharded("weights", layout) else 1)
    size += whole.states / (ranks if is_sharded("states", layout) else 1)
    if stay and not layout.steps_in_backward:
        size += whole.gradients / (ranks if is_sharded("gradients", layout) else 1)
    return size / ways


def _passes(model_segments: ModelSegments, layers: range, *, alone: bool) -> Passes:
    """Return those of the first stage without what is there before them and after them."""
    line = stage_segments(model_segments, None if alone else layers, last=alone)
    return simulated(StageSegments(segments=line.segments), stays=0)
