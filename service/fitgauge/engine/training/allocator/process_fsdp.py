"""A rank of FSDP on PyTorch's allocator, whose streams keep blocks apart: what is gathered, reduced
and cast on one serves no other.

FSDP2: shards are gathered into a buffer on a stream of its own and copied out parameter by
parameter; reduced gradients are made on another stream
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather,
foreach_all_gather_copy_out, foreach_reduce). FSDP1: a unit is one flat parameter, gathered on a
stream, cast on a second and reduced on a third, and is whole on the device when it is made
(torch/distributed/fsdp/_flat_param.py; _runtime_utils.py, _unshard, _reduce_grad;
_init_utils.py)."""

from collections.abc import Sequence
from typing import NamedTuple

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.allocator.caching import Block
from fitgauge.engine.training.allocator.moves import Moves
from fitgauge.engine.training.allocator.process import (
    MICRO_BATCHES,
    STEPS,
    Pending,
    Process,
    lined,
    of_each,
)
from fitgauge.engine.training.autograd.passes import in_order
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.parallel import fsdp
from fitgauge.engine.training.states.parameters import Parameter, units
from fitgauge.engine.training.states.sharding import gathered_bytes, shard, tensor_slice
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

GATHER, REDUCE, CAST = 1, 2, 3
"""Streams beside the one that computes."""


class Sizes(NamedTuple):
    """Bytes of a unit's parameters, one after another: `whole`, as FSDP1 is given them;
    `shards`, kept; `narrow`, all shards that are cast before they are gathered; `copies`,
    gathered. `group`: what they are when communicated."""

    whole: Sequence[int]
    shards: Sequence[int]
    narrow: int
    copies: Sequence[int]
    group: fsdp.Group


class Wrapped(NamedTuple):
    """A unit of FSDP: its parameters' sizes and the segments it runs."""

    sizes: Sizes
    line: Sequence[Moves]


class Rank(Process):
    """A process under FSDP. `step`: what it gathers, and when; `flat`: FSDP1. `buffer`: the last
    gather's; `sent`: what the last reduce-scatter reads; `late`: gathered parameters that
    another stream may still read; `shards` of gradients, `adds`: they are there."""

    def __init__(self, workload: TrainingWorkload, step: fsdp.Step) -> None:
        super().__init__(workload)
        form = precision_policy(workload)
        self.step, self.flat = step, workload.fsdp_version == 1
        self.narrowing = BITS[form.gradients] // BITS[form.compute]
        self.buffer: Block | None = None
        self.sent: Block | None = None
        self.late: list[Block] = []
        self.shards: list[Block | None] = []
        self.adds = False

    def shard(self, unit: Wrapped) -> None:
        """Allocate the shard of a unit; FSDP1 cuts it from the whole."""
        if self.workload.offload in ("parameters", "cpu", "nvme"):
            return
        if self.flat:
            passing = self.take_all([*unit.sizes.whole, sum(unit.sizes.whole)])
            self.take(sum(unit.sizes.shards))
            self.give(*passing)
        else:
            self.take_all(unit.sizes.shards)

    def gather(self, unit: Wrapped) -> Block | None:
        """Return what an all-gather writes, after the shard was cast."""
        cast = self.take(unit.sizes.narrow, CAST if self.flat else GATHER)
        gathered = self.take(unit.sizes.group.gathered, GATHER)
        self.give(cast)
        return gathered

    def unshard(self, unit: Wrapped, gathered: Block | None, *, stays: bool = True) -> list[Block]:
        """Return the parameters as the unit reads them. FSDP2 copies them out; the buffer goes
        then, or, where it `stays`, with the next one."""
        if self.flat:
            return [] if gathered is None else [gathered]
        copies = self.take_all(unit.sizes.copies)
        self.give(self.buffer if stays else gathered)
        self.buffer = gathered if stays else None
        return copies

    def reshard(self, parameters: list[Block]) -> None:
        """Let go of gathered parameters. FSDP1's block is free only when the stream that read it
        is done, and what is queued is ahead of it: the next is gathered first, the root's of the
        next step too (Tensor.record_stream)."""
        self.settle()
        if self.flat:
            self.late = parameters
        else:
            self.give(*parameters)

    def settle(self) -> None:
        """Let go of what another stream was still reading."""
        self.give(*self.late)
        self.late = []

    def reduce(self, unit: Wrapped, gradients: Sequence[Block]) -> None:
        """Make this rank's shard of a unit's gradients, which goes to the host, is added to the
        one that is there, or is kept; what the reduce-scatter reads goes when the next one is
        made."""
        group = unit.sizes.group
        if not group.reduced:
            self.give(*gradients)
            return
        sent = self.take(group.gradients if self.flat else group.reduced)
        self.give(*gradients, self.sent)
        self.sent = sent
        narrow = self.take(
            group.shard // self.narrowing if self.flat and self.narrowing > 1 else 0, REDUCE
        )
        made = self.take(group.shard, REDUCE)
        self.give(narrow)
        if self.adds or self.step.offload:
            self.give(made)
        else:
            self.shards.append(made)


