"""What a plan search chooses from, and the workloads that plans share."""

import math
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.performance.flops import peak_tflops
from fitgauge.engine.training.parallel.validate import check
from fitgauge.engine.training.search.layouts import Choices, layouts
from fitgauge.engine.training.search.lower_bounds import Bases
from fitgauge.engine.training.search.throughput import A100_FLOPS_PER_BYTE
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.gpu_count import sent_count
from fitgauge.services.common.unsupported import IMPOSSIBLE, impossible_degrees
from fitgauge.services.training_fit import parsing
from fitgauge.services.training_fit.defaults import with_defaults
from fitgauge.services.training_fit.launchers.command import checkpoints_selectively
from fitgauge.services.training_fit.launchers.registry import find_tool, tool_of
from fitgauge.services.training_fit.launchers.tool import Tool
from fitgauge.services.training_fit.rl_setup import asked_framework
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.shared_fields import SEARCHED, SharedFields
from fitgauge.services.training_fit.support import runs_on
from fitgauge.services.training_fit.workload import training_workload
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

DEFAULT_GLOBAL_BATCH = 128
DEFAULT_MOST = 64
MOST = 1024
"""Where the question sets no limit, counts are doubled from DEFAULT_MOST up to this until one holds
the model: the largest are trained on hundreds of GPUs."""
_NODE = 8
_SEARCHED: tuple[Framework, ...] = ("megatron", "fsdp", "deepspeed")


def choices_of(request: TrainingPlanRequest, model: Model, match: GpuMatch) -> Choices:
    """Return what the search chooses from; fields of the request are fixed. Raises
    InvalidRequestError where two fields contradict each other."""
    most = request.max_gpu_count or DEFAULT_MOST
    count = sent_count(request.gpu_count, match.count)
    if count is not None and request.max_gpu_count is not None and count > most:
        raise InvalidRequestError(
            f"gpu_count {count} exceeds max_gpu_count {most}.",
            hint="Send only one of them.",
            field="max_gpu_count",
            code="conflicting-fields",
        )
    adapted = parsing.method(request.method) != "full"
    possible = tuple(name for name in _SEARCHED if runs_on(name, match.accelerator))
    searched = tuple(
        name
        for name in possible
        if name != "megatron" or (not adapted and model.spec.task == "generate")
    )
    counts = counts_to(most) if searched else (1,)
    return Choices(
        frameworks=frameworks_named(request, count, possible) or searched or ("transformers",),
        counts=(count,) if count else counts,
        global_batch_size=request.global_batch_size or usual_batch(count, request.micro_batch_size),
        checkpointing=(
            (request.activation_checkpointing,) if request.activation_checkpointing else ()
        ),
        selective=_selective(tool_of(request)),
        micro_batch_sizes=_fixed(request.micro_batch_size),
        tensor=_fixed(request.tensor_parallel),
        pipeline=_fixed(request.pipeline_parallel),
        context=_fixed(request.context_parallel),
        expert=_fixed(request.expert_parallel),
        zero_stages=_fixed(request.zero_stage),
        flops_per_byte=_flops_per_byte(match.accelerator),
    )


def counts_to(most: int) -> tuple[int, ...]:
    """Return the numbers of GPUs that are tried first: powers of two, and the most."""
    return tuple(dict.fromkeys([*(2**power for power in range(most.bit_length())), most]))


def wider(request: TrainingPlanRequest, choices: Choices) -> Choices | None:
    """Return the choices with twice as many GPUs in addition; None where the question says how
    many, or no more are tried."""
    count = 2 * choices.counts[-1]
    if request.max_gpu_count is not None or len(choices.counts) == 1 or count > MOST:
        return None
    batch = request.global_batch_size or usual_batch(count, request.micro_batch_size)
    return structs.replace(choices, counts=(*choices.counts, count), global_batch_size=batch)


