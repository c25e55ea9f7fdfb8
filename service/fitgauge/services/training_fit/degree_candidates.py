"""Degrees of parallelism that fit a model under Megatron: the planner's layouts, as changes to
send."""

from collections.abc import Iterator

from msgspec.structs import replace

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.estimate import training_need
from fitgauge.engine.training.odds import Demand
from fitgauge.engine.training.parallel.pipeline import stage_counts
from fitgauge.engine.training.parallel.validate import MOST_TENSOR
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.search.layouts import Choices
from fitgauge.engine.training.search.lower_bounds import for_all
from fitgauge.engine.training.search.plans import Plan, search
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.candidates import Fields

_MOST = 1024


def degrees_that_fit(
    spec: ModelSpec,
    workload: TrainingWorkload,
    profile: TrainingProfile,
    accelerator: Accelerator,
    count: int,
) -> Iterator[tuple[str, Fields]]:
    """Yield (the change in words, the fields to send) of the fastest layout on as many GPUs, else
    on the fewest beyond: twice, four times ... as many, or whole nodes."""
    doubled = {count << power for power in range(_MOST.bit_length())}
    for gpus in sorted(gpus for gpus in doubled | whole_nodes(spec) if count <= gpus <= _MOST):
        plan = fastest_layout(spec, workload, profile, accelerator, gpus)
        if plan is not None:
            more = f" on {gpus} GPUs" if gpus != count else ""
            yield f"split it by {degrees_in_words(plan.workload)}{more}", degree_fields(plan)
            return


def fastest_layout(
    spec: ModelSpec,
    workload: TrainingWorkload,
    profile: TrainingProfile,
    accelerator: Accelerator,
    gpus: int,
) -> Plan | None:
    """Return the fastest other layout on so many GPUs under Megatron of those that surely fit, else
    the one that needs least; None where none fits."""

    def need(tried: TrainingWorkload) -> Demand:
        return training_need(spec, tried, profile)

    # A step keeps at least one sequence for every GPU, so that any degree of data parallelism
    # divides it.
    batch = max(gpus, workload.micro_batch_size * workload.micro_batches * workload.data_parallel)
    choices = Choices(
        frameworks=("megatron",),
        counts=(gpus,),
        global_batch_size=batch,
        micro_batch_sizes=(workload.micro_batch_size,),
    )
    bases = for_all(replace(workload, framework="megatron"))
    plans = [
        plan
        for plan in search(spec, bases, choices, need, accelerator.usable.expected)
        if plan.workload != workload
    ]
    sure = [
        plan
        for plan in plans
        if plan.required.high <= accelerator.usable.low
        and plan.demand.shown < accelerator.usable.expected
    ]
    if sure:
        return max(sure, key=lambda plan: plan.throughput)
    return min(plans, key=lambda plan: plan.required.expected, default=None)


def whole_nodes(spec: ModelSpec) -> set[int]:
    """Return the GPUs of as many nodes, or twice as many, as stages, for every number of stages
    worth trying."""
    layers = max(1, spec.layers)
    return {
        MOST_TENSOR * stages * replicas
        for stages in stage_counts(layers, layers)
        for replicas in (1, 2)
    }


def degrees_in_words(workload: TrainingWorkload) -> str:
    """Return 'tensor 4 x data 8 parallelism, full checkpointing'."""
    degrees = " x ".join(
        f"{name} {degree}" for name, degree in _degrees(workload).items() if degree > 1
    )
    if workload.activation_checkpointing == "none":
        checkpointing = ""
    else:
        checkpointing = f", {workload.activation_checkpointing} checkpointing"
    return f"{degrees} parallelism{checkpointing}"


def degree_fields(plan: Plan) -> Fields:
    """Return the fields that ask for a layout."""
    workload = plan.workload
    return {
        "gpu_count": workload.gpus,
        **{f"{name}_parallel": degree for name, degree in _degrees(workload).items()},
        "sequence_parallel": workload.sequence_parallel,
        "micro_batches": workload.micro_batches,
        "zero_stage": workload.zero_stage,
        "activation_checkpointing": workload.activation_checkpointing,
    }


def _degrees(workload: TrainingWorkload) -> dict[str, int]:
    return {
        "tensor": workload.tensor_parallel,
        "pipeline": workload.pipeline_parallel,
        "context": workload.context_parallel,
        "expert": workload.expert_parallel,
        "data": workload.data_parallel,
    }
