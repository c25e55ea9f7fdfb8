"""Searches layouts: which degrees, ZeRO stages and checkpointing hold a model on how many GPUs,
and which are worth showing."""

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.performance.flops import TokenFlops, token_flops
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.parallel.pipeline import bubble_share, imbalance, stage_counts
from fitgauge.engine.training.parallel.validate import MOST_TENSOR, runs, tensor_widths
from fitgauge.engine.training.search.lower_bounds import Bases, Floors, StatesFloor
from fitgauge.engine.training.workload import Checkpointing, Framework, TrainingWorkload

_PER_COUNT = 4
_CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full")
_LARGEST_MICRO_BATCH = 64
LONG_SEQUENCE = 16_384
"""Tokens from which on context parallelism is tried where it is not asked for."""
A100_FLOPS_PER_BYTE = 312e12 / 300e9
"""What an A100 SXM computes in bf16 while NVLink moves one byte. Source: NVIDIA A100 data sheet."""


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What a search may choose from; an empty tuple leaves a field to it."""

    frameworks: tuple[Framework, ...]
    """Training frameworks."""
    counts: tuple[int, ...]
    """Numbers of GPUs."""
    global_batch_size: int
    """Sequences of an optimizer step."""
    checkpointing: tuple[Checkpointing, ...] = ()
    """Ways of activation checkpointing."""
    selective: tuple[Framework, ...] = ("megatron", "fsdp", "deepspeed", "transformers")
    """Frameworks under which selective checkpointing is tried where none is fixed."""
    micro_batch_sizes: tuple[int, ...] = ()
    """Sequences of a forward pass on a rank."""
    tensor: tuple[int, ...] = ()
    """Tensor parallel degrees."""
    pipeline: tuple[int, ...] = ()
    """Pipeline parallel degrees."""
    context: tuple[int, ...] = ()
    """Context parallel degrees."""
    splits_sequences: bool = True
    """Whether FSDP is tried with context parallelism where none is fixed."""
    splits_layers: bool = False
    """Whether FSDP is tried with tensor parallelism where none is fixed."""
    expert: tuple[int, ...] = ()
    """Expert parallel degrees."""
    zero_stages: tuple[int, ...] = ()
    """ZeRO stages."""
    flops_per_byte: float = A100_FLOPS_PER_BYTE
    """Of the GPU and its link, see `throughput`."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that holds the model."""

    workload: TrainingWorkload
    """The layout with its settings."""
    demand: Demand
    """What its fullest GPU takes."""
    throughput: float
    """Its speed in that of one GPU that computes nothing twice and never waits."""

    @property
    def required(self) -> Bytes:
        """The least memory that its fullest GPU can run in."""
        return self.demand.required

    @property
    def efficiency(self) -> float:
        """Throughput of one GPU: 1 where nothing is computed twice and no GPU waits."""
        return self.throughput / self.workload.gpus


Need = Callable[[TrainingWorkload], Demand]
Holds = Callable[[Demand], bool]


def search(
    spec: ModelSpec,
    bases: Bases,
    choices: Choices,
    need: Need,
    usable_bytes: int,
    floors: Floors | None = None,
    holds: Holds | None = None,
) -> list[Plan]:
    """Return the Pareto set of every number of GPUs: no other layout on as many is faster and
    smaller; of each the fastest few.

    `need`: what the fullest GPU of a workload takes; `floors`: those of an earlier search of this
    model under these bases; `holds`: whether a GPU holds that, by default where no more is expected
    than is usable. Of a layout the least checkpointing that fits is taken, since it is the
    fastest."""
    floors, result = floors or Floors(spec, bases), list[Plan]()
    holds = holds or (lambda demand: demand.required.expected <= usable_bytes)
    for count in choices.counts:
        every = ((layout, floors.states(layout)) for layout in layouts(spec, bases, choices, count))
        possible = [(layout, least) for layout, least in every if least.bytes <= usable_bytes]
        fastest = _fastest(spec, possible, choices, floors, need, usable_bytes, holds)
        result += pareto(
            [_widest(plan, bases, choices, floors, need, usable_bytes) for plan in fastest]
        )
    return result