def between(counts: Sequence[int], count: int) -> Iterator[int]:
    """Yield the counts between `count`, which holds the model, and the one tried before it: three
    of equal distance, beyond a node of 8 GPUs in fours."""
    lower = max((tried for tried in counts if tried < count), default=count)
    step = (count - lower) / 4
    for middle in sorted({lower + round(step * part) for part in (1, 2, 3)}):
        if lower < middle < count and (middle <= _NODE or middle % (_NODE // 2) == 0):
            yield middle


def named_framework(request: TrainingPlanRequest) -> str | None:
    """Return the framework that the request names, which is no tool."""
    return request.framework if find_tool(request.framework) is None else None


def frameworks_named(
    request: TrainingPlanRequest, count: int | None, possible: Sequence[Framework]
) -> tuple[Framework, ...]:
    """Return the frameworks to plan for: the one under a tool, on several GPUs where their number
    is open, with those of the `possible` ones that shard under it; DeepSpeed or FSDP where
    transformers uses them for the request."""
    tool, named = tool_of(request), named_framework(request)
    if tool is None and named is None:
        return ()
    under = tool.framework_on(count or 2) if tool and named is None else parsing.framework(named)
    settings = TrainingRequest(
        model=request.model,
        gpu=request.gpu,
        framework=under,
        zero_stage=request.zero_stage,
        offload=request.offload,
        context_parallel=request.context_parallel,
    )
    own = asked_framework(settings)
    if tool is None or named is not None or own != "transformers" or count == 1:
        return (own,)
    return (own, *(name for name in tool.shards_with if name in possible))


def _selective(tool: Tool | None) -> tuple[Framework, ...]:
    """Return the frameworks whose command can checkpoint selectively: a plan is started as it is
    judged."""
    return tuple(name for name in _SEARCHED if checkpoints_selectively(name, tool))


def usual_batch(count: int | None, micro_batch_size: int | None) -> int:
    """Return the least batch from DEFAULT_GLOBAL_BATCH on that data parallelism divides, over
    `count` GPUs or any power of two of them, in micro-batches of that size."""
    each = (count or (DEFAULT_MOST if micro_batch_size else 1)) * (micro_batch_size or 1)
    return -(-DEFAULT_GLOBAL_BATCH // each) * each


def _fixed(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def _flops_per_byte(accelerator: Accelerator) -> float:
    """Return the operations a GPU computes while its link moves a byte; an A100's where the catalog
    lacks either."""
    peak, link = peak_tflops(accelerator, "bf16"), accelerator.interconnect_gbps
    return peak * 1e12 / (link * 1e9) if peak and link else A100_FLOPS_PER_BYTE


def split_choices(
    request: TrainingPlanRequest, base: TrainingWorkload, choices: Choices
) -> list[Choices]:
    """Return the choices for one GPU and those for several, where only several shard: adapters
    without a framework, and tools with another framework on several GPUs."""
    parts, alone = [choices], _is_alone_on_one(request, base)
    if 1 in choices.counts and alone:
        parts = [structs.replace(choices, counts=(1,), frameworks=("transformers",))]
        if several := tuple(count for count in choices.counts if count > 1):
            parts.append(structs.replace(choices, counts=several))
    return [batched for part in parts for batched in _in_batches(request, part)]


def _is_alone_on_one(request: TrainingPlanRequest, base: TrainingWorkload) -> bool:
    """Return whether one GPU is trained on without what shards over several: nothing is divided or
    offloaded, and neither the question nor its tool has one framework for both."""
    if request.zero_stage is not None or base.offload != "none":
        return False
    if named_framework(request) is not None:
        return False
    tool = tool_of(request)
    return tool is None or bool(tool.framework_on_several or tool.shards_with)


def _in_batches(request: TrainingPlanRequest, choices: Choices) -> Iterator[Choices]:
    """Yield the choices, those for a count that a global batch that is left out does not divide
    over with the next batch that does."""
    odd = [
        count
        for count in choices.counts
        if request.global_batch_size is None and choices.global_batch_size % count
    ]
    if others := tuple(count for count in choices.counts if count not in odd):
        yield structs.replace(choices, counts=others)
    for count in odd:
        batch = usual_batch(count, request.micro_batch_size)
        yield structs.replace(choices, counts=(count,), global_batch_size=batch)


_DEFAULTS_SEARCHED = ("zero_stage", "activation_checkpointing", "tensor_parallel")
"""Fields that a plan searches whatever a tool takes for them."""


def sent_settings(request: TrainingPlanRequest) -> TrainingRequest:
    """Return the settings that all plans share as a training request, as sent: formats, optimizer,
    loss, kernels and adapters. Searched fields stay unset."""
    shared = {
        name: getattr(request, name)
        for name in SharedFields.__struct_fields__
        if name not in SEARCHED
    }
    return TrainingRequest(**shared, framework=request.framework)


def filled_settings(
    request: TrainingPlanRequest,
    model: Model,
    accelerator: Accelerator | None,
    framework: Framework,
    count: int,
) -> TrainingRequest:
    """Return the settings of plans under a framework on so many GPUs, with what check_training_fit
    takes for those that are left out. accelerator: None for one that computes in every format."""
    tool = tool_of(request)
    named = structs.replace(
        sent_settings(request),
        trainer=None if tool is None else tool.name,
        # left open as in a question to check_training_fit, which then trains as TRL does
        framework=framework if tool or framework == "megatron" else named_framework(request),
        # with what a tool takes where it is searched
        tensor_parallel=request.tensor_parallel or 2,
    )
    filled = with_defaults(named, parsing.method(request.method), accelerator, count, model.spec)
    return structs.replace(filled, **dict.fromkeys(_DEFAULTS_SEARCHED), offload=request.offload)


def bases_of(request: TrainingPlanRequest, model: Model, accelerator: Accelerator | None) -> Bases:
    """Return the settings that all plans under a framework share, on one GPU and on several."""

    @cache
    def base(framework: Framework, count: int) -> TrainingWorkload:
        filled = filled_settings(request, model, accelerator, framework, count)
        undivided = structs.replace(filled, sequence_parallel=None, framework=framework)
        return structs.replace(
            training_workload(undivided, model.spec, 1),
            sequence_parallel=bool(filled.sequence_parallel),
            framework=framework,
            pipeline_schedule=request.pipeline_schedule or "1f1b",
        )

    return lambda framework, count: base(framework, min(count, 2))


def settled_frameworks(
    bases: Bases, frameworks: Sequence[Framework], count: int
) -> tuple[Framework, ...]:
    """Return the frameworks that can have these settings on so many GPUs. Raises what the first one
    has against them where none can."""
    settled, errors = list[Framework](), list[Exception]()
    for framework in frameworks:
        try:
            bases(framework, count)
            settled.append(framework)
        except IMPOSSIBLE as error:
            errors.append(error)
    if not settled:
        raise errors[0]
    return tuple(settled)


def splits_sequences(request: TrainingPlanRequest, base: TrainingWorkload) -> bool:
    """Return whether what starts a plan under FSDP carries context parallelism, which accelerate
    does: a tool by a command of its own."""
    tool = tool_of(request)
    if tool is None:
        return True
    layout = structs.replace(base, framework="fsdp", fsdp_version=2, context_parallel=2)
    return tool.command is not None and tool.supports(layout)


def splits_layers(request: TrainingPlanRequest, base: TrainingWorkload) -> bool:
    """Return whether tensor parallelism is how a tool divides more than FSDP does: one that has
    nothing but FSDP."""
    tool = tool_of(request)
    if tool is None or tool.command is None or tool.framework != "fsdp":
        return False
    divided = structs.replace(base, framework="fsdp", fsdp_version=2, tensor_parallel=2)
    return tool.supports(divided)


def started(request: TrainingPlanRequest, base: TrainingWorkload) -> TrainingWorkload:
    """Return the workload under what starts it: transformers' Trainer divides and offloads states
    by DeepSpeed."""
    divides = bool(request.zero_stage) or base.offload != "none"
    if base.framework != "transformers" or not divides:
        return base
    return structs.replace(base, framework="deepspeed")


def refuse_impossible(bases: Bases, model: Model, choices: Choices) -> None:
    """Raise InvalidRequestError where no layout is possible, with the reason."""
    if any(True for count in choices.counts for _ in layouts(model.spec, bases, choices, count)):
        return
    most = choices.counts[-1]
    fixed = {
        "tensor_parallel": choices.tensor,
        "pipeline_parallel": choices.pipeline,
        "context_parallel": choices.context,
    }
    degrees = {name: values[0] for name, values in fixed.items() if values}
    product = math.prod(degrees.values())
    if most % product:
        detail = f"{product} ranks of the requested degrees do not divide {most} GPUs."
        raise impossible_degrees(
            detail, f"Send gpu_count {product} or a multiple of it.", "gpu_count"
        )
    expert = choices.expert[0] if choices.expert else 1
    zero = choices.zero_stages[0] if choices.zero_stages else 0
    for framework in choices.frameworks:
        if framework not in ("megatron", "fsdp") and product > 1:
            detail = f"Plans under {framework} use data parallelism only."
            hint = "Send framework fsdp or megatron, or leave the degrees out."
            raise impossible_degrees(detail, hint, "framework")
        base = bases(framework, most)
        layout = structs.replace(
            base,
            **degrees,
            fsdp_version=base.fsdp_version if product == 1 else 2,
            expert_parallel=expert,
            zero_stage=zero,
            data_parallel=most // product,
        )
        check(model.spec, layout)
    size = choices.micro_batch_sizes[0] if choices.micro_batch_sizes else 1
    ranks = most // product * size
    detail = (
        f"global_batch_size {choices.global_batch_size} does not divide over {most // product}"
        f" data-parallel ranks of {size} sequences."
    )
    raise impossible_degrees(
        detail, f"Send a global_batch_size that is a multiple of {ranks}.", "global_batch_size"
    )
