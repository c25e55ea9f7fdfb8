"""plan_training: which layouts train this model, on how many GPUs?"""

from msgspec import structs

from fitgauge.catalog.lookup import Found
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.architecture import Model
from fitgauge.engine.fit import fit_probability, verdict
from fitgauge.engine.quantity import Bytes, gib
from fitgauge.engine.training.degrees import check
from fitgauge.engine.training.estimate import TrainingStage, training_stage, training_stages
from fitgauge.engine.training.overheads import TrainingProfile
from fitgauge.engine.training.plan import A100_FLOPS_PER_BYTE, Choices, Plan, layouts, search
from fitgauge.engine.training.stages import stages
from fitgauge.engine.training.workload import Framework, TrainingWorkload
from fitgauge.engine.utilization import peak_tflops
from fitgauge.errors import InvalidQuestion
from fitgauge.questions import answers
from fitgauge.questions import training_words as words
from fitgauge.questions.plan_launch import plan_launch
from fitgauge.questions.plan_schemas import Objective, PlanAnswer, TrainingPlanAnswer, TrainingPlanRequest
from fitgauge.questions.schemas import RankAnswer
from fitgauge.questions.training import understood
from fitgauge.questions.training_schemas import TrainingRequest
from fitgauge.questions.training_workloads import refusal, training_workload

DEFAULT_GLOBAL_BATCH = 128
DEFAULT_MOST = 64
DEFAULT_LIMIT = 16
_SEARCHED: tuple[Framework, ...] = ("megatron", "fsdp", "deepspeed")


class Planner:
    """Answers plan_training about models that are at hand. Pure arithmetic: no I/O, no await."""

    def __init__(self, profile: TrainingProfile) -> None:
        self._profile = profile

    def answer(self, request: TrainingPlanRequest, model: Model, found: Found) -> TrainingPlanAnswer:
        """The TrainingPlanAnswer. Raises InvalidQuestion where nothing of what is asked for can run, with what to send instead."""
        accelerator, choices = found.accelerator, _choices(request, model, found)
        base = _base(request, model, choices)
        refused = refusal(base, accelerator)
        if refused is not None:
            raise InvalidQuestion(refused, hint=refused.partition(". ")[2] or refused, field="precision")
        usable = accelerator.usable.expected

        def need(workload: TrainingWorkload) -> Bytes:
            every = (training_stage(model.spec, workload, self._profile, stage) for stage in stages(model.spec, workload, ends=True))
            return max((stage.need for stage in every), key=lambda need: need.expected)

        _possible(base, model, choices)
        objective = request.objective or "fewest_gpus"
        plans = sorted(search(model.spec, base, choices, need, usable), key=lambda plan: _order(plan, objective, accelerator))
        listed = [self._plan(request, model, accelerator, plan) for plan in plans[: request.limit or DEFAULT_LIMIT]]
        least = min((plan.workload.gpus for plan in plans), default=None)
        return TrainingPlanAnswer(
            summary=_summary(model, accelerator, choices, least, listed),
            model=answers.model_answer(model),
            gpu=answers.gpu_answer(accelerator, listed[0].gpu_count if listed else choices.counts[-1]),
            objective=objective,
            global_batch_size=choices.global_batch_size,
            min_gpu_count=least,
            plans=listed,
            total=len(plans),
            warnings=[*model.warnings, *model.spec.notes, *([found.note] if found.note else [])],
            understood_as=_understood(base, request, model, accelerator, choices),
        )

    def _plan(self, request: TrainingPlanRequest, model: Model, accelerator: Accelerator, plan: Plan) -> PlanAnswer:
        workload, usable = plan.workload, accelerator.usable
        every = training_stages(model.spec, workload, self._profile, usable.expected)
        price = request.price_per_gpu_hour
        return PlanAnswer(
            gpu_count=workload.gpus,
            verdict="fits" if verdict(fit_probability(plan.required, usable)) == "fits" else "tight",
            required_bytes=max(every, key=lambda stage: stage.need.expected).required,
            headroom_bytes=usable.expected - plan.required.expected,
            host_bytes=sum(stage.host_bytes for stage in every) * workload.gpus // len(every),
            checkpoint_bytes=_checkpoint_bytes(every, workload),
            relative_throughput=round(plan.throughput, 4),
            efficiency=round(plan.efficiency, 4),
            cost_per_gpu_hour_of_work=None if price is None else round(price / plan.efficiency, 4),
            settings=understood(workload, accelerator, workload.gpus, model),
            stages=[
                RankAnswer(stage=s.stage, layers=s.layers, required_bytes=s.required, terms=answers.term_answers(s.terms, full=False))
                for s in every
            ],
            launch=plan_launch(model, workload),
        )


