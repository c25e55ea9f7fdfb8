"""recommend_gpus for training: on which GPUs, and how few of each, does one step of this model
fit?"""

from collections.abc import Sequence
from math import inf

from msgspec import structs

from fitgauge.catalog.catalog import Catalog
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.quantity import gib
from fitgauge.engine.serving.fit import verdict
from fitgauge.engine.training.estimate import training_stages
from fitgauge.engine.training.odds import training_probability
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common import parsing, responses
from fitgauge.services.common.kubernetes import pods_for
from fitgauge.services.common.long_questions import Checkpoint, no_checkpoint
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.recommend import candidates
from fitgauge.services.recommend.constraints import (
    cheapest,
    limits,
    overconstrained,
    relaxed_constraints,
    watts,
)
from fitgauge.services.recommend.costs import Costs, clouds
from fitgauge.services.recommend.echo import training_fields
from fitgauge.services.recommend.gpu_options import GpuLimit
from fitgauge.services.recommend.option_schemas import TrainingRecommendation
from fitgauge.services.recommend.pages import page_of
from fitgauge.services.recommend.pareto import dominates
from fitgauge.services.recommend.schemas import Objective, RecommendAnswer, RecommendRequest
from fitgauge.services.recommend.shortlist import Pick
from fitgauge.services.recommend.training_layouts import TrainingLayouts
from fitgauge.services.recommend.training_shortlist import (
    Layout,
    Trained,
    order,
    trained_on,
    training_shortlist,
)
from fitgauge.services.recommend.warnings import training_warnings
from fitgauge.services.training_fit import parsing as training_words
from fitgauge.services.training_fit.defaults import METHODS
from fitgauge.services.training_fit.echo import workload_fields
from fitgauge.services.training_fit.launchers.registry import find_tool
from fitgauge.services.training_fit.support import refusal
from fitgauge.services.training_plan.choices import DEFAULT_MOST, MOST, between, counts_to
from fitgauge.services.training_plan.launch import plan_launch

_METHODS = {"full": "Full", "lora": "LoRA", "qlora": "QLoRA", "dora": "DoRA"}
_VENDORS = ("NVIDIA", "AMD")
"""Makers whose GPUs are searched where none is named: the frameworks' memory was learned on
CUDA and holds for ROCm's PyTorch."""


