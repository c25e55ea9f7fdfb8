"""One rank of every pipeline stage over a step: forward and backward passes and the optimizer's step, each with its parts."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from fitgauge.engine.architecture import Kind, ModelSpec, Part
from fitgauge.engine.dtypes import BITS
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training import fsdp, zero
from fitgauge.engine.training.activations import in_order
from fitgauge.engine.training.parameters import Parameter, Unit, units
from fitgauge.engine.training.pipeline import held, pipeline_stages
from fitgauge.engine.training.segments import Cut, Segment, segments
from fitgauge.engine.training.sharding import RankStates, divided, stage_states, stage_units, tensor_slice
from fitgauge.engine.training.workload import TrainingWorkload, regime

PhaseName = Literal["forward", "backward", "optimizer_step"]


class Amount(msgspec.Struct, frozen=True, gc=False):
    """A named part of a phase [bytes], with its interval."""

    name: str
    size: Bytes
    formula: str


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a step at its highest moment. `total`: the sum of its parts [bytes]."""

    name: PhaseName
    parts: tuple[Amount, ...]

    @property
    def total(self) -> int:
        """Expected bytes of all parts."""
        return sum(part.size.expected for part in self.parts)


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a pipeline stage. `host`: bytes it keeps in host memory; `in_flight`: micro-batches whose activations it holds."""

    number: int
    layers: int
    parameters: int
    phases: tuple[Phase, ...]
    in_flight: float
    host: int

    @property
    def highest(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda phase: phase.total)


def stages(spec: ModelSpec, workload: TrainingWorkload) -> tuple[Stage, ...]:
    """Every pipeline stage of a run; without pipeline parallelism one."""
    layers = pipeline_stages(max(1, spec.layers), workload.pipeline_parallel)
    found = units(spec, workload)
    last = len(layers) - 1
    return tuple(_stage(spec, workload, found, number, span, last) for number, span in enumerate(layers))


def _stage(spec: ModelSpec, workload: TrainingWorkload, found: Sequence[Unit], number: int, layers: range, last: int) -> Stage:
    here = stage_units(found, layers, first=number == 0, last=number == last)
    sliced = [([tensor_slice(p, unit.part, workload) for p in unit.parameters], count) for unit, count in here]
    if last and number == last and spec.tied_embeddings:
        shared = [tensor_slice(p, unit.part, workload) for unit in found for p in unit.parameters if _shared(unit, p, spec)]
        sliced.append((shared, 1))
    rank = stage_states(sliced, workload)
    in_flight = held(workload.pipeline_schedule, number, last + 1, workload.micro_batches).most
    if workload.framework == "fsdp":
        phases = _fsdp_phases(spec, workload, rank)
    else:
        largest = max((sum(p.elements for p in pieces) for pieces, _ in sliced), default=0)
        line = _line(segments(spec, workload), layers if last else None, first=number == 0, last=number == last)
        phases = _phases(spec, workload, rank, sliced, line, float(in_flight), largest, number)
    return Stage(
        number=number,
        layers=len(layers),
        parameters=_elements(sliced),
        phases=phases,
        in_flight=float(in_flight),
        host=rank.host,
    )


def _elements(sliced: Sequence[tuple[Sequence[Parameter], int]]) -> int:
    """Numbers of all parameters."""
    return sum(count * sum(parameter.elements for parameter in parameters) for parameters, count in sliced)


def _shared(unit: Unit, parameter: Parameter, spec: ModelSpec) -> bool:
    """Whether a tied embedding is this parameter: the last stage keeps a copy of it as its head."""
    return unit.part is Part.EMBEDDING and parameter.kind is Kind.EMBEDDING and parameter.shape[0] == spec.vocabulary_size


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of a stage in their order, with what is there before them and what the embedding shares with the head."""

    segments: tuple[Segment, ...]
    constants: int
    tied: int


def _line(cut: Cut, layers: range | None, *, first: bool, last: bool) -> _Line:
    middle = in_order(cut, layers)
    line = (*((cut.embedding,) if first else ()), *middle, *((cut.head,) if last else ()))
    return _Line(segments=line, constants=cut.constants, tied=cut.tied_bytes if first and last else 0)