def sharded_process(spec: ModelSpec, workload: TrainingWorkload) -> Process:
    """Return one rank of FSDP."""
    step = fsdp.step_of(spec, workload)
    rank = Rank(workload, step)
    root, inner, ends, stepped = _wrapped(spec, workload, step)
    for unit in (*inner, root):
        rank.shard(unit)
    stepping, passing = rank.stepping(stepped), list[Block]()
    for number in range(STEPS):
        rank.give(*passing, *rank.shards)
        rank.shards.clear()
        for micro_batch in range(min(workload.micro_batches, MICRO_BATCHES, number + 1)):
            rank.adds = micro_batch > 0
            _passes(rank, root, inner, ends)
        if number == 0:
            rank.start_optimizer(stepped)
        passing = rank.take_all(stepping)
    return rank


def _wrapped(
    spec: ModelSpec, workload: TrainingWorkload, step: fsdp.Step
) -> tuple[Wrapped, list[Wrapped], tuple[list[Moves], list[Moves]], list[Parameter]]:
    """Return (the root, the units inside it in their order, the root's own segments before and
    after them, the shards that are trained)."""
    cut, found = segments(spec, fsdp.computed(workload)), units(spec, workload)
    first, *lines, last = lined([cut.embedding, *in_order(cut), cut.head])
    pieces = [
        [tensor_slice(parameter, unit.part, workload) for parameter in unit.parameters]
        for unit in found
    ]
    placed = [
        kind
        for _, kind in sorted(
            (number, kind)
            for kind, unit in enumerate(found)
            if fsdp.is_layer(unit)
            for number in unit.layers
        )
    ]
    inner = [pieces[kind] for kind in placed]
    rest = [
        (unit.part is Part.EMBEDDING, piece)
        for unit, piece in zip(found, pieces, strict=True)
        if not fsdp.is_layer(unit)
    ]
    root = [parameter for _, piece in rest for parameter in piece]
    if len(step.groups) > len(inner):  # embedding and head are units of their own
        ends = [
            [parameter for early, piece in rest if early is wanted for parameter in piece]
            for wanted in (True, False)
        ]
        inner, lines, root = [ends[0], *inner, ends[1]], [first, *lines, last], []
        first, last = [], []
    sized: dict[int, Sizes] = {}
    for parameters, group in zip(inner, step.groups, strict=True):
        if id(parameters) not in sized:
            sized[id(parameters)] = _sizes(parameters, group, workload)
    wrapped = [
        Wrapped(sized[id(parameters)], line) for parameters, line in zip(inner, lines, strict=True)
    ]
    trained = [
        parameter for parameters in (root, *inner) for parameter in parameters if parameter.trained
    ]
    stepped = of_each(trained, lambda parameter: shard(parameter, workload))
    return Wrapped(_sizes(root, step.root, workload), []), wrapped, (first, last), stepped


def _sizes(parameters: Sequence[Parameter], group: fsdp.Group, workload: TrainingWorkload) -> Sizes:
    form, shards = (
        precision_policy(workload),
        [shard(parameter, workload) for parameter in parameters],
    )
    width = BITS[form.compute] // 8
    cast = [
        piece.elements * width
        for piece in shards
        if piece.form is None and form.weights != form.compute
    ]
    return Sizes(
        whole=[parameter.bytes for parameter in parameters],
        shards=[piece.bytes for piece in shards],
        narrow=sum(cast),
        copies=[gathered_bytes([parameter], workload, width) for parameter in parameters],
        group=group,
    )


def _passes(
    rank: Rank, root: Wrapped, inner: Sequence[Wrapped], ends: tuple[list[Moves], list[Moves]]
) -> None:
    """Both passes of one micro-batch, in the order of fsdp.py."""
    step = rank.step
    constants = rank.take(step.constants)
    kept, held = [rank.unshard(root, rank.gather(root))], list[list[Pending]]()
    rank.settle()
    before, given = rank.forward(ends[0])
    for unit in inner:
        parameters = rank.unshard(unit, rank.gather(unit))
        rank.settle()
        line, given = rank.forward(unit.line, given)
        held.append(line)
        if step.reshard:
            rank.reshard(parameters)
        else:
            kept.append(parameters)
    after, _ = rank.forward(ends[1], given)
    rank.settle()
    rank.give(rank.buffer)
    rank.buffer = None
    rank.let_go([*held[-1], *after])
    made, gradient = rank.backward(after)
    hooked, ahead = list[Block | None](), None
    for number in range(len(inner) - 1, -1, -1):
        unit, line = inner[number], held[number]
        if step.reshard:
            kept.append(rank.unshard(unit, ahead or rank.gather(unit), stays=False))
            ahead = rank.gather(inner[number - 1]) if step.prefetch and number else None
        rank.settle()
        if step.hooked:
            hooked += [
                gradient,
                *(
                    part.blocks.pop(part.moves.start, None)
                    for part in line
                    if part.moves.start is not None
                ),
            ]
            gradient = None
        gradients, gradient = rank.backward(line, gradient)
        rank.reshard(kept.pop())
        rank.reduce(unit, gradients)
    first, gradient = rank.backward(before, gradient)
    rank.reshard(kept.pop())
    rank.give(
        gradient, constants, *dict.fromkeys(hooked)
    )  # a layer that is left out hands on its input itself
    rank.reduce(root, [*made, *first])
    rank.give(rank.sent)
    rank.sent = None
