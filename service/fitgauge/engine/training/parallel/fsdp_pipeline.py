"""FSDP2 inside a stage of PyTorch's pipelines, as torchtitan runs them: every moment of a step on
one rank.

A stage switches FSDP's reduction and its freeing after the backward pass off, so that gradients
are summed whole, in the format they are reduced in, and reduces them when the last micro-batch
is done. Source: torch/distributed/pipelining/stage.py (backward_maybe_with_nosync,
perform_reduce_grad), torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (post_backward),
_fsdp_param.py (to_accumulated_grad_if_needed); torchtitan distributed/fsdp.py,
apply_fsdp_to_decoder: embedding, layers and head are a unit each."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.autograd.passes import in_order
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.parallel.fsdp import computed, group_of, is_layer, reduced_width
from fitgauge.engine.training.parallel.fsdp_moments import Group, Moment, Segment
from fitgauge.engine.training.parallel.pipeline import held
from fitgauge.engine.training.states.sharding import RankUnit
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

ACTIVE_CHUNKS = 3
"""Chunks of a rank that are gathered at once. Source: torch/distributed/pipelining/schedules.py,
_add_unshard_reshard."""


class Unit(NamedTuple):
    """A unit of FSDP with what it runs.
    Where gradients are summed in the format they are made in, each is added at once; all of a unit
    are taken to be there all the same."""

    group: Group
    """Its parameters."""
    segment: Segment
    """What it runs."""
    summed: int
    """Its gradients, whole, as they are added up over micro-batches [bytes]."""
    largest: int = 0
    """The largest of them as it is made [bytes]."""
    lingers: int = 0
    """Of the sums, what their reduction still references at its end: the last, which is a table in
    embedding and head and a norm in a layer [bytes]."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of one rank."""

    units: Sequence[Unit]
    """Its units in their order."""
    reshard: bool
    """Whether parameters are freed after the forward pass."""
    active: float = 1
    """Share of them that is gathered at once where they are not freed."""
    offload: bool = False
    """Whether shards of gradients go to the host."""
    others: int = 0
    """What the micro-batches in flight but one retain [bytes]."""
    between: int = 0
    """What one of them retains [bytes]."""
    received: int = 0
    """Buffers of the neighbouring stages, there all the time [bytes]."""
    sent: int = 0
    """A gradient on its way to the stage before [bytes]."""
    left: int = 0
    """What the schedule still references at the end [bytes]."""
    constants: int = 0
    """Rotary tables and masks [bytes]."""
    turns: bool = False
    """Whether a forward pass runs after a backward pass."""
    adds: bool = False
    """Whether there is more than one micro-batch."""

    @property
    def gathered(self) -> int:
        """Parameters of all units [bytes]."""
        return sum(unit.group.gathered for unit in self.units)

    @property
    def summed(self) -> int:
        """Gradients of all units between two micro-batches [bytes]."""
        return sum(unit.summed for unit in self.units)


def moments(step: Step) -> Iterator[Moment]:
    """Yield every moment that can be the highest: the first forward passes, those between
    backward passes, the first backward pass, which makes the sums, the next, which adds to them,
    and their reduction."""
    alone, full = step.constants, step.constants + step.others
    yield from _forward(step, full if step.reshard else alone, gathers=True)
    if not step.reshard:
        yield from _forward(step, full)
    if step.turns:
        yield from _forward(step, full + step.sent, summed=step.summed)
    after = full + sum(unit.segment.forward.end for unit in step.units)
    yield from _backward(step, after)
    if step.adds:
        yield from _backward(
            step, after + step.sent - (0 if step.turns else step.between), adds=True
        )
    yield from _reduction(step)


def _forward(step: Step, live: int, *, gathers: bool = False, summed: int = 0) -> Iterator[Moment]:
    """Yield a forward pass over what is `live`. `gathers`: nothing is gathered yet; after a
    backward pass everything is."""
    unsharded, before = 0 if gathers else step.gathered, 0
    for group, segment, *_ in step.units:
        if gathers:
            buffers = step.received + before + group.gathered
            yield Moment(
                phase="forward",
                gathered=int(unsharded * step.active),
                buffers=buffers,
                shards=summed,
                activations=live,
            )
            unsharded, before = unsharded + group.gathered, group.gathered
        peak = live + segment.forward.peak
        gathered = int(unsharded * step.active)
        yield Moment(
            phase="forward",
            gathered=gathered,
            buffers=step.received + before,
            shards=summed,
            activations=peak,
        )
        live += segment.forward.end
        unsharded -= group.gathered if step.reshard else 0


def _backward(step: Step, live: int, *, adds: bool = False) -> Iterator[Moment]:
    """Yield a backward pass, which frees no parameters. `adds`: to sums that are there; else a
    unit's are made of its gradients, one by one."""
    unsharded, summed = 0 if step.reshard else step.gathered, step.summed if adds else 0
    ahead = [0, *(unit.group.gathered if step.reshard else 0 for unit in step.units)]
    for number in range(len(step.units) - 1, -1, -1):
        group, segment, gradient, largest, _ = step.units[number]
        unsharded += group.gathered if step.reshard else 0
        peak, buffers = live + segment.backward.peak, step.received + ahead[number]
        yield Moment(
            phase="backward",
            gathered=int(unsharded * step.active),
            buffers=buffers,
            shards=summed,
            activations=peak,
        )
        live += segment.backward.end - segment.gradients
        if not adds:
            summed += gradient
            yield Moment(
                phase="backward",
                gathered=int(unsharded * step.active),
                buffers=buffers,
                shards=summed,
                activations=live + largest,
            )


