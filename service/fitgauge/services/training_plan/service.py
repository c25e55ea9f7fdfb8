"""plan_training: which layouts train this model, on how many GPUs?"""

from dataclasses import dataclass

from msgspec import convert, structs

from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import Model
from fitgauge.engine.performance.flops import peak_tflops
from fitgauge.engine.quantity import Bytes, gib
from fitgauge.engine.serving.fit import fit_probability, verdict
from fitgauge.engine.training.estimate import training_need, training_stages
from fitgauge.engine.training.parallel.validate import check
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.search.layouts import (
    A100_FLOPS_PER_BYTE,
    Choices,
    Plan,
    layouts,
    search,
)
from fitgauge.engine.training.states.offload import checkpoint_bytes
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import responses as answers
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.training_fit import parsing as words
from fitgauge.services.training_fit.degree_candidates import whole_nodes
from fitgauge.services.training_fit.framework_variants import other_choices, widened
from fitgauge.services.training_fit.launchers.command import unsupported_settings
from fitgauge.services.training_fit.launchers.registry import (
    defaults_message,
    find_tool,
    with_tool_defaults,
)
from fitgauge.services.training_fit.launchers.tool import Tool
from fitgauge.services.training_fit.result import fullest
from fitgauge.services.training_fit.rl_setup import asked_framework
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.service import understood
from fitgauge.services.training_fit.support import refusal, runs_on
from fitgauge.services.training_fit.workload import in_its_formats, training_workload
from fitgauge.services.training_plan.launch import plan_launch
from fitgauge.services.training_plan.schemas import (
    Objective,
    PlanAnswer,
    TrainingPlanAnswer,
    TrainingPlanRequest,
)

DEFAULT_GLOBAL_BATCH = 128
DEFAULT_MOST = 64
DEFAULT_LIMIT = 8
_SEARCHED: tuple[Framework, ...] = ("megatron", "fsdp", "deepspeed")


_METHODS = ("full", "lora", "qlora")
_ANY = ("any", "all")


@dataclass(frozen=True, slots=True)
class _Searched:
    """The plans of one method, and what they had to choose from."""

    base: TrainingWorkload
    choices: Choices
    plans: list[Plan]
    told: str | None = None
    """What of the base is a tool's."""


