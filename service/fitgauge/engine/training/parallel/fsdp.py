"""FSDP2 over one step: what is gathered, reduced and alive at every moment, in the order PyTorch's
own hooks run.

Every layer is a unit, of the decoder, an encoder and a tower alike (transformers,
_no_split_modules), and the rest (embedding, final norm, head) is the root's. Source:
torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py (unshard, wait_for_unshard,
pre_backward, post_backward), _fsdp_collectives.py (foreach_all_gather, foreach_reduce),
_fsdp_state.py (root)."""

from collections.abc import Generator, Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.autograd.passes import in_order
from fitgauge.engine.training.autograd.segment import Segment as Traced
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.states.parameters import Parameter, Unit, runs, units
from fitgauge.engine.training.states.sharding import (
    gathered_bytes,
    shard,
    tensor_slice,
    whole_gradient_elements,
)
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


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

_NO_GROUP = Group(gathered=0, gradients=0, reduced=0, shard=0)
_NO_SEGMENT = Segment(forward=Pass(peak=0, end=0), backward=Pass(peak=0, end=0))


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is alive in addition to resident states."""

    phase: str
    """When."""
    gathered: int
    """Gathered parameters [bytes]."""
    buffers: int
    """Buffers of gathers and reductions [bytes]."""
    shards: int
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
    tower: Group = _NO_GROUP
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
    live, unsharded, before = (
        step.constants + step.passing,
        step.root.gathered,
        step.root.gathered,
    )
    before = max(before, step.tower.gathered)
    unsharded += 0 if step.reshard else step.towers
    yield Moment(
        phase="forward",
        gathered=unsharded + (step.tower.gathered if step.reshard else 0),
        buffers=before,
        shards=0,
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
                shards=0,
                activations=live,
            )
            yield Moment(
                phase="forward",
                gathered=here,
                buffers=group.gathered,
                shards=0,
                activations=live + segment.forward.peak,
            )
        before = group.gathered
        live += segment.forward.end
        unsharded = unsharded if step.reshard else here
    yield Moment(
        phase="forward",
        gathered=unsharded,
        buffers=before,
        shards=0,
        activations=live + step.last.forward.peak,
    )
    return live + step.last.forward.end - step.passing


def _backward(step: Step, live: int) -> Iterator[Moment]:
    """Yield the backward pass, from what autograd holds after the forward pass.

    Before each unit its parameters are gathered, the next unit's gather is under way; after it
    they go, and its gradients are copied into the reduce-scatter's input, which stays until the
    next unit is done. Offloaded, its shard follows it to the host (_fsdp_collectives.py,
    foreach_reduce: new_sharded_grad.to(cpu))."""
    root, groups = step.root, step.groups
    after = [group.gathered if step.prefetch else 0 for group in (step.tower, *groups)]
    unfreed = step.towers + sum(group.gathered for group in groups)
    unsharded = root.gathered + (0 if step.reshard else unfreed)
    prefetched = after[-1] if step.reshard else 0
    if step.reshard:
        yield Moment(
            phase="backward", gathered=unsharded, buffers=root.gathered, shards=0, activations=live
        )
    yield Moment(
        phase="backward",
        gathered=unsharded,
        buffers=prefetched,
        shards=0,
        activations=live + step.last.backward.peak,
    )
    live += step.last.backward.end - step.hooked
    shards = reducing = 0
    shown = _shown(step)
    for number in range(len(groups) - 1, -1, -1):
        group, segment = groups[number], step.layers[number]
        unsharded += group.gathered if step.reshard else 0
        gathering, prefetched = prefetched, after[number] if step.reshard else prefetched
        if shown[number]:
            if step.reshard:
                yield Moment(
                    phase="backward",
                    gathered=unsharded,
                    buffers=gathering + reducing,
                    shards=shards,
                    activations=live,
                )
            yield Moment(
                phase="backward",
                gathered=unsharded,
                buffers=prefetched + reducing,
                shards=shards,
                activations=live + segment.backward.peak,
            )
            yield Moment(
                phase="backward",
                gathered=unsharded - group.gathered,
                buffers=prefetched + group.reduced,
                shards=shards,
                activations=live + segment.backward.end,
            )
        unsharded -= group.gathered
        live += segment.backward.end + 2 * step.hooked - segment.gradients
        reducing, shards = group.reduced, group.shard + (0 if step.offload else shards)
    prefetched, tower = (prefetched, step.tower.gathered) if step.reshard else (0, 0)
    yield Moment(
        phase="backward",
        gathered=unsharded + tower,
        buffers=prefetched + reducing,
        shards=shards,
        activations=live + step.first.backward.peak,
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


def step_of(spec: ModelSpec, workload: TrainingWorkload) -> Step:
    """Return the step of a model: its segments simulated in the compute format, its units' shards.

    The caller lets the logits go with the forward pass; a tied embedding's gradient is made
    twice and summed."""
    model_segments = segments(spec, computed(workload))
    all_units = units(spec, workload)
    layers = sorted(
        (number, kind)
        for kind, unit in enumerate(all_units)
        if is_layer(unit)
        for number in unit.layers
    )
    root, groups = unit_groups(spec, workload)
    whole = (
        sum(whole_gradient_elements(unit, workload) for unit in all_units)
        * BITS[precision_policy(workload).compute]
        // 8
    )
    root = replace(root, gradients=root.gradients + whole)
    first = model_segments.embedding
    summed = Pass(
        peak=first.backward.peak + model_segments.tied_bytes,
        end=first.backward.end - model_segments.tied_bytes,
    )
    step = Step(
        root=root,
        groups=[group for _, kind in layers if (group := groups[kind]) is not None],
        first=Segment(forward=first.forward, backward=summed, gradients=first.gradients),
        layers=[
            Segment(forward=s.forward, backward=s.backward, gradients=s.released)
            for s in in_order(model_segments)
        ],
        last=_ended(model_segments.head),
        reshard=workload.zero_stage == 3,
        prefetch=not _reentrant(workload),
        offload=workload.offload != "none",
        constants=model_segments.constants,
        passing=model_segments.passing + model_segments.masks,
        hooked=_hooked_bytes(spec, workload),
    )
    step = _with_towers(step, spec, workload)
    if not shards_embeddings(spec, workload):
        return step
    ends = [
        (unit.part is Part.EMBEDDING, rank_parameters(unit, workload))
        for unit in all_units
        if not unit.repeated
    ]
    embedding, head = (
        [parameter for is_first, piece in ends if is_first is wanted for parameter in piece]
        for wanted in (True, False)
    )
    return _apart(step, group_of(embedding, workload), group_of(head, workload))


def _with_towers(step: Step, spec: ModelSpec, workload: TrainingWorkload) -> Step:
    """Return the step with the layers of encoder and towers, each a unit of its own."""
    layers = [
        (group_of(rank_parameters(unit, workload), workload), len(unit.layers))
        for unit in units(spec, workload)
        if unit.repeated and not is_layer(unit) and runs(unit.block, spec, workload)
    ]
    return replace(
        step,
        tower=max((group for group, _ in layers), key=lambda one: one.gathered, default=_NO_GROUP),
        towers=sum(group.gathered * count for group, count in layers),
        tower_shards=sum(group.shard * count for group, count in layers),
    )


def with_head(step: Step, head: Traced) -> Step:
    """Return the step with another head."""
    if step.root is _NO_GROUP:
        return replace(step, layers=[*step.layers[:-1], _ended(head)])
    return replace(step, last=_ended(head))


def _ended(head: Traced) -> Segment:
    """Return a head whose logits go with the forward pass."""
    ended = Pass(peak=head.forward.peak, end=head.forward.end - head.logits)
    return Segment(forward=ended, backward=head.backward, gradients=head.gradients)


def unit_groups(spec: ModelSpec, workload: TrainingWorkload) -> tuple[Group, list[Group | None]]:
    """Return the root's group, and that of each layer of the language model; None of other
    units."""
    all_units = units(spec, workload)
    groups = [
        group_of(rank_parameters(unit, workload), workload) if is_layer(unit) else None
        for unit in all_units
    ]
    rest = [unit for unit in all_units if not unit.repeated]
    root = [parameter for unit in rest for parameter in rank_parameters(unit, workload)]
    return group_of(root, workload), groups


def rank_parameters(unit: Unit, workload: TrainingWorkload) -> list[Parameter]:
    """Return a tensor-parallel rank's part of one layer of a unit."""
    return [tensor_slice(parameter, unit.part, workload) for parameter in unit.parameters]


