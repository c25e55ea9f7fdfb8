"""FSDP2 over one step: what is gathered, reduced and alive at every moment, in the order PyTorch's
own hooks run.

Every layer is a unit, of the decoder, an encoder and a tower alike (transformers,
_no_split_modules), and the rest (embedding, final norm, head) is the root's. Source:
torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py (unshard, wait_for_unshard,
pre_backward, post_backward), _fsdp_collectives.py (foreach_all_gather, foreach_reduce),
_fsdp_state.py (root)."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from fitgauge.engine.training.autograd.tape import Pass


class Group(msgspec.Struct, frozen=True, gc=False):
    """Parameters that are communicated together."""

    gathered: int
    """All of them in the compute format [bytes]."""
    gradients: int
    """Their gradients in the same format [bytes]."""
    reduced: int
    """What a reduce-scatter reads [bytes]."""
    shard: int
    """This rank's part of the gradients [bytes]."""


class Segment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of the model that runs by itself."""

    forward: Pass
    """Its forward pass."""
    backward: Pass
    """Its backward pass, which recomputes what a checkpoint dropped."""
    gradients: int = 0
    """Gradients of its parameters, left behind [bytes]."""


_OVERLAP = 2
"""Units of a row whose moments depend on the unit before it or after it, and the next, from which
on all is even."""

NO_GROUP = Group(gathered=0, gradients=0, reduced=0, shard=0)
"""No parameters."""

NO_SEGMENT = Segment(forward=Pass(peak=0, end=0), backward=Pass(peak=0, end=0))
"""Nothing that runs."""


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is alive in addition to resident states."""

    phase: str
    """When."""
    gathered: int
    """Gathered parameters [bytes]."""
    buffers: int
    """Buffers of gathers and reductions [bytes]."""
    shards: int = 0
    """Gradients of this rank [bytes]."""
    activations: int
    """Activations with everything that autograd holds, gradients of gathered parameters among them
    [bytes]."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.gathered + self.buffers + self.shards + self.activations


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One forward and backward pass."""

    root: Group
    """Parameters of the root, gathered throughout."""
    groups: Sequence[Group]
    """Parameters of each unit."""
    first: Segment
    """The embedding, with encoder and towers before it."""
    layers: Sequence[Segment]
    """The layers in their order."""
    last: Segment
    """Final norm, head and loss."""
    reshard: bool
    """Whether parameters are freed after the forward pass."""
    prefetch: bool = True
    """Whether the backward pass gathers the next unit's parameters while one is at work."""
    offload: bool = False
    """Whether a shard of gradients goes to the host as soon as it is reduced."""
    constants: int = 0
    """Rotary tables and masks [bytes]."""
    passing: int = 0
    """Masks and features of images that are freed after the forward pass [bytes]."""
    tower: Group = NO_GROUP
    """Parameters of the largest layer of those that run in `first`."""
    towers: int = 0
    """Parameters of all of them, gathered [bytes]."""
    tower_shards: int = 0
    """This rank's part of their gradients [bytes]."""
    hooked: int = 0
    """A layer's input, where hooks hold it and its gradient to the end of the backward pass
    [bytes]."""


def moments(step: Step) -> Iterator[Moment]:
    """Yield every moment that can be the highest, forward then backward."""
    live = yield from _forward(step)
    yield from _backward(step, live)


def _shown(step: Step) -> list[bool]:
    """Return of every unit whether one of its moments can be the highest: within a row of units
    alike all that is alive grows or shrinks evenly, but where gathers and reductions of their
    neighbours overlap with others."""
    shown = []
    for _, row in groupby(zip(step.groups, step.layers, strict=True)):
        size = sum(1 for _ in row)
        shown += [place < _OVERLAP or place >= size - _OVERLAP for place in range(size)]
    return shown


def _forward(step: Step) -> Generator[Moment, None, int]:
    """Yield the forward pass; gives what autograd holds after it.

    A gathered buffer is let go only when the next one was copied out, so that the two overlap;
    the root's parameters stay to its end."""
    live = step.constants + step.passing
    unsharded = step.root.gathered
    before = step.root.gathered
    before = max(before, step.tower.gathered)
    unsharded += 0 if step.reshard else step.towers
    yield Moment(
        phase="forward",
        gathered=unsharded + (step.tower.gathered if step.reshard else 0),
        buffers=before,
        activations=live + step.first.forward.peak,
    )
    before = step.tower.gathered or before
    live += step.first.forward.end
    for group, segment, shown in zip(step.groups, step.layers, _shown(step), strict=True):
        here = unsharded + group.gathered
        if shown:
            yield Moment(
                phase="forward",
                gathered=unsharded,
                buffers=before + group.gathered,
                activations=live,
            )
            yield Moment(
                phase="forward",
                gathered=here,
                buffers=group.gathered,
                activations=live + segment.forward.peak,
            )
        before = group.gathered
        live += segment.forward.end
        unsharded = unsharded if step.reshard else here
    yield Moment(
        phase="forward",
        gathered=unsharded,
        buffers=before,
        activations=live + step.last.forward.peak,
    )
    return live + step.last.forward.end - step.passing


