"""The layouts that train a model on a number of GPUs: those that plan_training searches, each
estimated once for all GPUs."""

from msgspec import structs

from fitgauge.engine.model.model import Model
from fitgauge.engine.training.estimate import training_stage
from fitgauge.engine.training.phases import stages
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.engine.training.search.layouts import Choices, checkpointed, layouts
from fitgauge.engine.training.search.throughput import throughput
from fitgauge.engine.training.workload import Checkpointing, Framework, TrainingWorkload
from fitgauge.services.common.long_questions import Checkpoint
from fitgauge.services.recommend.echo import global_batch_size
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.services.recommend.training_shortlist import Layout
from fitgauge.services.training_fit import parsing
from fitgauge.services.training_fit.launchers.command import checkpoints_selectively
from fitgauge.services.training_fit.launchers.registry import tool_of
from fitgauge.services.training_plan.choices import (
    bases_of,
    frameworks_named,
    settled_frameworks,
    split_choices,
    splits_layers,
    splits_sequences,
)
from fitgauge.services.training_plan.schemas import TrainingPlanRequest

_FRAMEWORKS: tuple[Framework, ...] = ("fsdp", "deepspeed", "megatron")
_CHECKPOINTING: tuple[Checkpointing, ...] = ("none", "selective", "full")


class TrainingLayouts(dict[int, list[Layout]]):
    """By a number of GPUs: every layout on so many, the fastest first, estimated when it is first
    asked for.

    Raises InvalidRequestError for settings that nothing can run. most: the most GPUs."""

    def __init__(
        self,
        request: RecommendRequest,
        model: Model,
        most: int,
        profile: TrainingProfile,
        checkpoint: Checkpoint,
    ) -> None:
        super().__init__()
        self._model, self._profile, self._checkpoint = model, profile, checkpoint
        self._question = question = _question(request)
        self._bases = bases_of(question, model, None)
        adapted = parsing.method(request.method) != "full"
        named = frameworks_named(question, None, _FRAMEWORKS) or _FRAMEWORKS
        frameworks = tuple(name for name in named if not (adapted and name == "megatron")) or named
        frameworks = settled_frameworks(self._bases, frameworks, most)
        self._base = self._bases(frameworks[0], most)
        self._choices = Choices(
            frameworks=frameworks,
            counts=(most,),
            global_batch_size=global_batch_size(request),
            splits_sequences=splits_sequences(question, self._base),
            splits_layers=splits_layers(question, self._base),
        )

    def __missing__(self, count: int) -> list[Layout]:
        of_count = structs.replace(self._choices, counts=(count,))
        tool = tool_of(self._question)
        tried = [
            self._layout(checkpointed(layout, kind))
            for part in split_choices(self._question, self._base, of_count)
            for layout in layouts(self._model.spec, self._bases, part, count)
            for kind in _CHECKPOINTING
            if kind != "selective" or checkpoints_selectively(layout.framework, tool)
        ]
        tried.sort(
            key=lambda one: (-one.throughput, one.required.expected, one.workload.tensor_parallel)
        )
        self[count] = tried
        return tried

    def _layout(self, workload: TrainingWorkload) -> Layout:
        self._checkpoint()
        every = (
            training_stage(self._model.spec, workload, self._profile, stage)
            for stage in stages(self._model.spec, workload, ends=True)
        )
        return Layout(
            workload,
            max((stage.demand for stage in every), key=lambda one: one.required.expected),
            throughput(self._model.spec, workload),
        )


def _question(request: RecommendRequest) -> TrainingPlanRequest:
    """Return the question that plan_training would answer for one of the GPUs."""
    return TrainingPlanRequest(
        model=request.model,
        gpu="any",
        method=request.method,
        framework=request.framework,
        precision=request.precision,
        optimizer=request.optimizer,
        lora_rank=request.lora_rank,
        sequence_length=request.sequence_length,
        global_batch_size=request.global_batch_size,
    )
