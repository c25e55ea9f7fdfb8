"""A model's step under FSDP2: its parameters as they are communicated, and its layers as they run.

Every layer is a unit, of the decoder, an encoder and a tower alike (transformers,
_no_split_modules), and the rest (embedding, final norm, head) is the root's. What is alive when:
fsdp_moments.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.spec import ModelSpec, Part
from fitgauge.engine.training.autograd.passes import in_order
from fitgauge.engine.training.autograd.segment import Segment as Traced
from fitgauge.engine.training.autograd.segments import segments
from fitgauge.engine.training.autograd.tape import Pass
from fitgauge.engine.training.parallel.fsdp_moments import (
    NO_GROUP,
    NO_SEGMENT,
    Group,
    Segment,
    Step,
)
from fitgauge.engine.training.states.parameters import Parameter, Unit, runs, units
from fitgauge.engine.training.states.sharding import (
    gathered_bytes,
    shard,
    tensor_slice,
    whole_gradient_elements,
)
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy


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
        tower=max((group for group, _ in layers), key=lambda one: one.gathered, default=NO_GROUP),
        towers=sum(group.gathered * count for group, count in layers),
        tower_shards=sum(group.shard * count for group, count in layers),
    )


def with_head(step: Step, head: Traced) -> Step:
    """Return the step with another head."""
    if step.root is NO_GROUP:
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
        step, root=NO_GROUP, groups=groups, first=NO_SEGMENT, layers=layers, last=NO_SEGMENT
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
    width = BITS[precision_policy(workload).compute] // 8
    wide = BITS[precision_policy(workload).gradients] // 8
    trained = [parameter for parameter in parameters if parameter.trained]
    return Group(
        gathered=gathered_bytes(parameters, workload, width),
        gradients=sum(parameter.elements for parameter in trained) * width,
        reduced=gathered_bytes(trained, workload, reduced_width(workload)),
        shard=sum(shard(parameter, workload).elements for parameter in trained) * wide,
    )