class _Candidate(NamedTuple):
    """A layout with a way of checkpointing, in the order that candidates are looked at."""

    slowness: float
    """Less its throughput."""
    floor: float
    """What it needs at the least [bytes]."""
    number: int
    """Of the layout."""
    step: int
    """Number of its way of checkpointing, the fastest first."""
    undecided: tuple[int, ...]
    """Faster ways of checkpointing that may fit, but are larger than a plan that is faster."""
    workload: TrainingWorkload | None = None
    """The layout with that checkpointing, once the passes are in its floor."""


def _fastest(
    spec: ModelSpec,
    possible: Sequence[tuple[TrainingWorkload, StatesFloor]],
    choices: Choices,
    floors: Floors,
    need: Need,
    usable_bytes: int,
    holds: Holds,
) -> list[Plan]:
    """Return the fastest plans of the Pareto set of these layouts, fastest first. `possible`: each
    with what its states need at the least.

    Layouts are looked at in the order of their speed, so that what is slower than the last plan
    kept is not estimated; nor is what by its floor cannot fit, or cannot be smaller than the plan
    kept. Such a one may fit, and then no more checkpointing is tried: that is estimated where a
    plan depends on it."""
    kinds = choices.checkpointing or _CHECKPOINTING
    flops = {
        kind: _flops(spec, replace(layout, activation_checkpointing=kind))
        for kind in kinds
        for layout, _ in possible[:1]
    }

    def as_candidate(number: int, step: int, undecided: tuple[int, ...] = ()) -> _Candidate:
        layout, least = possible[number]
        pace = _throughput(spec, layout, flops[kinds[step]], choices.flops_per_byte)
        return _Candidate(-pace, least.bytes, number, step, undecided)

    def with_kind(number: int, step: int) -> TrainingWorkload:
        return checkpointed(possible[number][0], kinds[step])

    waiting = [as_candidate(number, 0) for number in range(len(possible))]
    heapify(waiting)
    chosen: list[tuple[tuple[float, ...], Plan]] = []
    while waiting and len(chosen) < _PER_COUNT:
        slowness, best = waiting[0].slowness, chosen[-1] if chosen else None
        while waiting and waiting[0].slowness == slowness:
            _, floor, number, step, undecided, workload = heappop(waiting)
            smallest = usable_bytes if best is None else best[1].required.expected
            layout, states = possible[number]
            if states.bytes > smallest:
                continue
            if not choices.checkpointing and not _tries(kinds[step], layout, choices):
                heappush(waiting, as_candidate(number, step + 1, undecided))
                continue
            if workload is None:
                workload = with_kind(number, step)
                floor = floors.need(workload, states, smallest)
                candidate = _Candidate(slowness, floor, number, step, undecided, workload)
                heappush(waiting, candidate)
                continue
            if floor <= smallest:
                if any(holds(need(with_kind(number, faster))) for faster in undecided):
                    continue
                demand, undecided = need(workload), ()
                if holds(demand):
                    plan = Plan(workload=workload, demand=demand, throughput=-slowness)
                    ranked = _rank(plan, number), plan
                    best = ranked if best is None else min(best, ranked)
                    continue
            elif floor <= usable_bytes:
                undecided = (*undecided, step)
            if step + 1 < len(kinds):
                heappush(waiting, as_candidate(number, step + 1, undecided))
        if best is not None and (not chosen or best is not chosen[-1]):
            chosen.append(best)
    return [plan for _, plan in chosen]


def checkpointed(layout: TrainingWorkload, kind: Checkpointing) -> TrainingWorkload:
    """Return a layout with this way of checkpointing: a tool's own offload is that of what it
    checkpoints."""
    offload = layout.activation_offload and kind != "none"
    return replace(layout, activation_checkpointing=kind, activation_offload=offload)


def _tries(kind: Checkpointing, layout: TrainingWorkload, choices: Choices) -> bool:
    """Return whether this way of checkpointing is tried under the framework of a layout."""
    return kind != "selective" or layout.framework in choices.selective