def _backward(step: Step, live: int) -> Iterator[Moment]:
    """Yield the backward pass, from what autograd holds after the forward pass.

    Before each unit its parameters are gathered, the next unit's gather is under way; after it
    they go, and its gradients are copied into the reduce-scatter's input, which stays until the
    next unit is done. Offloaded, its shard follows it to the host (_fsdp_collectives.py,
    foreach_reduce: new_sharded_grad.to(cpu))."""
    groups, shown = step.groups, _shown(step)
    unfreed = step.towers + sum(group.gathered for group in groups)
    alive = _Alive(live=live, unsharded=step.root.gathered + (0 if step.reshard else unfreed))
    yield from _backward_of_last(step, alive)
    for number in range(len(groups) - 1, -1, -1):
        alive.gather(step, number)
        if shown[number]:
            yield from _backward_of_unit(step, alive, number)
        alive.release(step, number)
    yield from _backward_of_first(step, alive)


@dataclass(slots=True)
class _Alive:
    """What is alive between two moments of a backward pass [bytes]."""

    live: int
    """What autograd holds."""
    unsharded: int
    """Gathered parameters."""
    gathering: int = 0
    """The buffer of the gather that this unit waits for."""
    prefetched: int = 0
    """The buffer of the next unit's gather."""
    reducing: int = 0
    """What the last unit's reduce-scatter reads."""
    shards: int = 0
    """Gradients of this rank."""

    def gather(self, step: Step, number: int) -> None:
        """Gather the parameters of a unit, and those of the one that runs after it."""
        self.gathering = self.prefetched
        if step.reshard:
            self.unsharded += step.groups[number].gathered
            self.prefetched = _prefetched(step, number)

    def release(self, step: Step, number: int) -> None:
        """Free the parameters of a unit that is done, and keep this rank's part of its
        gradients."""
        group, segment = step.groups[number], step.layers[number]
        self.unsharded -= group.gathered
        self.live += segment.backward.end + 2 * step.hooked - segment.gradients
        self.reducing = group.reduced
        self.shards = group.shard + (0 if step.offload else self.shards)


def _prefetched(step: Step, number: int) -> int:
    """Return the buffer of the gather that is under way while unit `number` runs backward: of the
    unit before it, of the tower's at the first one [bytes]."""
    group = step.groups[number - 1] if number else step.tower
    return group.gathered if step.prefetch else 0


def _backward_of_last(step: Step, alive: _Alive) -> Iterator[Moment]:
    """Yield the backward pass of norm, head and loss."""
    if step.reshard:
        alive.prefetched = _prefetched(step, len(step.groups))
        yield Moment(
            phase="backward",
            gathered=alive.unsharded,
            buffers=step.root.gathered,
            activations=alive.live,
        )
    yield Moment(
        phase="backward",
        gathered=alive.unsharded,
        buffers=alive.prefetched,
        activations=alive.live + step.last.backward.peak,
    )
    alive.live += step.last.backward.end - step.hooked


def _backward_of_unit(step: Step, alive: _Alive, number: int) -> Iterator[Moment]:
    """Yield the backward pass of a unit: gathered, at work, done."""
    group, segment = step.groups[number], step.layers[number]
    if step.reshard:
        yield Moment(
            phase="backward",
            gathered=alive.unsharded,
            buffers=alive.gathering + alive.reducing,
            shards=alive.shards,
            activations=alive.live,
        )
    yield Moment(
        phase="backward",
        gathered=alive.unsharded,
        buffers=alive.prefetched + alive.reducing,
        shards=alive.shards,
        activations=alive.live + segment.backward.peak,
    )
    yield Moment(
        phase="backward",
        gathered=alive.unsharded - group.gathered,
        buffers=alive.prefetched + group.reduced,
        shards=alive.shards,
        activations=alive.live + segment.backward.end,
    )


def _backward_of_first(step: Step, alive: _Alive) -> Iterator[Moment]:
    """Yield the backward pass of the embedding with encoder and towers, then the root's
    reduction."""
    root, shards = step.root, alive.shards
    prefetched, tower = (alive.prefetched, step.tower.gathered) if step.reshard else (0, 0)
    yield Moment(
        phase="backward",
        gathered=alive.unsharded + tower,
        buffers=prefetched + alive.reducing,
        shards=shards,
        activations=alive.live + step.first.backward.peak,
    )
    shards += 0 if step.offload else step.tower_shards
    yield Moment(
        phase="backward",
        gathered=0,
        buffers=root.reduced,
        shards=shards,
        activations=root.gradients,
    )
    yield Moment(
        phase="backward",
        gathered=0,
        buffers=root.reduced,
        shards=shards + root.shard,
        activations=0,
    )