def shards_embeddings(spec: ModelSpec, workload: TrainingWorkload) -> bool:
    """Return whether embedding and head are units of their own, so that the root has nothing."""
    return workload.shard_embeddings and not spec.tied_embeddings


def _apart(step: Step, embedding: Group, head: Group) -> Step:
    """Return the step where embedding and head are units of their own, so that the root has
    nothing. Source: torchtitan models/llama3/infra/parallelize.py, apply_fsdp; torchtune,
    custom_sharded_layers."""
    groups, layers = [embedding, *step.groups, head], [step.first, *step.layers, step.last]
    return replace(
        step, root=_NO_GROUP, groups=groups, first=_NO_SEGMENT, layers=layers, last=_NO_SEGMENT
    )


def _reentrant(workload: TrainingWorkload) -> bool:
    """Return whether layers are recomputed by reentrant checkpoints, as recipes for FSDP1 do (FSDP2
    does not run with them).

    Then no unit knows in its first forward pass, which keeps no graph, that it will be needed
    again, so nothing is gathered ahead (torch/distributed/fsdp/_runtime_utils.py,
    _get_handle_to_prefetch: _needs_pre_backward_unshard)."""
    return workload.fsdp_version == 1 and workload.activation_checkpointing == "full"


def _hooked_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Return a layer's input as FSDP1 keeps it, and its gradient with it: tokens x hidden, in the
    compute format; 0 where it keeps neither.

    A unit without trained parameters is freed by a hook on its inputs, whose handle holds them
    until the backward pass is done (the same file, _register_post_backward_reshard_only_hook);
    under reentrant checkpointing these are leaves, and so their gradients stay in them
    (torch/utils/checkpoint.py, CheckpointFunction)."""
    if not workload.uses_adapters or not _reentrant(workload):
        return 0
    return (
        workload.tokens
        // workload.context_parallel
        * spec.hidden_size
        * BITS[precision_policy(workload).compute]
        // 8
    )


def is_layer(unit: Unit) -> bool:
    """Return whether these are the numbered layers of the language model."""
    return unit.repeated and unit.part is Part.LANGUAGE


def computed(workload: TrainingWorkload) -> TrainingWorkload:
    """Return the same run as its layers see it: under FSDP they compute with gathered 16-bit
    parameters, and what is kept in fp32 is a shard's."""
    gathered = workload.framework == "fsdp" and workload.mixed
    return replace(workload, precision="bf16") if gathered else workload


def reduced_width(workload: TrainingWorkload) -> int:
    """Return the bytes of a number that a reduce-scatter reads: of the shards' format, or of
    that asked for (MixedPrecisionPolicy)."""
    return {None: BITS[precision_policy(workload).gradients] // 8, "fp32": 4, "bf16": 2}[
        workload.gradient_dtype
    ]


def group_of(parameters: Sequence[Parameter], workload: TrainingWorkload) -> Group:
    """Return a unit's parameters as they are communicated: gathered in the compute format,
    reduced in the shards' or in that asked for (MixedPrecisionPolicy), after which a shard of
    gradients is as wide as that of its weights (_fsdp_collectives.py, foreach_reduce)."""
    width, wide = (
        BITS[precision_policy(workload).compute] // 8,
        BITS[precision_policy(workload).gradients] // 8,
    )
    trained = [parameter for parameter in parameters if parameter.trained]
    return Group(
        gathered=gathered_bytes(parameters, workload, width),
        gradients=sum(parameter.elements for parameter in trained) * width,
        reduced=gathered_bytes(trained, workload, reduced_width(workload)),
        shard=sum(shard(parameter, workload).elements for parameter in trained) * wide,
    )
