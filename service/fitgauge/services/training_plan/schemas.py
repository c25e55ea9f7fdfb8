"""The contract of plan_training: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Bytes
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.pages import NextOffset
from fitgauge.services.common.schemas import GpuAnswer, ModelAnswer, RankAnswer, Suggestion, Text
from fitgauge.services.training_fit.run_schemas import TrainingRun
from fitgauge.services.training_fit.shared_fields import SharedFields

Objective = Literal["fewest_gpus", "cheapest", "fastest"]


class TrainingPlanRequest(SharedFields, kw_only=True, forbid_unknown_fields=True):
    """Which layouts train this model on these GPUs? Only `model` and `gpu` are needed; what is
    left out is searched."""

    gpu: Annotated[
        Text,
        doc("The accelerator as people write it, or a memory size: 80GB.", examples=["A100 80GB"]),
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        doc("Exactly so many. Default: powers of two up to max_gpu_count, and between."),
    ] = None
    """Narrower than training-fit's: a plan may share its data among all of them, and a degree ends
    at 1024."""
    max_gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        doc("The most to try. Default 64, and more where no fewer hold it.", examples=[64]),
    ] = None
    objective: Annotated[
        Objective | None,
        doc(
            "What comes first: fewest_gpus (default), cheapest (least GPU time a token) or fastest."
        ),
    ] = None
    global_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc(
            "Sequences of one optimizer step, kept by every plan. Default 128, rounded up to a"
            " multiple of a count between powers of two.",
            examples=[1024],
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None, doc("Plans of a page. Default 8.")
    ] = None
    offset: Annotated[Annotated[int, Meta(ge=0, le=1_000_000)] | None, doc("Plans to skip.")] = None


class PlanLaunch(Struct, kw_only=True):
    """How to start a plan."""

    command: Annotated[str, doc("The command that starts the run.")]
    files: Annotated[dict[str, str], doc("Files the command reads, by name.")]


class PlanAnswer(Struct, kw_only=True):
    """One layout that holds the model."""

    gpu_count: Annotated[int, doc("GPUs of the run.")]
    layout: Annotated[str, doc("In words: framework, degrees, ZeRO stage, checkpointing.")]
    verdict: Annotated[Literal["fits", "tight"], doc("tight: the interval reaches beyond the GPU.")]
    required_bytes: Annotated[Bytes, doc("Of the fullest GPU.")]
    usable_bytes: Annotated[int, doc("What a process can really take of one GPU.")]
    headroom_bytes: Annotated[
        int, doc("usable_bytes less what it needs at the least (fragmentation given back).")
    ]
    host_bytes: Annotated[int, doc("Host memory of all ranks for what is offloaded.")]
    checkpoint_bytes: Annotated[
        int, doc("Disk for one checkpoint to resume from: weights, masters, optimizer states.")
    ]
    relative_throughput: Annotated[
        float,
        doc(
            "Speed as a share of that of GPUs without recomputation and pipeline bubbles; data"
            " parallel traffic is left out."
        ),
    ]
    efficiency: Annotated[float, doc("relative_throughput over gpu_count.")]
    cost_per_gpu_hour_of_work: Annotated[
        float | None,
        doc(
            "price_per_gpu_hour over efficiency: what an hour's worth of ideal work costs; null"
            " without a price."
        ),
    ]
    settings: Annotated[
        dict[str, str | int | float | bool], doc("Fields to send to check_training_fit for it.")
    ]
    run: Annotated[
        TrainingRun | UnsetType,
        doc("Time and cost of the whole run, where samples or token_budget is sent."),
    ] = UNSET
    stages: Annotated[list[RankAnswer], doc("Every pipeline stage with its terms.")]
    launch: Annotated[PlanLaunch, doc("The command that starts it, and its files.")]


class TrainingPlanAnswer(Struct, kw_only=True):
    """The plans that no other of its method beats on as many GPUs, the one asked for first."""

    summary: Annotated[str, doc("One or two sentences a person can act on.")]
    model: Annotated[ModelAnswer, doc("The model as it was read.")]
    gpu: Annotated[GpuAnswer, doc("The GPU; its count is that of the first plan.")]
    objective: Annotated[Objective, doc("The order of the plans.")]
    global_batch_size: Annotated[int, doc("Sequences of one optimizer step.")]
    min_gpu_count: Annotated[
        int | None, doc("The fewest that hold it; null where nothing up to max_gpu_count does.")
    ]
    plans: Annotated[list[PlanAnswer], doc("The plans, the best by the objective first.")]
    suggestions: Annotated[
        list[Suggestion], doc("Where there is no plan: methods that need less, the nearest first.")
    ]
    total: Annotated[int, doc("Plans of all pages.")]
    next_offset: NextOffset
    """The `offset` of the next page."""
    warnings: Annotated[list[Note], doc("What to know about the search and its figures.")]
    understood_as: Annotated[
        dict[str, str | int | float | bool], doc("What was kept, with every default filled in.")
    ]
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
