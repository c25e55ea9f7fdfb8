"""The contract of plan_training: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Bytes
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.pages import NextOffset
from fitgauge.services.common.schemas import (
    GpuAnswer,
    ModelAnswer,
    RankAnswer,
    Suggestion,
    Text,
)
from fitgauge.services.training_fit.run_schemas import TrainingRun
from fitgauge.services.training_fit.shared_fields import SharedFields

Objective = Literal["fewest_gpus", "cheapest", "fastest"]


class TrainingPlanRequest(SharedFields, kw_only=True, forbid_unknown_fields=True):
    """Which layouts train this model on these GPUs? Only `model` and `gpu` are needed; what is
    left out is searched."""

    gpu: Annotated[
        Text,
        Meta(
            description="The accelerator as people write it, or a memory size: 80GB.",
            examples=["A100 80GB"],
        ),
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(
            description="Exactly so many. Default: powers of two up to max_gpu_count, and between."
        ),
    ] = None
    """Narrower than training-fit's: a plan may share its data among all of them, and a degree ends
    at 1024."""
    max_gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(description="The most to try. Default 64.", examples=[64]),
    ] = None
    objective: Annotated[
        Objective | None,
        Meta(
            description=(
                "What comes first: fewest_gpus (default), cheapest (least GPU time a token) or"
                " fastest."
            )
        ),
    ] = None
    global_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description=(
                "Sequences of one optimizer step, kept by every plan. Default 128, rounded up to a"
                " multiple of a count between powers of two."
            ),
            examples=[1024],
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None,
        Meta(description="Plans of a page. Default 8."),
    ] = None
    offset: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="Plans to skip."),
    ] = None


class PlanLaunch(Struct, kw_only=True):
    """How to start a plan."""

    command: Annotated[str, Meta(description="The command that starts the run.")]
    files: Annotated[dict[str, str], Meta(description="Files the command reads, by name.")]


class PlanAnswer(Struct, kw_only=True):
    """One layout that holds the model."""

    gpu_count: Annotated[int, Meta(description="GPUs of the run.")]
    layout: Annotated[
        str, Meta(description="In words: framework, degrees, ZeRO stage, checkpointing.")
    ]
    verdict: Annotated[
        Literal["fits", "tight"], Meta(description="tight: the interval reaches beyond the GPU.")
    ]
    required_bytes: Annotated[Bytes, Meta(description="Of the fullest GPU.")]
    usable_bytes: Annotated[int, Meta(description="What a process can really take of one GPU.")]
    headroom_bytes: Annotated[
        int,
        Meta(
            description="usable_bytes less what it needs at the least (fragmentation given back)."
        ),
    ]
    host_bytes: Annotated[int, Meta(description="Host memory of all ranks for what is offloaded.")]
    checkpoint_bytes: Annotated[
        int,
        Meta(
            description=(
                "Disk for one checkpoint to resume from: weights, masters, optimizer states."
            )
        ),
    ]
    relative_throughput: Annotated[
        float,
        Meta(
            description=(
                "Speed as a share of that of GPUs without recomputation and pipeline bubbles; data"
                " parallel traffic is left out."
            )
        ),
    ]
    efficiency: Annotated[float, Meta(description="relative_throughput over gpu_count.")]
    cost_per_gpu_hour_of_work: Annotated[
        float | None,
        Meta(
            description=(
                "price_per_gpu_hour over efficiency: what an hour's worth of ideal work costs; null"
                " without a price."
            )
        ),
    ]
    settings: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="Fields to send to check_training_fit for it."),
    ]
    run: Annotated[
        TrainingRun | UnsetType,
        Meta(description="Time and cost of the whole run, where samples or token_budget is sent."),
    ] = UNSET
    stages: Annotated[list[RankAnswer], Meta(description="Every pipeline stage with its terms.")]
    launch: Annotated[PlanLaunch, Meta(description="The command that starts it, and its files.")]


class TrainingPlanAnswer(Struct, kw_only=True):
    """The plans that no other of its method beats on as many GPUs, the one asked for first."""

    summary: Annotated[str, Meta(description="One or two sentences a person can act on.")]
    model: Annotated[ModelAnswer, Meta(description="The model as it was read.")]
    gpu: Annotated[GpuAnswer, Meta(description="The GPU; its count is that of the first plan.")]
    objective: Annotated[Objective, Meta(description="The order of the plans.")]
    global_batch_size: Annotated[int, Meta(description="Sequences of one optimizer step.")]
    min_gpu_count: Annotated[
        int | None,
        Meta(description="The fewest that hold it; null where nothing up to max_gpu_count does."),
    ]
    plans: Annotated[
        list[PlanAnswer], Meta(description="The plans, the best by the objective first.")
    ]
    suggestions: Annotated[
        list[Suggestion],
        Meta(description="Where there is no plan: methods that need less, the nearest first."),
    ]
    total: Annotated[int, Meta(description="Plans of all pages.")]
    next_offset: NextOffset
    """The `offset` of the next page."""
    warnings: Annotated[
        list[Note], Meta(description="What to know about the search and its figures.")
    ]
    understood_as: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="What was kept, with every default filled in."),
    ]
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