def _reduction(step: Step) -> Iterator[Moment]:
    """Yield the sums reduced, unit by unit from the first: its parameters go, the reduce-scatter
    reads a copy, which stays until the next one's, and makes the shard (_fsdp_collectives.py,
    foreach_reduce)."""
    unsharded = step.gathered
    summed = step.summed
    shards = 0
    buffers = 0
    live = step.constants + step.left
    for group, _, gradient, _, lingers in step.units:
        unsharded, buffers = unsharded - group.gathered, step.received + group.reduced
        gathered = int(unsharded * step.active)
        yield Moment(
            phase="backward",
            gathered=gathered,
            buffers=buffers,
            shards=summed + shards,
            activations=live,
        )
        summed, shards = summed - gradient, group.shard + (0 if step.offload else shards)
        yield Moment(
            phase="backward",
            gathered=gathered,
            buffers=buffers,
            shards=summed + lingers + shards,
            activations=live,
        )
    yield Moment(phase="backward", gathered=0, buffers=buffers, shards=shards, activations=live)


def received_bytes(spec: ModelSpec, workload: TrainingWorkload, stage: int) -> int:
    """Return what a rank keeps for its neighbours [bytes]: an input and an output's gradient of
    every micro-batch and chunk, tokens x hidden each (cut by tokens under sequence parallelism),
    made once (stage.py, _setup_forward_recv_info, _setup_backward_recv_info)."""
    stream = (
        workload.tokens
        // workload.context_parallel
        * spec.hidden_size
        * BITS[precision_policy(workload).compute]
        // 8
    )
    stream //= workload.tensor_parallel if workload.sequence_parallel else 1
    chunks = workload.pipeline_chunks if workload.pipeline_schedule == "interleaved" else 1
    ends = (stage == 0) + (stage == workload.pipeline_parallel - 1)
    return workload.micro_batches * stream * (2 * chunks - ends)


def step_of(
    spec: ModelSpec,
    workload: TrainingWorkload,
    slices: Sequence[tuple[RankUnit, int]],
    layers: range,
    stage: int,
) -> Step:
    """Return the step of a stage that has these slices and these `layers`. The last stage holds
    its logits until their backward pass is done (stage.py, backward_one_chunk: stage_output); no
    segment lets go of an input or of an output's gradient that lies in a buffer. 1F1B names a
    gradient it sent until it sends the next (schedules.py, Schedule1F1B), and like GPipe the
    last it made of all. The head is in the last chunk of all, whose forward pass its backward
    pass follows at once."""
    model_segments = segments(spec, computed(workload))
    wide = BITS[precision_policy(workload).compute] // 8
    sums = reduced_width(workload)
    stage_segments = list(in_order(model_segments, layers))
    kinds = {
        number: piece for piece, _ in slices if is_layer(piece.unit) for number in piece.unit.layers
    }
    pieces = [kinds[number].parameters for number in layers]
    end = tuple(
        p for piece, count in slices if not is_layer(piece.unit) for p in piece.parameters * count
    )
    if stage == 0:
        pieces, stage_segments = [end, *pieces], [model_segments.embedding, *stage_segments]
    if stage == workload.pipeline_parallel - 1:
        pieces, stage_segments = [*pieces, end], [*stage_segments, model_segments.head]
    groups = {id(piece): group_of(piece, workload) for piece in pieces}
    runs = [
        Segment(forward=each.forward, backward=each.backward, gradients=each.released)
        for each in stage_segments
    ]
    input_bytes = stage_segments[0].input_bytes if stage > 0 else 0
    handed = stage_segments[-1].output_bytes if stage < workload.pipeline_parallel - 1 else 0
    if not stage_segments[0].retains_input:
        runs[0] = replace(runs[0], forward=_holding(runs[0].forward, input_bytes))
    runs[-1] = replace(runs[-1], backward=_holding(runs[-1].backward, handed))
    units = []
    for piece, run in zip(pieces, runs, strict=True):
        group = groups[id(piece)]
        largest = (
            max((parameter.elements for parameter in piece if parameter.trained), default=0) * wide
        )
        lingers = largest // wide * sums if piece is end else 0
        units.append(Unit(group, run, group.gradients // wide * sums, largest, lingers))
    in_flight = held(
        workload.pipeline_schedule,
        stage,
        workload.pipeline_parallel,
        workload.micro_batches,
        workload.pipeline_chunks,
    ).most
    between = sum(unit.segment.forward.end for unit in units)
    interleaved = workload.pipeline_schedule == "interleaved"
    once = runs[-1].forward.end if interleaved and stage == workload.pipeline_parallel - 1 else 0
    return Step(
        units=units,
        reshard=workload.zero_stage == 3,
        active=min(1, ACTIVE_CHUNKS / workload.pipeline_chunks) if interleaved else 1,
        offload=workload.offload != "none",
        others=int((in_flight - 1) * (between - once)),
        between=between,
        received=received_bytes(spec, workload, stage),
        sent=input_bytes if workload.pipeline_schedule == "1f1b" else 0,
        left=0 if interleaved else input_bytes + handed,
        constants=model_segments.constants + model_segments.passing + model_segments.masks,
        turns=workload.micro_batches > in_flight,
        adds=workload.micro_batches > 1,
    )


def _holding(run: Pass, size: int) -> Pass:
    """Return the pass where it never lets go of what it was given; its highest moment is taken
    to come after it would have."""
    return Pass(peak=run.peak + size, end=run.end + size)