def _rank(plan: Plan, number: int) -> tuple[float, ...]:
    """Return the order of plans: the smaller one, of two alike the faster, then the simpler,
    then the first of the layouts."""
    return plan.required.expected, -plan.throughput, *_complexity(plan.workload), number


def layouts(
    spec: ModelSpec, bases: Bases, choices: Choices, count: int
) -> Iterator[TrainingWorkload]:
    """Yield every layout of `count` GPUs that the frameworks can run and that keeps the global
    batch: degrees that divide, ZeRO stages."""
    for framework in choices.frameworks:
        base = bases(framework, count)
        for tensor, pipeline, context in _degrees(spec, base, choices, framework, count):
            data = count // (tensor * pipeline * context)
            size = choices.micro_batch_sizes[0] if choices.micro_batch_sizes else 1
            if choices.global_batch_size % (data * size):
                continue
            micro_batches = choices.global_batch_size // (data * size)
            for expert in _experts(spec, choices, framework, data * context):
                for zero in _zero_stages(base, choices, framework, data * context):
                    layout = replace(
                        base,
                        framework=framework,
                        tensor_parallel=tensor,
                        sequence_parallel=tensor > 1 and _divides_stream(base, framework),
                        pipeline_parallel=pipeline,
                        context_parallel=context,
                        fsdp_version=base.fsdp_version if tensor == context == 1 else 2,
                        expert_parallel=expert,
                        data_parallel=data,
                        zero_stage=zero,
                    )
                    layout = _in_batches(layout, base, size, micro_batches)
                    if runs(spec, layout):
                        yield layout


def _in_batches(
    layout: TrainingWorkload, base: TrainingWorkload, size: int, micro_batches: int
) -> TrainingWorkload:
    """Return a layout with so many micro-batches of a size; what steps in the backward pass
    accumulates none."""
    return replace(
        layout,
        micro_batch_size=size,
        micro_batches=micro_batches,
        optimizer_in_backward=base.optimizer_in_backward and micro_batches == 1,
    )


def _divides_stream(base: TrainingWorkload, framework: Framework) -> bool:
    """Return whether tensor-parallel ranks divide the stream between layers too."""
    return framework == "megatron" or (framework == "fsdp" and base.sequence_parallel)