class Planner:
    """Answers plan_training about models that are at hand. Pure arithmetic: no I/O, no await."""

    def __init__(self, profile: TrainingProfile) -> None:
        self._profile = profile

    def answer(
        self,
        request: TrainingPlanRequest,
        model: Model,
        found: GpuMatch,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> TrainingPlanAnswer:
        """Return the TrainingPlanAnswer. Raises InvalidRequestError where nothing of what is
        asked for can run, with what to send instead."""
        accelerator, objective = found.accelerator, request.objective or "fewest_gpus"
        methods = _METHODS if (request.method or "").strip().lower() in _ANY else (request.method,)
        searched = [
            self._search(structs.replace(request, method=method), model, found, checkpoint)
            for method in methods
        ]
        each = max(1, (request.limit or DEFAULT_LIMIT) // len(methods))
        listed = [
            self._plan(request, model, accelerator, plan)
            for one in searched
            for plan in one.plans[:each]
        ]
        choices, plans = searched[0].choices, [plan for one in searched for plan in one.plans]
        return TrainingPlanAnswer(
            summary=" ".join(
                _summary(model, accelerator, one, many=len(methods) > 1) for one in searched
            ),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(
                accelerator, listed[0].gpu_count if listed else choices.counts[-1]
            ),
            objective=objective,
            global_batch_size=choices.global_batch_size,
            min_gpu_count=min((plan.workload.gpus for plan in plans), default=None),
            plans=listed,
            total=len(plans),
            warnings=[
                *model.warnings,
                *model.spec.notes,
                *([found.note] if found.note else []),
                *_of_tool(request, model, searched),
            ],
            understood_as=_understood(searched, request, model, accelerator),
        )

    def _search(
        self, request: TrainingPlanRequest, model: Model, found: GpuMatch, checkpoint: Checkpoint
    ) -> _Searched:
        """Return the plans of one method, the one asked for first. Raises InvalidRequestError
        where no layout of it can run."""
        accelerator, choices = found.accelerator, _choices(request, model, found)
        sent, asked = _asked(request, model, accelerator)
        base = _base(request, asked, model, choices)
        refused = refusal(base, accelerator)
        if refused is not None:
            raise InvalidRequestError(refused.why, hint=refused.instead, field=refused.field)

        def need(workload: TrainingWorkload) -> Bytes:
            checkpoint()
            return training_need(model.spec, workload, self._profile)

        _possible(base, model, choices)
        plans = [
            plan
            for part in _alone_apart(request, base, choices)
            for plan in search(model.spec, base, part, need, accelerator.usable.expected)
        ]
        if (
            not plans and len(choices.counts) > 1 and "megatron" in choices.frameworks
        ):  # stages alike want other counts than powers of two
            nodes = tuple(
                sorted(count for count in whole_nodes(model.spec) if count <= choices.counts[-1])
            )
            of_nodes = structs.replace(choices, counts=nodes, frameworks=("megatron",))
            plans = search(model.spec, base, of_nodes, need, accelerator.usable.expected)
        plans.sort(key=lambda plan: _order(plan, request.objective or "fewest_gpus", accelerator))
        return _Searched(
            base,
            choices,
            plans,
            defaults_message(sent, asked, understood(base, accelerator, 1, model)),
        )

    def _plan(
        self, request: TrainingPlanRequest, model: Model, accelerator: Accelerator, plan: Plan
    ) -> PlanAnswer:
        workload, usable = plan.workload, accelerator.usable
        every = training_stages(model.spec, workload, self._profile, usable.expected)
        price, settings = (
            request.price_per_gpu_hour,
            understood(workload, accelerator, workload.gpus, model),
        )
        otherwise = other_choices(convert(settings, TrainingRequest), workload)
        others = [
            fullest(training_stages(model.spec, other, self._profile, usable.expected))
            for other in otherwise
        ]
        return PlanAnswer(
            gpu_count=workload.gpus,
            layout=_layout(workload),
            verdict=(
                "fits" if verdict(fit_probability(plan.required, usable)) == "fits" else "tight"
            ),
            required_bytes=widened(fullest(every).required, [other.required for other in others]),
            usable_bytes=usable.expected,
            headroom_bytes=usable.expected - plan.required.expected,
            host_bytes=sum(stage.host_bytes for stage in every) * workload.gpus // len(every),
            checkpoint_bytes=checkpoint_bytes(model.spec, workload),
            relative_throughput=round(plan.throughput, 4),
            efficiency=round(plan.efficiency, 4),
            cost_per_gpu_hour_of_work=None if price is None else round(price / plan.efficiency, 4),
            settings=settings,
            stages=answers.training_rank_answers(every, usable),
            launch=plan_launch(model, workload, _tool(request)),
        )


def _choices(request: TrainingPlanRequest, model: Model, found: GpuMatch) -> Choices:
    """Return what the search may choose from: what is sent is fixed. Raises InvalidRequestError
    where two fields contradict each other."""
    most = request.max_gpu_count or DEFAULT_MOST
    count = request.gpu_count or (found.count if found.count > 1 else None)
    if count is not None and request.max_gpu_count is not None and count > most:
        raise InvalidRequestError(
            f"gpu_count {count} is beyond max_gpu_count {most}.",
            hint="Send one of them.",
            field="max_gpu_count",
        )
    doubled = [2**power for power in range(most.bit_length()) if 2**power <= most]
    adapted = words.method(request.method) != "full"
    possible = tuple(name for name in _SEARCHED if runs_on(name, found.accelerator))
    searched = tuple(
        name
        for name in possible
        if name != "megatron" or (not adapted and model.spec.task == "generate")
    )
    counts = tuple(dict.fromkeys([*doubled, most])) if searched else (1,)
    return Choices(
        frameworks=_frameworks(request, count) or searched or ("transformers",),
        counts=(count,) if count else counts,
        global_batch_size=request.global_batch_size
        or _usual_batch(count, request.micro_batch_size),
        checkpointing=(
            (request.activation_checkpointing,) if request.activation_checkpointing else ()
        ),
        micro_batch_sizes=_given(request.micro_batch_size),
        tensor=_given(request.tensor_parallel),
        pipeline=_given(request.pipeline_parallel),
        context=_given(request.context_parallel),
        expert=_given(request.expert_parallel),
        zero_stages=_given(request.zero_stage),
        flops_per_byte=_flops_per_byte(found.accelerator),
    )


def _tool(request: TrainingPlanRequest) -> Tool | None:
    """Return the tool that is named as the framework."""
    return find_tool(request.framework)


def _frameworks(request: TrainingPlanRequest, count: int | None) -> tuple[Framework, ...]:
    """Return the framework that is asked for: of a tool the one under it, on several cards where
    their number is open; the one that transformers hands to what it cannot do."""
    if request.framework is None:
        return ()
    tool = _tool(request)
    under = tool.framework_on(count or 2) if tool else words.framework(request.framework)
    asked = TrainingRequest(
        model=request.model,
        gpu=request.gpu,
        framework=under,
        zero_stage=request.zero_stage,
        offload=request.offload,
        context_parallel=request.context_parallel,
    )
    return (asked_framework(asked),)


def _of_tool(request: TrainingPlanRequest, model: Model, searched: list[_Searched]) -> list[str]:
    """Return what a tool decided, and what of its plans has no place in the commands."""
    tool = _tool(request)
    if tool is None:
        return []
    lacking = [
        said
        for one in searched
        for plan in one.plans[:1]
        for said in unsupported_settings(model, plan.workload, tool=tool)
    ]
    return list(dict.fromkeys([*(one.told for one in searched if one.told), *lacking]))


def _alone_apart(
    request: TrainingPlanRequest, base: TrainingWorkload, choices: Choices
) -> list[Choices]:
    """Return the choices of one card and those of several, where nothing that shards has a place
    on one: adapters under no framework asked for, and tools that shard on several cards alone."""
    tool = _tool(request)
    changes = tool is not None and tool.framework_on_several is not None
    moved = request.zero_stage is not None or base.offload != "none"
    if (
        1 not in choices.counts
        or moved
        or not (changes or (base.uses_adapters and request.framework is None))
    ):
        return [choices]
    several = tuple(count for count in choices.counts if count > 1)
    alone = structs.replace(choices, counts=(1,), frameworks=("transformers",))
    return [alone, *([structs.replace(choices, counts=several)] if several else [])]


def _usual_batch(count: int | None, micro_batch_size: int | None) -> int:
    """Return the least number from DEFAULT_GLOBAL_BATCH on that data parallelism alone divides
    too, over `count` cards or any usual number of them, in micro-batches of that size."""
    each = (count or (DEFAULT_MOST if micro_batch_size else 1)) * (micro_batch_size or 1)
    return -(-DEFAULT_GLOBAL_BATCH // each) * each


def _given(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def _flops_per_byte(accelerator: Accelerator) -> float:
    """Return what the card computes while its link moves a byte; an A100's where the catalog
    does not know both."""
    peak, link = peak_tflops(accelerator, "bf16"), accelerator.interconnect_gbps
    return peak * 1e12 / (link * 1e9) if peak and link else A100_FLOPS_PER_BYTE


def _asked(
    request: TrainingPlanRequest, model: Model, accelerator: Accelerator
) -> tuple[TrainingRequest, TrainingRequest]:
    """Return what every plan has in common as a question of check_training_fit, as it was sent
    and as its tool fills it in: formats, optimizer, loss, kernels and adapters; what is searched
    stays open."""
    shared = (
        "method",
        "lora_rank",
        "lora_targets",
        "quantization",
        "precision",
        "optimizer",
        "loss",
        "sequence_length",
        "attention",
        "offload",
        "activation_rule",
        "quantize_experts",
    )
    asked = TrainingRequest(
        model=request.model, gpu=request.gpu, **{name: getattr(request, name) for name in shared}
    )
    sent = structs.replace(in_its_formats(asked, accelerator), framework=request.framework)
    filled = with_tool_defaults(sent, words.method(request.method), 2, model.spec)
    searched = dict.fromkeys(("zero_stage", "activation_checkpointing", "activation_offload"))
    return sent, structs.replace(filled, **searched, offload=request.offload)


def _base(
    request: TrainingPlanRequest, asked: TrainingRequest, model: Model, choices: Choices
) -> TrainingWorkload:
    """Return what every plan has in common, as check_training_fit would understand it on one
    card."""
    base = training_workload(structs.replace(asked, framework=None, trainer=None), model.spec, 1)
    return structs.replace(
        base, framework=choices.frameworks[0], pipeline_schedule=request.pipeline_schedule or "1f1b"
    )


def _possible(base: TrainingWorkload, model: Model, choices: Choices) -> None:
    """Raise InvalidRequestError where no layout at all is left, with what forbids it."""
    if any(True for count in choices.counts for _ in layouts(model.spec, base, choices, count)):
        return
    most, product = choices.counts[-1], 1
    fixed = {
        "tensor_parallel": choices.tensor,
        "pipeline_parallel": choices.pipeline,
        "context_parallel": choices.context,
    }
    asked = {name: values[0] for name, values in fixed.items() if values}
    for degree in asked.values():
        product *= degree
    if most % product:
        detail = f"{product} ranks of the degrees asked for do not divide {most} GPUs."
        raise InvalidRequestError(
            detail, hint=f"Send gpu_count {product} or a multiple of it.", field="gpu_count"
        )
    expert, zero = (
        choices.expert[0] if choices.expert else 1,
        choices.zero_stages[0] if choices.zero_stages else 0,
    )
    for framework in choices.frameworks:
        if framework != "megatron" and product > 1:
            detail = f"Plans under {framework} use data parallelism alone."
            raise InvalidRequestError(
                detail, hint="Send framework megatron, or leave the degrees out.", field="framework"
            )
        layout = structs.replace(
            base,
            **asked,
            framework=framework,
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
    raise InvalidRequestError(
        detail,
        hint=f"Send a global_batch_size that is a multiple of {ranks}.",
        field="global_batch_size",
    )


def _order(plan: Plan, objective: Objective, accelerator: Accelerator) -> tuple[float, ...]:
    """Return what comes first: certain plans before tight ones on as many cards."""
    tight = float(verdict(fit_probability(plan.required, accelerator.usable)) != "fits")
    if objective == "fastest":
        return (-plan.throughput, tight)
    if objective == "cheapest":
        return (-plan.efficiency, plan.workload.gpus, tight)
    return (plan.workload.gpus, tight, -plan.throughput)


def _summary(model: Model, accelerator: Accelerator, searched: _Searched, *, many: bool) -> str:
    """Return what one method comes to; with its name where there are `many`."""
    counts, method = searched.choices.counts, f"{searched.base.method}: " if many else ""
    if not searched.plans:
        tried = (
            f"up to {counts[-1]} x {accelerator.name}"
            if len(counts) > 1
            else f"{counts[0]} x {accelerator.name}"
        )
        remedy = (
            ""
            if many
            else ": try lora or qlora, offload, more or larger GPUs, or a shorter sequence_length"
        )
        return f"{method}No layout of {model.id} fits on {tried}{remedy}."
    first, least = searched.plans[0], min(plan.workload.gpus for plan in searched.plans)
    tried = " at the least, of the counts that were tried" if len(counts) > 1 else ""
    return (
        f"{method}{model.id} trains on {least} x {accelerator.name}{tried}. First plan:"
        f" {_layout(first.workload)} on {first.workload.gpus}, at least"
        f" {gib(first.required.expected)} on the fullest GPU, efficiency {first.efficiency:.0%}."
    )


def _layout(workload: TrainingWorkload) -> str:
    """'megatron, tensor 2 x pipeline 4 x data 2, ZeRO-1, selective checkpointing'."""
    named = (
        ("tensor", workload.tensor_parallel),
        ("pipeline", workload.pipeline_parallel),
        ("context", workload.context_parallel),
        ("data", workload.data_parallel),
    )
    degrees = " x ".join(f"{word} {degree}" for word, degree in named if degree != 1) or "one rank"
    zero = f", ZeRO-{workload.zero_stage}" if workload.zero_stage else ""
    checkpointing = workload.activation_checkpointing.replace("none", "no")
    return f"{workload.framework}, {degrees}{zero}, {checkpointing} checkpointing"


def _understood(
    searched: list[_Searched], request: TrainingPlanRequest, model: Model, accelerator: Accelerator
) -> dict[str, str | int | float | bool]:
    """Return what every plan keeps and between what was searched, as fields to send."""
    kept = ("optimizer", "loss", "sequence_length", "attention", "offload", "pipeline_schedule")
    base, choices = searched[0].base, searched[0].choices
    filled: dict[str, str | int | float | bool] = {"model": model.id, "gpu": accelerator.name}
    filled["method"] = base.method if len(searched) == 1 else "any"
    if len({one.base.precision for one in searched}) == 1:
        filled["precision"] = base.precision
    if request.framework is not None:
        tool = _tool(request)
        filled["framework"] = tool.name if tool else choices.frameworks[0]
    filled |= {name: getattr(base, name) for name in kept}
    filled["max_gpu_count" if len(choices.counts) > 1 else "gpu_count"] = choices.counts[-1]
    filled |= {
        "global_batch_size": choices.global_batch_size,
        "objective": request.objective or "fewest_gpus",
    }
    asked = (
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
            "activation_rule",
        ),
        *("price_per_gpu_hour", "limit"),
    )
    sent = {name: value for name in asked if (value := getattr(request, name)) is not None}
    return filled | {
        name: ",".join(value) if isinstance(value, list) else value for name, value in sent.items()
    }