def _choices(request: TrainingPlanRequest, model: Model, found: Found) -> Choices:
    """What the search may choose from: what is sent is fixed. Raises InvalidQuestion where two fields contradict each other."""
    most = request.max_gpu_count or DEFAULT_MOST
    count = request.gpu_count or (found.count if found.count > 1 else None)
    if count is not None and request.max_gpu_count is not None and count > most:
        raise InvalidQuestion(f"gpu_count {count} is beyond max_gpu_count {most}.", hint="Send one of them.", field="max_gpu_count")
    doubled = [2**power for power in range(most.bit_length()) if 2**power <= most]
    adapted = words.method(request.method) != "full"
    searched = tuple(name for name in _SEARCHED if not (adapted and name == "megatron"))
    return Choices(
        frameworks=(words.framework(request.framework),) if request.framework else searched,
        counts=(count,) if count else tuple(dict.fromkeys([*doubled, most])),
        global_batch_size=request.global_batch_size or DEFAULT_GLOBAL_BATCH,
        checkpointing=(request.activation_checkpointing,) if request.activation_checkpointing else (),
        micro_batch_sizes=_given(request.micro_batch_size),
        tensor=_given(request.tensor_parallel),
        pipeline=_given(request.pipeline_parallel),
        context=_given(request.context_parallel),
        expert=_given(request.expert_parallel),
        zero_stages=_given(request.zero_stage),
        flops_per_byte=_flops_per_byte(found.accelerator),
    )


def _given(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def _flops_per_byte(accelerator: Accelerator) -> float:
    """What the card computes while its link moves a byte; an A100's where the catalog does not know both."""
    peak, link = peak_tflops(accelerator, "bf16"), accelerator.interconnect_gbps
    return peak * 1e12 / (link * 1e9) if peak and link else A100_FLOPS_PER_BYTE


def _base(request: TrainingPlanRequest, model: Model, choices: Choices) -> TrainingWorkload:
    """What every plan has in common, as check_training_fit would understand it on one card."""
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
    )
    asked = TrainingRequest(model=request.model, gpu=request.gpu, **{name: getattr(request, name) for name in shared})
    base = training_workload(asked, model.spec, 1)
    return structs.replace(base, framework=choices.frameworks[0], pipeline_schedule=request.pipeline_schedule or "1f1b")