class _Passes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The highest moments of both passes beyond states, what is left between them, and gradients at the backward moment [bytes]."""

    forward: int
    between: int
    backward: int
    gradients: int


def _play(line: _Line, *, stays: float) -> _Passes:
    """Both passes of one micro-batch. `stays`: the share of a segment's gradients that this rank keeps when the segment has ended: all of
    them, its shard, or none where they go into main gradients."""
    live, forward = line.constants, 0
    for segment in line.segments:
        forward = max(forward, live + segment.forward.peak)
        live += segment.forward.end
    live -= sum(segment.casts for segment in line.segments)
    between, backward, at, done = live, 0, 0, 0
    for number, segment in enumerate(reversed(line.segments)):
        shared = line.tied if number == len(line.segments) - 1 else 0
        peak = live + segment.backward.peak + shared
        if peak > backward:
            backward, at = peak, done
        kept = segment.gradients if stays == 1 else int(stays * segment.gradients)
        live += segment.backward.end - shared - (segment.gradients - kept)
        done += kept
    return _Passes(forward=forward, between=between, backward=backward, gradients=at)


def _phases(
    spec: ModelSpec,
    workload: TrainingWorkload,
    rank: RankStates,
    sliced: Sequence[tuple[Sequence[Parameter], int]],
    line: _Line,
    in_flight: float,
    largest: int,
    number: int,
) -> tuple[Phase, ...]:
    """The phases of every framework but FSDP.

    Main gradients (Megatron) and ZeRO-3's shards are there all the time, other gradients come with the backward pass and stay through all
    passes of a step with more than one micro-batch. A stage but the first holds its input for every micro-batch in flight.
    """
    form, trained = regime(workload), _elements([([p for p in pieces if p.trained], count) for pieces, count in sliced])
    width = BITS[form.weights] // 8
    standing = (
        workload.framework == "megatron" or (workload.framework == "deepspeed" and workload.zero_stage == 3) or workload.micro_batches > 1
    )
    made = sum(segment.gradients for segment in line.segments) or 1
    sharded = workload.framework == "deepspeed" and divided("gradients", workload)
    passes = _play(line, stays=0 if standing else rank.gradients / made if sharded else 1)
    received = 0 if number == 0 else workload.tokens // workload.context_parallel * spec.hidden_size * width
    received //= workload.tensor_parallel if workload.sequence_parallel else 1
    others = int((in_flight - 1) * (passes.between - line.constants + received)) + received
    swapped = zero.exchange(workload, rank, trained=trained, held=_elements(sliced), largest=largest, width=width)
    kept = _states(rank)
    during = [_amount("gradients", rank.gradients)] if standing else []
    exchanged = [Amount("communication", swapped.buckets, "buckets"), Amount("gathered_weights", swapped.gathered, "parameters in use")]
    own = [_amount("gradients", passes.gradients)]
    stepping = _amount("optimizer_temporaries", rank.step_temporaries + swapped.step_copies)
    back = _amount("activations", others + passes.backward - passes.gradients)
    return (
        _phase("forward", [*kept, *during, exchanged[1], _amount("activations", others + passes.forward)]),
        _phase("backward", [*kept, *during, *own, *exchanged, back]),
        _phase("optimizer_step", [*kept, _amount("gradients", rank.gradients), exchanged[0], stepping]),
    )


def _phase(name: PhaseName, parts: Sequence[Amount]) -> Phase:
    return Phase(name=name, parts=tuple(part for part in parts if part.size.high))


def _fsdp_phases(spec: ModelSpec, workload: TrainingWorkload, rank: RankStates) -> tuple[Phase, ...]:
    """The phases of FSDP2, each at its highest moment."""
    kept, moments = _states(rank), list(fsdp.moments(fsdp.step_of(spec, workload)))
    found = [_fsdp_phase("forward", kept, moments), _fsdp_phase("backward", kept, moments)]
    step = [*kept, _amount("gradients", rank.gradients), _amount("optimizer_temporaries", rank.step_temporaries)]
    return (*found, _phase("optimizer_step", step))


def _fsdp_phase(name: PhaseName, kept: Sequence[Amount], moments: Sequence[fsdp.Moment]) -> Phase:
    top = max((moment for moment in moments if moment.phase == name), key=lambda moment: moment.total)
    parts = (
        _amount("gradients", top.shards),
        _amount("gathered_weights", top.gathered),
        _amount("communication", top.buffers),
        _amount("activations", top.activations),
    )
    return _phase(name, [*kept, *parts])


def _states(rank: RankStates) -> list[Amount]:
    return [
        _amount("weights", rank.weights),
        _amount("master_weights", rank.master_weights),
        _amount("optimizer_states", rank.optimizer_states),
    ]


def _amount(name: str, size: int) -> Amount:
    return Amount(name, Bytes(low=size, expected=size, high=size), "")