def _degrees(
    spec: ModelSpec, base: TrainingWorkload, choices: Choices, framework: Framework, count: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (tensor, pipeline, context) parallel degrees whose product divides `count`: under
    Megatron tensor within a node, stages alike, context for long sequences; under FSDP context
    too (of its version 2: accelerate/parallelism_config.py), tensor where a tool starts it, and
    what is fixed; the others' trainers start data parallelism alone."""
    layers = max(1, spec.layers)
    of_length = (1, 2, 4, 8) if base.sequence_length > LONG_SEQUENCE else (1,)
    if framework == "megatron":
        tensors = choices.tensor or tuple(tensor_widths(spec, MOST_TENSOR))
        pipelines = choices.pipeline or stage_counts(layers, count)
        contexts = choices.context or of_length
    elif framework == "fsdp":
        within_node = tuple(tensor_widths(spec, MOST_TENSOR)) if choices.splits_layers else (1,)
        tensors, pipelines = choices.tensor or within_node, choices.pipeline or (1,)
        contexts = choices.context or (of_length if choices.splits_sequences else (1,))
    else:
        tensors, pipelines, contexts = (
            tuple(n for n in degrees or (1,) if n == 1)
            for degrees in (choices.tensor, choices.pipeline, choices.context)
        )
    for tensor in tensors:
        for pipeline in pipelines:
            for context in contexts:
                if count % (tensor * pipeline * context) == 0:
                    yield tensor, pipeline, context


def _experts(spec: ModelSpec, choices: Choices, framework: Framework, ranks: int) -> Sequence[int]:
    """Experts all on every rank, or spread over as many as can be. Spread at all, fewer ranks
    are no faster and hold no less: weights of experts divide, optimizer states come to the same
    size over the ranks that are left, tokens are exchanged all the same."""
    if choices.expert:
        return choices.expert
    if framework != "megatron" or not spec.routed_experts:
        return (1,)
    most = max(
        width
        for width in (1, 2, 4, 8, 16, 32, 64)
        if ranks % width == 0 and spec.routed_experts % width == 0
    )
    return (1, most) if most > 1 else (1,)


def _zero_stages(
    base: TrainingWorkload, choices: Choices, framework: Framework, ranks: int
) -> Sequence[int]:
    """ZeRO stages worth trying: none on one rank, unless it offloads under DeepSpeed, ZeRO-1 under
    Megatron, all that divide something elsewhere."""
    possible = {"megatron": (1,), "deepspeed": (1, 2, 3), "fsdp": (2, 3), "transformers": (0,)}[
        framework
    ]
    offloads = framework == "deepspeed" and base.offload != "none"
    if ranks == 1 and framework != "fsdp" and not offloads:
        possible = (0,)
    return choices.zero_stages or possible


def _widest(
    plan: Plan, bases: Bases, choices: Choices, floors: Floors, need: Need, usable_bytes: int
) -> Plan:
    """Return the plan with the largest micro-batch that fits and keeps the global batch. In a
    pipeline it stays: fewer micro-batches wait more."""
    if choices.micro_batch_sizes or plan.workload.pipeline_parallel > 1:
        return plan
    size = plan.workload.micro_batch_size * 2
    while (
        size <= _LARGEST_MICRO_BATCH
        and choices.global_batch_size % (plan.workload.data_parallel * size) == 0
    ):
        batches = choices.global_batch_size // (plan.workload.data_parallel * size)
        base = bases(plan.workload.framework, plan.workload.gpus)
        wider = _in_batches(plan.workload, base, size, batches)
        if floors.need(wider, floors.states(wider), usable_bytes) > usable_bytes:
            break
        demand = need(wider)
        if demand.required.high > usable_bytes:
            break
        plan = Plan(workload=wider, demand=demand, throughput=plan.throughput)
        size *= 2
    return plan


def throughput(
    spec: ModelSpec, workload: TrainingWorkload, flops_per_byte: float = A100_FLOPS_PER_BYTE
) -> float:
    """Return GPUs, less what is computed twice, what tensor parallelism exchanges and what waits
    in a pipeline.

    Every token costs a layer 8 (t - 1) / t x hidden numbers of 16 bit on the link, which nothing
    overlaps (arXiv 2104.04473, section 3.2); `flops_per_byte`: what a GPU computes at its peak
    while its link moves one byte. What data and context parallelism exchange overlaps with
    computation where the micro-batch is large enough, and is left out.
    """
    return _throughput(spec, workload, _flops(spec, workload), flops_per_byte)


def _flops(spec: ModelSpec, workload: TrainingWorkload) -> TokenFlops:
    return token_flops(
        spec,
        workload.sequence_length,
        checkpointing=workload.activation_checkpointing,
        frozen_base=workload.uses_adapters,
    )


def _throughput(
    spec: ModelSpec, workload: TrainingWorkload, flops: TokenFlops, flops_per_byte: float
) -> float:
    ways = workload.tensor_parallel
    moved = 2 * 8 * (ways - 1) / ways * spec.layers * spec.hidden_size
    waiting = bubble_share(
        workload.pipeline_schedule,
        workload.pipeline_parallel,
        workload.micro_batches,
        workload.pipeline_chunks,
    )
    return (
        workload.gpus
        * flops.model
        / (flops.hardware + ways * moved * flops_per_byte)
        / ((1 + waiting) * imbalance(max(1, spec.layers), workload))
    )


def pareto(plans: Sequence[Plan]) -> list[Plan]:
    """Return those that no other plan beats in throughput and memory at once; of two alike the
    simpler one."""
    ordered = sorted(
        plans,
        key=lambda plan: (-plan.throughput, plan.required.expected, _complexity(plan.workload)),
    )
    chosen: list[Plan] = []
    for plan in ordered:
        if not chosen or plan.required.expected < chosen[-1].required.expected:
            chosen.append(plan)
    return chosen


def _complexity(workload: TrainingWorkload) -> tuple[int, int, int]:
    return (
        workload.tensor_parallel * workload.context_parallel,
        workload.pipeline_parallel,
        workload.zero_stage,
    )