def _possible(base: TrainingWorkload, model: Model, choices: Choices) -> None:
    """Raises InvalidQuestion where no layout at all is left, with what forbids it."""
    if any(True for count in choices.counts for _ in layouts(model.spec, base, choices, count)):
        return
    most, product = choices.counts[-1], 1
    fixed = {"tensor_parallel": choices.tensor, "pipeline_parallel": choices.pipeline, "context_parallel": choices.context}
    asked = {name: values[0] for name, values in fixed.items() if values}
    for degree in asked.values():
        product *= degree
    if most % product:
        detail = f"{product} ranks of the degrees asked for do not divide {most} GPUs."
        raise InvalidQuestion(detail, hint=f"Send gpu_count {product} or a multiple of it.", field="gpu_count")
    expert, zero = choices.expert[0] if choices.expert else 1, choices.zero_stages[0] if choices.zero_stages else 0
    for framework in choices.frameworks:
        if framework != "megatron" and product > 1:
            detail = f"Plans under {framework} use data parallelism alone."
            raise InvalidQuestion(detail, hint="Send framework megatron, or leave the degrees out.", field="framework")
        layout = structs.replace(base, **asked, framework=framework, expert_parallel=expert, zero_stage=zero, data_parallel=most // product)
        check(model.spec, layout)
    size = choices.micro_batch_sizes[0] if choices.micro_batch_sizes else 1
    ranks = most // product * size
    detail = (
        f"global_batch_size {choices.global_batch_size} does not divide over {most // product} data-parallel ranks of {size} sequences."
    )
    raise InvalidQuestion(detail, hint=f"Send a global_batch_size that is a multiple of {ranks}.", field="global_batch_size")


def _order(plan: Plan, objective: Objective, accelerator: Accelerator) -> tuple[float, ...]:
    """What comes first: certain plans before tight ones on as many cards."""
    tight = float(verdict(fit_probability(plan.required, accelerator.usable)) != "fits")
    if objective == "fastest":
        return (-plan.throughput, tight)
    if objective == "cheapest":
        return (-plan.efficiency, plan.workload.gpus, tight)
    return (plan.workload.gpus, tight, -plan.throughput)


def _checkpoint_bytes(every: tuple[TrainingStage, ...], workload: TrainingWorkload) -> int:
    """Weights, masters and optimizer states of all ranks, replicas once: what a run resumes from."""
    kept, total = ("weights", "master_weights", "optimizer_states"), 0
    for stage in every:
        for term in stage.terms:
            if term.name in kept:
                ways = workload.tensor_parallel * (_shards(term.name, workload))
                total += term.bytes * ways
    return total


def _shards(name: str, workload: TrainingWorkload) -> int:
    """Over how many data-parallel ranks a state is cut."""
    least = 3 if name == "weights" else 1
    if workload.framework != "fsdp" and workload.zero_stage < least:
        return 1
    return workload.data_parallel // workload.data_parallel_replicate * workload.context_parallel


def _summary(model: Model, accelerator: Accelerator, choices: Choices, least: int | None, listed: list[PlanAnswer]) -> str:
    if least is None:
        tried = (
            f"up to {choices.counts[-1]} x {accelerator.name}" if len(choices.counts) > 1 else f"{choices.counts[0]} x {accelerator.name}"
        )
        return f"No layout of {model.id} fits on {tried}: try lora or qlora, offload, more or larger GPUs, or a shorter sequence_length."
    first = listed[0]
    need = gib(accelerator.usable.expected - first.headroom_bytes)
    return (
        f"{least} x {accelerator.name} are the fewest of the tried counts that train {model.id}. First plan: {_layout(first.settings)} on "
        f"{first.gpu_count}, at least {need} on the fullest GPU, efficiency {first.efficiency:.0%}."
    )


def _layout(settings: dict[str, str | int | float | bool]) -> str:
    """'megatron, tensor 2 x pipeline 4 x data 2, ZeRO-1, selective checkpointing'."""
    named = (("tensor", "tensor_parallel"), ("pipeline", "pipeline_parallel"), ("context", "context_parallel"), ("data", "data_parallel"))
    degrees = " x ".join(f"{word} {settings[field]}" for word, field in named if settings[field] != 1) or "one rank"
    zero = f", ZeRO-{settings['zero_stage']}" if settings["zero_stage"] else ""
    return f"{settings['framework']}, {degrees}{zero}, {settings['activation_checkpointing']} checkpointing"


def _understood(
    base: TrainingWorkload, request: TrainingPlanRequest, model: Model, accelerator: Accelerator, choices: Choices
) -> dict[str, str | int | float | bool]:
    kept = ("method", "precision", "optimizer", "loss", "sequence_length", "attention", "offload", "pipeline_schedule")
    filled: dict[str, str | int | float | bool] = {"model": model.id, "gpu": accelerator.name}
    filled |= {name: getattr(base, name) for name in kept}
    filled |= {"framework": ",".join(choices.frameworks), "gpu_counts": ",".join(str(count) for count in choices.counts)}
    filled |= {"global_batch_size": choices.global_batch_size, "objective": request.objective or "fewest_gpus"}
    fixed = ("micro_batch_size", "activation_checkpointing", "zero_stage", "tensor_parallel", "pipeline_parallel", "context_parallel")
    return filled | {name: value for name in (*fixed, "expert_parallel") if (value := getattr(request, name)) is not None}
