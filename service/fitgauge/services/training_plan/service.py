"""plan_training: which layouts train this model, on how many GPUs?"""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType, convert, structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.catalog.instances import Offers
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.serving.fit import Verdict, verdict
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.odds import training_probability
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.search.plans import Plan
from fitgauge.engine.training.states.offload import checkpoint_bytes
from fitgauge.engine.training.workload import Method
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import responses
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.pages import take_page
from fitgauge.services.common.schemas import Suggestion
from fitgauge.services.training_fit import loading
from fitgauge.services.training_fit.assumptions import METHOD_TITLES
from fitgauge.services.training_fit.framework_variants import other_choices, widened
from fitgauge.services.training_fit.launchers.command import unsupported_settings
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_fit.quantized_checkpoints import notes as quantized_notes
from fitgauge.services.training_fit.ranks import training_rank_answers
from fitgauge.services.training_fit.result import fullest
from fitgauge.services.training_fit.run import run_in_words, training_run
from fitgauge.services.training_fit.run_schemas import TrainingRun
from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_plan.launch import plan_launch
from fitgauge.services.training_plan.method_search import MethodPlans, MethodSearch
from fitgauge.services.training_plan.responses import SMALLER, echo, in_turns, layout_text, summary
from fitgauge.services.training_plan.schemas import (
    PlanAnswer,
    TrainingPlanAnswer,
    TrainingPlanRequest,
)
from fitgauge.services.training_plan.settings import moved_of, plan_settings

DEFAULT_LIMIT = 8


_METHODS = ("full", "lora", "qlora")
_ANY = ("any", "all")
_OF_A_RUN = ("model", "samples", "epochs", "token_budget", "mfu", "price_per_gpu_hour")