class TrainingRecommender:
    """Searches the GPUs of a catalog for one model's training.

    What a layout holds does not depend on the GPU, so every layout of a count is estimated once
    and set against all GPUs."""

    def __init__(self, profile: TrainingProfile, catalog: Catalog) -> None:
        self._profile = profile
        self._catalog = catalog

    def answer(
        self,
        request: RecommendRequest,
        model: Model,
        objective: Objective,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> RecommendAnswer:
        """Return the Pareto set of GPUs, ordered. Raises InvalidRequestError where nothing is
        left, naming the constraint that empties the set."""
        request, front = self._wide_enough(request, model, checkpoint)
        if not front:
            raise self._nothing(request, model, checkpoint)
        picks = training_shortlist(front, objective)
        front.sort(key=lambda trained: (order(trained, objective), trained.accelerator.id))
        training, following = page_of(
            request, front, lambda trained: self._recommendation(trained, request, model)
        )
        return RecommendAnswer(
            summary=_summary(model, picks, len(front)),
            model=responses.model_answer(model),
            objective=objective,
            options=[],
            items=[],
            measurements={},
            training_options=[self._pick(pick, request, model) for pick in picks],
            training=training,
            total=len(front),
            next_offset=following,
            warnings=training_warnings(
                request, model, _gpu_limits(request, self._catalog, _costs(request, self._catalog))
            ),
            understood_as=training_fields(
                request, model, picks[0].option.layout.workload, objective
            ),
        )

    def _wide_enough(
        self, request: RecommendRequest, model: Model, checkpoint: Checkpoint
    ) -> tuple[RecommendRequest, list[Trained]]:
        """Return the front. Where no fewer GPUs than DEFAULT_MOST hold the model and the question
        sets no limit, of twice as many and so on, and the question with that limit."""
        front, wider, most = self.front(request, model, checkpoint), request, DEFAULT_MOST
        while not front and request.max_gpu_count is None and most < MOST:
            most *= 2
            wider = structs.replace(request, max_gpu_count=most)
            front = self.front(wider, model, checkpoint)
        return (wider if front else request), front

    def front(
        self, request: RecommendRequest, model: Model, checkpoint: Checkpoint = no_checkpoint
    ) -> list[Trained]:
        """For every GPU and method the least count that fits, without those that another of the
        method beats in count, memory, speed and price at once; lora before qlora before full.

        Raises InvalidRequestError where each method is impossible."""
        methods = [training_words.method(request.method)] if request.method else list(METHODS)
        fronts, errors = [], []
        for method in methods:
            try:
                of_method = structs.replace(request, method=method)
                fronts.append(self._front(of_method, model, checkpoint))
            except IMPOSSIBLE as error:
                errors.append(error)
        if not fronts:
            raise errors[-1]
        return [trained for one in fronts for trained in one]

    def _front(
        self, request: RecommendRequest, model: Model, checkpoint: Checkpoint
    ) -> list[Trained]:
        """Return the options of one method."""
        costs = _costs(request, self._catalog)
        gpus = _gpu_limits(request, self._catalog, costs)
        layouts = TrainingLayouts(
            request, model, max(limit.most for limit in gpus), self._profile, checkpoint
        )
        within = limits(request, costs)

        def fastest(accelerator: Accelerator, count: int) -> Layout | None:
            return next((one for one in layouts[count] if self._fits(one, accelerator)), None)

        def fewest(accelerator: Accelerator, most: int) -> Trained | None:
            counts = counts_to(most)
            for enough in (count for count in counts if fastest(accelerator, count)):
                for count in (*between(counts, enough), enough):
                    layout = fastest(accelerator, count)
                    if layout and (within is None or within(accelerator, count)):
                        return trained_on(accelerator, count, layout, model, costs)
            return None

        trained_each = (fewest(limit.accelerator, limit.most) for limit in gpus)
        fitting = [trained for trained in trained_each if trained is not None]
        return [
            one
            for one in fitting
            if not any(dominates(other.criteria, one.criteria) for other in fitting)
        ]

    def _pick(
        self, pick: Pick[Trained], request: RecommendRequest, model: Model
    ) -> TrainingRecommendation:
        """Return one of the options that are shown first."""
        shown = self._recommendation(pick.option, request, model)
        shown.roles = list(pick.roles)
        method = "" if request.method else f"{_METHODS[shown.method]}: "
        shown.reason = f"{method}{pick.reason}"
        return shown

    def _fits(self, layout: Layout, accelerator: Accelerator) -> bool:
        if (
            layout.required.low > accelerator.usable.high
            or refusal(layout.workload, accelerator) is not None
        ):
            return False
        usable = accelerator.usable
        return verdict(training_probability(layout.demand, usable, self._profile)) == "fits"

    def _recommendation(
        self, trained: Trained, request: RecommendRequest, model: Model
    ) -> TrainingRecommendation:
        """Return one option in the words of the contract."""
        accelerator, workload = trained.accelerator, trained.layout.workload
        every = training_stages(model.spec, workload, self._profile, accelerator.usable.expected)
        settings = workload_fields(workload, accelerator, trained.gpus, model)
        tool = find_tool(request.framework)
        if tool is not None:
            settings = {**settings, "trainer": tool.name}
        return TrainingRecommendation(
            gpu=responses.gpu_answer(accelerator, trained.gpus),
            framework=workload.framework,
            method=workload.method,
            verdict="fits",
            required_bytes=max((stage.need for stage in every), key=lambda need: need.expected),
            usable_bytes=accelerator.usable.expected,
            headroom_bytes=accelerator.usable.expected - trained.layout.required.expected,
            total_usable_bytes=trained.criteria[1],
            efficiency=round(trained.layout.throughput / trained.gpus, 4),
            tokens_per_second_at_peak=trained.tokens_per_second,
            cost=_costs(request, self._catalog).answer(accelerator, trained.gpus, None, None),
            watts=watts(accelerator, trained.gpus),
            kubernetes=pods_for(
                accelerator, trained.gpus, request.gpus_per_node, together=trained.gpus > 1
            ),
            request={**settings, "model": request.model},
            launch=plan_launch(model, workload, tool),
        )

    def _nothing(
        self, request: RecommendRequest, model: Model, checkpoint: Checkpoint
    ) -> InvalidRequestError:
        """Return what leaves nothing: some of the constraints, else the training itself."""
        if parted := relaxed_constraints(request, lambda less: self.front(less, model, checkpoint)):
            names, options = parted
            best = min(
                options,
                key=lambda one: order(
                    one, "cheapest" if "max_usd_per_hour" in names else "fewest_cards"
                ),
            )
            instead = (
                f"{responses.gpu_count_in_words(best.accelerator, best.gpus)}, under"
                f" {best.layout.workload.framework},"
            )
            return overconstrained(
                request,
                names,
                f"a training step of {model.id}",
                instead,
                cheapest(best.criteria[4]) if "max_usd_per_hour" in names else "",
            )
        message = (
            f"No layout of {model.id} fits on up to {request.max_gpu_count or DEFAULT_MOST} of any"
            " GPU that is allowed here."
        )
        return InvalidRequestError(
            message,
            hint="Send method lora or qlora, a shorter sequence_length, or a larger max_gpu_count.",
            field="method",
            code="no-option",
        )


def _costs(request: RecommendRequest, catalog: Catalog) -> Costs:
    return Costs(
        catalog.offers,
        clouds(parsing.split_list(request.clouds), catalog.offers),
        owned=bool(request.owned),
        gpus_per_node=request.gpus_per_node,
    )


def _gpu_limits(request: RecommendRequest, catalog: Catalog, costs: Costs) -> list[GpuLimit]:
    """Return the GPUs that are asked about; where none is named those whose software the
    estimates were learned on."""
    of_vendors = structs.replace(request, max_gpu_count=request.max_gpu_count or DEFAULT_MOST)
    if not parsing.split_list(request.gpus) and not parsing.split_list(request.vendors):
        of_vendors = structs.replace(of_vendors, vendors=list(_VENDORS))
    return candidates.gpu_limits(of_vendors, catalog, costs)


def _summary(model: Model, picks: Sequence[Pick[Trained]], total: int) -> str:
    """Return the best option of every method in a sentence."""
    sentences = []
    for method in dict.fromkeys(pick.option.layout.workload.method for pick in picks):
        best = next(pick for pick in picks if pick.option.layout.workload.method == method).option
        gpus = responses.gpu_count_in_words(best.accelerator, best.gpus)
        price = f", from {best.criteria[4]:.2f} USD an hour" if best.criteria[4] < inf else ""
        needs, has = gib(best.layout.required.expected), gib(best.accelerator.usable.expected)
        sentences.append(
            f"{_METHODS[method]} training of {model.id} fits on {gpus} under"
            f" {best.layout.workload.framework}: at least {needs} of {has} on the fullest{price}."
        )
    if total > len(picks):
        sentences.append(f"{total - len(picks)} more options, each the fewest of its GPU.")
    return " ".join(sentences)
