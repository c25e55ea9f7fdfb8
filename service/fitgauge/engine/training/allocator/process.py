"""A training process on PyTorch's allocator: what it reserves beside what is allocated, from two
steps played move by move.

In the first step nothing is cached, in the second there are the optimizer's states; later ones
are as the second. What goes at the end of a step is let go of where the next begins: nothing is
asked for between them, and none follows the last."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.serving.allocator import SMALL_BYTES
from fitgauge.engine.training.allocator.caching import Block, CachingAllocator
from fitgauge.engine.training.allocator.moves import SEED, Move, Moves, moves_of
from fitgauge.engine.training.autograd.passes import in_order
from fitgauge.engine.training.autograd.segment import Segment
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.states.optimizer_states import (
    optimizer_bytes,
    step_bytes,
    steps_at_once,
)
from fitgauge.engine.training.states.parameters import Parameter, units
from fitgauge.engine.training.states.sharding import tensor_slice
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

STEPS = 2
"""See the module."""
MICRO_BATCHES = 2
"""Of a step that has more: the first makes its gradients, the others add to them. The first step
is played with one."""
Derived = TypeVar("Derived")


class Pending(NamedTuple):
    """A segment whose backward pass is to come: the blocks of its slots."""

    moves: Moves
    blocks: dict[int, Block]


class Process:
    """Blocks by the tensors they are for; None stands for a tensor of up to 1 MiB, which is not
    counted."""

    def __init__(self, workload: TrainingWorkload) -> None:
        self.workload = workload
        self.allocator = CachingAllocator(growing=workload.uses_expandable_segments)
        self.loose: list[Block] = []

    @property
    def kept_in_vain(self) -> int:
        """Bytes that are reserved beyond the most that were allocated."""
        return self.allocator.reserved - self.allocator.most_allocated

    def take(self, size: int, stream: int = 0) -> Block | None:
        """Return a block for a tensor."""
        return self.allocator.take(size, stream) if size > SMALL_BYTES else None

    def take_all(self, sizes: Iterable[int], stream: int = 0) -> list[Block]:
        """Return blocks for tensors that go together."""
        return [self.allocator.take(size, stream) for size in sizes if size > SMALL_BYTES]

    def give(self, *blocks: Block | None) -> None:
        """Let go of tensors."""
        for block in blocks:
            if block is not None:
                self.allocator.give(block)

    def forward(
        self, line: Sequence[Moves], start: Block | None = None
    ) -> tuple[list[Pending], Block | None]:
        """Return the forward pass of segments in their order; (what they hold, the last one's
        output). What goes at its end is in `loose`."""
        line_held, given = [], start
        for moves in line:
            blocks = {} if moves.start is None or given is None else {moves.start: given}
            self._play(moves.forward, blocks)
            given = blocks.get(moves.output)
            if not moves.held:
                self.loose += [blocks.pop(slot) for slot in moves.loose if slot in blocks]
            line_held.append(Pending(moves, blocks))
        return line_held, given

    def let_go(self, held: Iterable[Pending] = ()) -> None:
        """Let go of what is loose, and of what the caller holds of segments: of these, before
        the backward pass."""
        self.loose += [
            blocks.pop(slot) for moves, blocks in held for slot in moves.loose if slot in blocks
        ]
        self.give(*self.loose)
        self.loose.clear()

    def backward(
        self, line: Sequence[Pending], gradient: Block | None = None, *, adds: bool = False
    ) -> tuple[list[Block], Block | None]:
        """Return the backward pass of what `forward` gave; (gradients of parameters, that of the
        first segment's input). `adds`: there are gradients already, to which a segment's are
        added, or they are stepped with at once."""
        found: list[Block] = []
        for moves, blocks in reversed(line):
            blocks.pop(moves.output, None)  # the segment after it let go of it
            if gradient is not None:
                blocks[SEED] = gradient
            self.loose += [blocks.pop(slot) for slot in moves.loose if slot in blocks]
            self._play(moves.backward, blocks)
            made = [blocks.pop(slot) for slot in moves.gradients if slot in blocks]
            if adds:
                self.give(*made)
            else:
                found += made
            gradient = None if moves.handed is None else blocks.get(moves.handed)
        return found, gradient

    def start_optimizer(self, trained: Sequence[Parameter]) -> None:
        """Allocate the optimizer's states in the first step: two per parameter, as Adam does."""
        if self.workload.offload == "none" and not self.workload.optimizer.startswith("paged"):
            form, optimizer = precision_policy(self.workload), self.workload.optimizer
            for size in of_each(
                trained, lambda parameter: optimizer_bytes(parameter, optimizer, form) // 2
            ):
                self.take_all((size, size))

    def stepping(self, trained: Sequence[Parameter]) -> list[int]:
        """Return what a step holds while it runs: something of every parameter at once, or of
        one or two [bytes]."""
        if self.workload.offload != "none":
            return []
        if steps_at_once(self.workload):
            return of_each(trained, lambda parameter: step_bytes([parameter], self.workload))
        return [step_bytes(trained, self.workload)]

    def _play(self, moves: Iterable[Move], blocks: dict[int, Block]) -> None:
        take, give = self.allocator.take, self.allocator.give
        for slot, size in moves:
            if size:
                blocks[slot] = take(size)
            elif slot in blocks:
                give(blocks.pop(slot))


def whole_process(spec: ModelSpec, workload: TrainingWorkload) -> Process:
    """Return a process that holds its whole part of every parameter: transformers, alone or with
    a copy on every card."""
    process, cut = Process(workload), segments(spec, workload)
    parameters = _parameters(spec, workload)
    trained = [parameter for parameter in parameters if parameter.trained]
    stepping = process.stepping(trained)
    process.take_all(of_each(parameters, lambda parameter: parameter.bytes))
    line = [moves for part in lined([cut.embedding, *in_order(cut), cut.head]) for moves in part]
    gradients, passing = list[Block](), list[Block]()
    for step in range(STEPS):
        process.give(*passing, *gradients)
        gradients = []
        for _ in range(min(workload.micro_batches, MICRO_BATCHES, step + 1)):
            constants = process.take(cut.constants)
            held, _ = process.forward(line)
            process.let_go()
            made, last = process.backward(held, adds=bool(gradients) or workload.steps_in_backward)
            process.let_go()
            process.give(last, constants)
            gradients += made
        if step == 0:
            process.start_optimizer(trained)
        passing = process.take_all(stepping)
    return process


def lined(line: Sequence[Segment]) -> list[list[Moves]]:
    """Return the moves of every segment, those alike worked out once."""
    made = {
        number: [moves_of(play) for play in segment.plays]
        for number, segment in {id(segment): segment for segment in line}.items()
    }
    return [made[id(segment)] for segment in line]


def of_each(
    parameters: Sequence[Parameter], derive: Callable[[Parameter], Derived]
) -> list[Derived]:
    """Return what is derived of every parameter, of those of layers alike once."""
    found: dict[int, Derived] = {}
    for parameter in parameters:
        if id(parameter) not in found:
            found[id(parameter)] = derive(parameter)
    return [found[id(parameter)] for parameter in parameters]


def _parameters(spec: ModelSpec, workload: TrainingWorkload) -> list[Parameter]:
    """Return every parameter as a rank has it, in the order of modules: embeddings, numbered
    layers, the rest."""
    found = [
        (unit, [tensor_slice(parameter, unit.part, workload) for parameter in unit.parameters])
        for unit in units(spec, workload)
    ]
    placed = [
        ((unit.part is not Part.EMBEDDING, not unit.repeated, number), pieces)
        for unit, pieces in found
        for number in unit.layers or (0,)
    ]
    placed.sort(key=lambda one: one[0])
    return [parameter for _, pieces in placed for parameter in pieces]