class Planner:
    """Answers plan_training about resolved models. Pure arithmetic: no I/O, no await."""

    def __init__(self, profile: TrainingProfile) -> None:
        self._profile = profile

    def answer(
        self,
        request: TrainingPlanRequest,
        model: Model,
        match: GpuMatch,
        offers: Offers | None = None,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> TrainingPlanAnswer:
        """Return the answer. offers: the prices of a run. Raises InvalidRequestError where no
        layout can run, with a hint."""
        accelerator, objective = match.accelerator, request.objective or "fewest_gpus"
        methods = _METHODS if (request.method or "").strip().lower() in _ANY else (request.method,)
        searched = [
            self._search(structs.replace(request, method=method), model, match, checkpoint)
            for method in methods
        ]
        each = max(1, (request.limit or DEFAULT_LIMIT) // len(methods))
        plans = in_turns([one.plans for one in searched], each)
        data = TrainingRequest(**{name: getattr(request, name) for name in _OF_A_RUN})

        def run_of(plan: Plan) -> tuple[TrainingRun | UnsetType, list[Note]]:
            gpus = plan.workload.gpus
            return training_run(data, plan.workload, gpus, model.spec, accelerator, offers)

        listed, following = take_page(
            plans[request.offset or 0 :],
            each * len(methods),
            request.offset,
            len(plans),
            lambda plan: self._plan(request, model, accelerator, plan, run_of(plan)[0]),
        )
        choices, many = searched[0].choices, len(methods) > 1
        smaller: list[Suggestion] = []
        if not plans and not many:
            others = SMALLER.get(searched[0].base.method, ())
            smaller = self._by_other_methods(others, request, model, match, checkpoint)
        words = [
            summary(model, accelerator, one, smaller, many=many, is_unsaid=not request.method)
            for one in searched
        ]
        words += [run_in_words(one.run) for one in listed[:1] if one.run is not UNSET]
        loads = _loading_warnings(request, model, searched, accelerator)
        return TrainingPlanAnswer(
            summary=" ".join(words) + loading.release_in_words(loads),
            model=responses.model_answer(model),
            gpu=responses.gpu_answer(
                accelerator, listed[0].gpu_count if listed else choices.counts[-1]
            ),
            objective=objective,
            global_batch_size=choices.global_batch_size,
            min_gpu_count=min((plan.workload.gpus for plan in plans), default=None),
            plans=listed,
            suggestions=smaller,
            total=len(plans),
            next_offset=following,
            warnings=[
                *model.warnings,
                *model.spec.notes,
                *match.warnings,
                *(note for plan in plans[:1] for note in quantized_notes(model, plan.workload)),
                *_tool_warnings(request, model, searched),
                *loads,
                *(note for plan in plans[:1] for note in run_of(plan)[1]),
            ],
            understood_as=echo(searched, request, model, accelerator),
        )

    def _by_other_methods(
        self,
        methods: Sequence[Method],
        request: TrainingPlanRequest,
        model: Model,
        match: GpuMatch,
        checkpoint: Checkpoint,
    ) -> list[Suggestion]:
        """Return the first plan of each method that has one, up to the first that surely fits."""
        suggestions: list[Suggestion] = []
        for method in methods:
            other = structs.replace(request, method=method)
            try:
                plans = self._search(other, model, match, checkpoint).plans
            except InvalidRequestError:
                continue  # not with the other settings
            suggestions += [self._suggestion(method, plan, match.accelerator) for plan in plans[:1]]
            if suggestions and suggestions[-1].verdict == "fits":
                break
        return suggestions

    def _suggestion(self, method: Method, plan: Plan, accelerator: Accelerator) -> Suggestion:
        gpus = "one GPU" if plan.workload.gpus == 1 else f"{plan.workload.gpus} GPUs"
        return Suggestion(
            change=f"{METHOD_TITLES[method]} on {gpus} ({layout_text(plan.workload)})",
            verdict="fits" if self._verdict(plan, accelerator) == "fits" else "tight",
            required_bytes=plan.required.expected,
            request={"method": method},
        )

    def _search(
        self, request: TrainingPlanRequest, model: Model, match: GpuMatch, checkpoint: Checkpoint
    ) -> MethodPlans:
        """Return the plans of one method. Raises InvalidRequestError where no layout can run."""
        return MethodSearch(request, model, match, self._profile, checkpoint).plans()

    def _verdict(self, plan: Plan, accelerator: Accelerator) -> Verdict:
        return verdict(training_probability(plan.demand, accelerator.usable, self._profile))

    def _plan(
        self,
        request: TrainingPlanRequest,
        model: Model,
        accelerator: Accelerator,
        plan: Plan,
        run: TrainingRun | UnsetType,
    ) -> PlanAnswer:
        workload, usable = plan.workload, accelerator.usable
        every = training_stages(model.spec, workload, self._profile, usable.expected)
        price = request.price_per_gpu_hour
        moved = moved_of(request, workload, model)
        settings = plan_settings(request, workload, accelerator, model, moved)
        otherwise = other_choices(convert(settings, TrainingRequest), workload, moved)
        others = [
            fullest(training_stages(model.spec, other, self._profile, usable.expected))
            for other in otherwise
        ]
        return PlanAnswer(
            gpu_count=workload.gpus,
            layout=layout_text(workload),
            verdict="fits" if self._verdict(plan, accelerator) == "fits" else "tight",
            required_bytes=widened(fullest(every).need, [other.need for other in others]),
            usable_bytes=usable.expected,
            headroom_bytes=usable.expected - plan.required.expected,
            host_bytes=sum(stage.host_bytes for stage in every) * workload.gpus // len(every),
            checkpoint_bytes=checkpoint_bytes(model.spec, workload),
            relative_throughput=round(plan.throughput, 4),
            efficiency=round(plan.efficiency, 4),
            cost_per_gpu_hour_of_work=None if price is None else round(price / plan.efficiency, 4),
            settings=settings,
            run=run,
            stages=training_rank_answers(every, usable, self._profile),
            launch=plan_launch(model, workload, tool_of(request)),
        )


def _tool_warnings(
    request: TrainingPlanRequest, model: Model, searched: list[MethodPlans]
) -> list[Note]:
    """Return a tool's defaults, and the settings of the first plans that their commands lack."""
    tool = tool_of(request)
    lacking = [
        message
        for one in searched
        for plan in one.plans[:1]
        for message in unsupported_settings(model, plan.workload, tool=tool)
    ]
    return list(
        dict.fromkeys([*(one.tool_defaults for one in searched if one.tool_defaults), *lacking])
    )


def _loading_warnings(
    request: TrainingPlanRequest,
    model: Model,
    searched: list[MethodPlans],
    accelerator: Accelerator,
) -> list[Note]:
    """Return that the base of plans without a tool lies whole on every GPU under most, and fits on
    none; check_training_fit says the same of one layout. Under a tool, that this is why no number
    of GPUs shards it."""
    if tool_of(request) is None:
        return [
            note
            for one in searched
            for plan in one.plans[:1]
            for note in loading.uncounted(model.spec, plan.workload, accelerator)
        ]
    widest = [
        structs.replace(
            one.base,
            framework=one.choices.frameworks[-1],
            zero_stage=3,
            data_parallel=one.choices.counts[-1],
        )
        for one in searched
    ]
    return [
        note
        for workload in widest
        if workload.framework in ("fsdp", "deepspeed")
        for note in loading.of_no_count(model.spec, workload, accelerator)
    ]
