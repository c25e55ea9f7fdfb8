"""Parts of a plan answer: summary, layout in words, understood_as."""

from collections.abc import Mapping, Sequence

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.training.search.plans import Plan
from fitgauge.engine.training.workload import Method, TrainingWorkload
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.training_fit.assumptions import METHOD_TITLES
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_plan.choices import named_framework
from fitgauge.services.training_plan.method_search import MethodPlans
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

SMALLER: Mapping[Method, tuple[Method, ...]] = {
    "full": ("lora", "qlora"),
    "lora": ("qlora",),
    "dora": ("qlora",),
}
"""Methods that need less than another, the nearest first."""
_OTHERWISE = "more or larger GPUs, or a shorter sequence_length"


def summary(
    model: Model,
    accelerator: Accelerator,
    searched: MethodPlans,
    smaller: Sequence[Suggestion] = (),
    *,
    many: bool,
    is_unsaid: bool,
) -> str:
    """Return the result of one method in words, first its name where there are `many`. smaller:
    what a method does that needs less, where this one has no plan. is_unsaid: whether the
    question names no method."""
    counts, method = searched.choices.counts, f"{searched.base.method}: " if many else ""
    if not searched.plans:
        if len(counts) > 1:
            tried = f"up to {counts[-1]} x {accelerator.name}"
        else:
            tried = f"{counts[0]} x {accelerator.name}"
        none = f"{method}No layout of {model.id} fits on {tried}"
        if many:
            return f"{none}."
        title = METHOD_TITLES[searched.base.method]
        if smaller:
            best = smaller[-1]
            verb = "does" if best.verdict == "fits" else "is tight"
            return (
                f"{none} by {title}; {best.change} {verb} ({gib(best.required_bytes)} on the"
                " fullest GPU)."
            )
        tried_too = [METHOD_TITLES[one] for one in SMALLER.get(searched.base.method, ())]
        titles = " or ".join(filter(None, (", ".join([title, *tried_too[:-1]]), *tried_too[-1:])))
        return f"{none} by {titles}: try offload, {_OTHERWISE}."
    first, least = searched.plans[0], min(plan.workload.gpus for plan in searched.plans)
    sure = min((plan.workload.gpus for plan in searched.sure), default=None)
    tried = ", the fewest of the counts tried" if len(counts) > 1 else ""
    by = "" if many else f" by {METHOD_TITLES[searched.base.method]}"
    if sure is None:
        result = f"is tight{by} on {least} x {accelerator.name}{tried}"
    elif sure == least:
        result = f"trains{by} on {least} x {accelerator.name}{tried}"
    else:
        result = f"trains{by} on {sure} x {accelerator.name} and is tight on {least}{tried}"
    fewer = ""
    if is_unsaid and searched.base.method == "full" and least > 1:
        fewer = " Adapters (method lora or qlora) take fewer."
    return (
        f"{method}{model.id} {result}.{fewer} First plan:"
        f" {layout_text(first.workload)} on {first.workload.gpus}, at least"
        f" {gib(first.required.expected)} on the fullest GPU, efficiency {first.efficiency:.0%}."
    )


def layout_text(workload: TrainingWorkload) -> str:
    """Return a layout in words: 'megatron, tensor 2 x pipeline 4 x data 2, ZeRO-1, selective
    checkpointing'."""
    named = (
        ("tensor", workload.tensor_parallel),
        ("pipeline", workload.pipeline_parallel),
        ("context", workload.context_parallel),
        ("data", workload.data_parallel),
    )
    degrees = " x ".join(f"{word} {degree}" for word, degree in named if degree != 1) or "one rank"
    experts = f", experts over {workload.expert_parallel}" if workload.expert_parallel > 1 else ""
    zero = f", ZeRO-{workload.zero_stage}" if workload.zero_stage else ""
    checkpointing = workload.activation_checkpointing.replace("none", "no")
    return f"{workload.framework}, {degrees}{experts}{zero}, {checkpointing} checkpointing"


def in_turns(methods: Sequence[Sequence[Plan]], each: int) -> list[Plan]:
    """Return the plans of all methods, so many of each at a time."""
    longest = max(map(len, methods), default=0)
    return [
        plan
        for start in range(0, longest, each)
        for plans in methods
        for plan in plans[start : start + each]
    ]


def echo(
    searched: list[MethodPlans],
    request: TrainingPlanRequest,
    model: Model,
    accelerator: Accelerator,
) -> dict[str, str | int | float | bool]:
    """Return understood_as: what all plans share and the range of the search."""
    shared = ("optimizer", "loss", "sequence_length", "attention", "offload", "pipeline_schedule")
    choices = searched[0].choices
    of_plans = [plan.workload for one in searched for plan in one.plans]
    workloads = of_plans or [one.base for one in searched]
    base = workloads[0]
    filled: dict[str, str | int | float | bool] = {"model": model.id, "gpu": accelerator.name}
    filled["method"] = base.method if len(searched) == 1 else "any"
    if (tool := tool_of(request)) is not None:
        filled["trainer" if request.trainer else "framework"] = tool.name
    if named_framework(request) is not None:
        filled["framework"] = choices.frameworks[0]
    # a base in 16 bit is that of a question without precision
    is_half = any(one.base_precision == "half" for one in workloads)
    precise = ("precision",) if request.precision or not is_half else ()
    filled |= {
        name: getattr(base, name)
        for name in (*precise, *shared)
        if len({getattr(one, name) for one in workloads}) == 1
    }
    filled["max_gpu_count" if len(choices.counts) > 1 else "gpu_count"] = choices.counts[-1]
    # one that is left out is larger on counts that are no power of two
    if request.global_batch_size is not None or len(choices.counts) == 1:
        filled["global_batch_size"] = choices.global_batch_size
    filled["objective"] = request.objective or "fewest_gpus"
    fields = (
        *(
            "micro_batch_size",
            "activation_checkpointing",
            "zero_stage",
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
        ),
        *(
            "expert_parallel",
            "lora_rank",
            "lora_targets",
            "quantization",
            "quantize_experts",
            "lora_experts",
            "activation_rule",
        ),
        *("samples", "epochs", "token_budget", "mfu", "price_per_gpu_hour", "limit", "offset"),
    )
    sent = {name: value for name in fields if (value := getattr(request, name)) is not None}
    return filled | {
        name: ",".join(value) if isinstance(value, list) else value for name, value in sent.items()
    }
