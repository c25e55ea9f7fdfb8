"""The layouts of a number of GPUs: which degrees, ZeRO stages and micro-batches a framework can
run."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.parallel.pipeline import stage_counts
from fitgauge.engine.training.parallel.validate import MOST_TENSOR, runs, tensor_widths
from fitgauge.engine.training.search.lower_bounds import Bases
from fitgauge.engine.training.search.throughput import A100_FLOPS_PER_BYTE
from fitgauge.engine.training.workload import Checkpointing, Framework, TrainingWorkload

LONG_SEQUENCE = 16_384
"""Tokens from which on context parallelism is tried where it is not asked for."""


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


def checkpointed(layout: TrainingWorkload, kind: Checkpointing) -> TrainingWorkload:
    """Return a layout with this way of checkpointing: a tool's own offload is that of what it
    checkpoints."""
    offload = layout.activation_offload and kind != "none"
    return replace(layout, activation_checkpointing=kind, activation_offload=offload)


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
                    layout = in_batches(layout, base, size, micro_batches)
                    if runs(spec, layout):
                        yield layout


def in_batches(
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
