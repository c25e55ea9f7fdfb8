"""What a segment takes of the allocator and gives back, in the order of its operations: the
tape's two passes with every tensor apart."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from fitgauge.engine.serving.allocator import SMALL_BYTES
from fitgauge.engine.training.autograd.operations import Operation, Value
from fitgauge.engine.training.autograd.segment import LayerTrace
from fitgauge.engine.training.autograd.tape import Tape

Move = tuple[int, int]
"""(slot, bytes that are taken for it), or (slot, 0) where it is given back."""
SEED = -1
"""The slot of the gradient of a segment's output, which the segment after it made."""


class Moves(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The moves of one segment in either pass, of tensors larger than 1 MiB. Of layers, which are
    many, only of those that are there at the highest moment or outlive the pass: others fit where
    these were.

    Slots: `start`, its input; `output`; `handed`, the gradient of its input, which the segment
    before reads; `gradients` of parameters, which stay; `loose`, what goes when the whole
    forward pass has ended, or, where `held`, when its caller lets it go. None where there is no
    such tensor."""

    forward: tuple[Move, ...]
    backward: tuple[Move, ...]
    start: int | None
    output: int
    handed: int | None
    gradients: tuple[int, ...]
    loose: tuple[int, ...]
    held: bool


@lru_cache(maxsize=256)
def moves_of(play: LayerTrace) -> Moves:
    """Return the moves of what is written on a tape: all, or of what has its like those that
    matter. Megatron's tapes are not played: what they restore before a backward pass
    (Operation.restored) is not among the moves. Kept for what was asked about lately: states,
    steps and data parallelism change no tape."""
    tape, start, output = play.tape, play.start, play.output
    saved = {value.storage for operation in tape.operations for value in operation.saved}
    inputs = {value.storage for value in tape.inputs}
    stays = saved if play.kept is None else inputs | play.kept
    script = _Script(tape, inputs)
    script.forward(tape.operations, {*stays, *tape.kept, output.storage})
    loose = [
        storage
        for storage in tape.kept
        if storage in script.there and (play.again or storage not in saved)
    ]
    forward, there = script.moves, script.there.difference({output.storage}, loose)
    script = _Script(tape, there)
    if play.again:
        last = max(
            (number for number, operation in enumerate(tape.operations) if operation.saved),
            default=-1,
        )
        script.forward(tape.operations[: last + 1], {*inputs, *saved, *tape.kept})
    handed, gradients = script.backward(output)
    for slot in script.there.difference({handed}, gradients):
        script.give(slot)
    sizes = {storage: tape.sized((storage,)) for storage in (*inputs, *there)} | {
        SEED: output.bytes
    }
    return Moves(
        forward=tuple(forward) if play.once else _at_the_highest(forward, sizes),
        backward=tuple(script.moves) if play.once else _at_the_highest(script.moves, sizes),
        start=start.storage if start.storage in inputs else None,
        output=output.storage,
        handed=handed,
        gradients=tuple(gradients),
        loose=tuple(loose),
        held=play.holds,
    )


def _at_the_highest(moves: Sequence[Move], before: Mapping[int, int]) -> tuple[Move, ...]:
    """Return the moves without those of tensors that are made and let go again and not there at
    the highest moment. `before`: bytes of what is there already, slot by slot."""
    live = most = highest = 0
    taken: dict[int, int] = {}
    spans: list[tuple[int, int]] = []
    for number, (slot, size) in enumerate(moves):
        if size:
            taken[slot] = number
            live += size
        elif slot in taken:
            made = taken.pop(slot)
            spans.append((made, number))
            live -= moves[made][1]
        else:
            live -= before[slot]
        if live > most:
            most, highest = live, number
    passing = {
        number for made, gone in spans if not made <= highest < gone for number in (made, gone)
    }
    return tuple(move for number, move in enumerate(moves) if number not in passing)


class _Script:
    """Moves as they are written. `there`: slots that hold something."""

    def __init__(self, tape: Tape, there: Iterable[int]) -> None:
        self.tape, self.there = tape, set(there)
        self.moves: list[Move] = []
        self._slots = SEED

    def take(self, slot: int, size: int) -> None:
        """Make a tensor; a small one is left out."""
        if size > SMALL_BYTES:
            self.there.add(slot)
            self.moves.append((slot, size))

    def give(self, slot: int) -> None:
        """Let go of a tensor, if it is there."""
        if slot in self.there:
            self.there.remove(slot)
            self.moves.append((slot, 0))

    def new(self, size: int) -> int:
        """Return a slot for what is no storage of the tape: a gradient or scratch."""
        self._slots -= 1
        self.take(self._slots, size)
        return self._slots

    def forward(self, operations: Collection[Operation], stays: Collection[int]) -> None:
        """Operations in their order: a tensor goes after its last use unless it stays."""
        until = dict.fromkeys((value.storage for value in self.tape.inputs), -1)
        for number, operation in enumerate(operations):
            until.update(
                (value.storage, number) for value in (*operation.inputs, *operation.outputs)
            )
        ends: dict[int, list[int]] = {}
        for storage, number in until.items():
            if storage not in stays:
                ends.setdefault(number, []).append(storage)
        for number, operation in enumerate(operations):
            scratch = self.new(operation.scratch)
            for value in operation.outputs:
                if value.counted and value.storage not in self.there:
                    self.take(value.storage, self.tape.sized((value.storage,)))
            self.give(scratch)
            for storage in ends.get(number, ()):
                self.give(storage)

    def backward(self, output: Value) -> tuple[int | None, list[int]]:
        """Return the backward pass by the rules of Tape.backward; (slot of the gradient of the
        input, slots of those of parameters)."""
        readers: dict[int, int] = {}
        for operation in self.tape.operations:
            for value in operation.saved:
                readers[value.storage] = readers.get(value.storage, 0) + 1
        self.there.add(SEED)
        holders, pending, leaves = {SEED: 1}, {output.number: SEED}, dict[int, int]()

        def made(size: int) -> int:
            slot = self.new(size)
            holders[slot] = 1
            return slot

        def released(slot: int) -> None:
            holders[slot] -= 1
            if not holders[slot]:
                self.give(slot)

        for operation in reversed(self.tape.operations):
            gradients = [
                pending.pop(value.number) for value in operation.outputs if value.number in pending
            ]
            if not gradients:
                continue
            scratch, results = self.new(operation.back_scratch), []
            whole = operation.outputs[0]
            for value in operation.inputs:
                if not value.grad:
                    continue
                if not value.counted and not value.leaf:
                    self.give(self.new(value.bytes))
                elif (
                    operation.passes
                    and not value.leaf
                    and (value.elements, value.width) == (whole.elements, whole.width)
                ):
                    holders[gradients[0]] += 1
                    results.append((value, gradients[0]))
                else:
                    results.append((value, made(value.bytes)))
            self.give(scratch)
            for value in operation.saved:
                readers[value.storage] -= 1
                if not readers[value.storage]:
                    self.give(value.storage)
            for slot in gradients:
                released(slot)
            for value, slot in results:
                before = pending.get(value.number)
                if before is not None:
                    summed = made(value.bytes)
                    released(before)
                    released(slot)
                    slot = summed
                pending[value.number] = slot
                if value.leaf:
                    leaves[value.number] = slot
        handed = next(
            (pending[value.number] for value in self.tape.inputs if value.number in pending), None
        )
        return handed, [slot for slot in leaves.values() if slot in self.there]
