"""The whole run in a training answer."""

from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.engine.quantity import Basis
from fitgauge.field_docs import doc
from fitgauge.services.common.schemas import Verdict


class Interval(Struct, kw_only=True, frozen=True):
    """A figure that lies between low and high in nine cases of ten."""

    low: Annotated[float, doc("Lower end.")]
    expected: Annotated[float, doc("The median.")]
    high: Annotated[float, doc("Upper end.")]


class TrainingRun(Struct, kw_only=True):
    """Time and cost of the whole run. Leaves out loading, evaluation, writing checkpoints and
    waiting for data."""

    tokens: Annotated[int, doc("Tokens of the samples, in all epochs.")]
    computed_tokens: Annotated[
        int, doc("With padding, where several samples of a micro-batch vary.")
    ]
    steps: Annotated[int, doc("Optimizer steps.")]
    seconds: Annotated[Interval, doc("On all GPUs together.")]
    gpu_hours: Annotated[Interval, doc("Hours times GPUs.")]
    usd: Annotated[
        Interval | None,
        doc(
            "At the catalog's lowest price, or at yours; low to high: over times. Null without"
            " a price."
        ),
    ]
    prices_as_of: Annotated[
        str | None, doc("The oldest date of the prices; null where you sent one, or none.")
    ]
    tokens_per_second: Annotated[Interval, doc("Computed tokens a second of all GPUs together.")]
    mfu: Annotated[Interval, doc("Model FLOPs utilization, 0 to 1.")]
    basis: Annotated[
        Basis,
        doc("calibrated: of published runs on such GPUs; assumed: there are none, or mfu is sent."),
    ]
    formula: Annotated[str, doc("Expected seconds with their numbers.")]
    source: Annotated[str, doc("Where the formula and its figures come from.")]


class CheckpointFileAnswer(Struct, kw_only=True):
    """A file of a checkpoint, or the files of all ranks that are alike."""

    name: Annotated[str, doc("As the tool names it.")]
    bytes: Annotated[int, doc("Its size, without headers and random states.")]
    formula: Annotated[str, doc("Of what it is the sum.")]
    source: Annotated[str, doc("The code that writes it.")]


class TrainingDisk(Struct, kw_only=True):
    """What the checkpoints of a run take on disk."""

    checkpoint_bytes: Annotated[
        int, doc("Of one, as the tool writes it: some write weights twice.")
    ]
    files: Annotated[list[CheckpointFileAnswer], doc("Of which it is the sum.")]
    written: Annotated[
        int | None, doc("Checkpoints that the run writes; null without samples or token_budget.")
    ]
    total_bytes: Annotated[
        int | None,
        doc(
            "The most on disk at once: the checkpoints that stay, and the one that is written"
            " before the oldest is deleted. Null where their number is open."
        ),
    ]


class Evaluation(Struct, kw_only=True):
    """Evaluation between two steps, on the fullest GPU."""

    batch_size: Annotated[int, doc("Sequences of one pass on one rank.")]
    required_bytes: Annotated[int, doc("Weights and states that stay, the process, and the pass.")]
    fits: Annotated[bool, doc("Whether that is within the GPU.")]
    max_batch_size: Annotated[int, doc("The largest that fits, 1024 at most.")]
    source: Annotated[str, doc("What evaluates, and how.")]


class AdapterMerge(Struct, kw_only=True):
    """Adapters merged into their base in 16 bit (PEFT's merge_and_unload)."""

    required_bytes: Annotated[
        int, doc("In host memory or on one GPU: wherever the base is loaded.")
    ]
    fits_gpu: Annotated[bool, doc("Whether one such GPU holds it; true without `gpu`.")]
    disk_bytes: Annotated[int, doc("Of the merged model.")]
    formula: Annotated[str, doc("Of what required_bytes is the sum.")]
    source: Annotated[str, doc("The code that merges.")]


CheckpointUse = Literal["loads", "loads_without_data", "converts", "unverified"]


class Resume(Struct, kw_only=True):
    """The same training on other GPUs, from a checkpoint."""

    gpu_count: Annotated[int, doc("GPUs that it resumes on.")]
    verdict: Annotated[Verdict, doc("The verdict on them.")]
    required_bytes: Annotated[
        int | None, doc("Expected, of the fullest GPU; null where unsupported.")
    ] = None
    micro_batches: Annotated[
        int | None, doc("Forward passes of a step that keep its sequences.")
    ] = None
    checkpoint: Annotated[
        CheckpointUse,
        doc(
            "loads: as it is; loads_without_data: but its place in the data; converts: after a"
            " conversion; unverified: not read."
        ),
    ]
    why: Annotated[str, doc("Why, with the code that loads it; of unsupported, why none can.")]
