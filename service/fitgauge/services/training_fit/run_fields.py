"""Fields of a training request about the whole run that no plan takes."""

from typing import Annotated

from msgspec import Meta

from fitgauge.field_docs import doc
from fitgauge.services.training_fit.fields import AlgorithmFields

MOST_LENGTHS = 4096
"""Different lengths of a histogram."""
Histogram = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,7}$")],
        Annotated[int, Meta(ge=1, le=1_000_000_000_000)],
    ],
    Meta(min_length=1, max_length=MOST_LENGTHS),
]


class RunFields(AlgorithmFields, kw_only=True):
    """The whole run."""

    lengths: Annotated[
        Histogram | None,
        doc(
            "Tokens of a sample -> number of such samples: sets sequence_length (longer samples"
            " are cut to one that is sent), mean_sequence_length and samples.",
            examples=[{"512": 800, "2048": 150, "4096": 50}],
        ),
    ] = None
    save_steps: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000)] | None,
        doc(
            "Optimizer steps between checkpoints: adds `disk`. Default: the tool's own (500 of"
            " transformers' Trainer, 1000 of LitGPT, an epoch of torchtune)."
        ),
    ] = None
    save_total_limit: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Checkpoints that stay on disk: adds `disk`. Default: all.", examples=[2]),
    ] = None
    eval_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        doc(
            "Sequences of one evaluation pass on one rank (8 of transformers' Trainer): adds"
            " `evaluation`."
        ),
    ] = None
    eval_generated_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Tokens that each generates in evaluation (predict_with_generate)."),
    ] = None
    merge: Annotated[
        bool | None, doc("Adds `merge`: the adapters merged into their base. Default false.")
    ] = None
    resume_gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        doc("GPUs that the run resumes on from a checkpoint: adds `resume`."),
    ] = None


OF_THE_RUN = (
    "samples", "epochs", "token_budget", "mfu", "price_per_gpu_hour", "save_steps",
    "save_total_limit", "eval_batch_size", "eval_generated_tokens", "merge", "resume_gpu_count",
)  # fmt: skip
"""Fields of the whole run and of what is around it: without a default to fill in, and without a
meaning where no GPU is named."""
