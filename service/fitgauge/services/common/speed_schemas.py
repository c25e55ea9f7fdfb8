"""The contract of a speed: what a load gets, how that is known, and the published runs behind
it."""

from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.performance.load import Load
from fitgauge.engine.performance.prefill import Seconds
from fitgauge.engine.performance.texts import TextLoad, TextRate
from fitgauge.field_docs import doc
from fitgauge.services.common.token_prices import Usd

SpeedBasis = Annotated[
    Literal["measured", "modelled"],
    doc(
        "measured: scaled to a published run of this model, GPU, engine and format at a like"
        " load; modelled: from bandwidth and arithmetic alone."
    ),
]


class PublishedRun(Struct, kw_only=True):
    """One published run of a model of this shape on such GPUs."""

    model: Annotated[str, doc("The model that ran.")]
    engine: Annotated[str, doc("Its engine.")]
    gpu: Annotated[str, doc("The id of the GPU.")]
    gpu_count: Annotated[int, doc("Number of GPUs.")]
    quantization: Annotated[str, doc("The format of its weights.")]
    load: Annotated[Load, doc("What it answered.")]
    tokens_per_second_per_request: Annotated[float, doc("As published.")]
    seconds_to_first_token: Annotated[float | None, doc("As published; null where it is not.")]
    source: Annotated[str, doc("Where it is published.")]


class SpeedTarget(Struct, kw_only=True):
    """A speed that the request asks for, and whether it is reached."""

    field: Annotated[str, doc("The field of the request.")]
    value: Annotated[float, doc("The value that it sets.")]
    reached: Annotated[
        Literal["yes", "likely", "unlikely", "no"],
        doc("yes, no: over the whole interval; likely, unlikely: by the expected figure."),
    ]


class SpeedAnswer(Struct, kw_only=True):
    """How fast the launch answers a load: all requests decode at once, each with such a prompt
    and such an answer."""

    load: Annotated[Load, doc("The load.")]
    tokens_per_second: Annotated[
        DecodeSpeed | None,
        doc(
            "Of all requests together, the reading of their prompts included; null where no"
            " source states how fast the GPU multiplies."
        ),
    ]
    tokens_per_second_per_request: Annotated[DecodeSpeed, doc("Of one answer while it is written.")]
    basis: SpeedBasis
    """How these two are known."""
    seconds_to_first_token: Annotated[
        Seconds | None,
        doc("low: alone; high: all requests at once; expected: between the two; null likewise."),
    ]
    first_token_basis: SpeedBasis
    """How this is known."""
    source: Annotated[str, doc("Where the formula and its errors are.")]
    assumed: Annotated[
        str | None,
        doc(
            "What is assumed of the machine, where part of the weights lies in host memory;"
            " else null."
        ),
    ] = None
    runs: Annotated[
        list[PublishedRun], doc("The nearest published runs: one, with `detail` full up to five.")
    ]
    targets: Annotated[list[SpeedTarget], doc("Speeds that the request asks for; else empty.")] = []
    usd_per_million_output_tokens: Annotated[
        Usd | None, doc("The GPUs' rent over `tokens_per_second`; null without a known price.")
    ] = None


class PublishedBatch(Struct, kw_only=True):
    """One published batch of texts of a model of this shape."""

    model: Annotated[str, doc("A model of the shape that ran.")]
    engine: Annotated[str, doc("Its engine.")]
    gpu: Annotated[str, doc("The id of the GPU.")]
    load: Annotated[TextLoad, doc("The batch.")]
    texts_per_second: Annotated[float, doc("As published.")]
    source: Annotated[str, doc("Where it is published.")]


class TextSpeedAnswer(Struct, kw_only=True):
    """How fast an embedding or reranking model reads texts, or pairs of a query and a document:
    `concurrency` of them are one batch, of `prompt_tokens` tokens each."""

    load: Annotated[TextLoad, doc("The batch.")]
    texts_per_second: Annotated[
        TextRate, doc("Of batches that follow each other, over all replicas.")
    ]
    seconds_per_batch: Annotated[Seconds, doc("Of one alone.")]
    basis: SpeedBasis
    """How these are known."""
    source: Annotated[str, doc("Where the formula and its errors are.")]
    runs: Annotated[list[PublishedBatch], doc("The nearest published batch; empty for none.")]
    usd_per_million_texts: Annotated[
        Usd | None, doc("The GPUs' rent over `texts_per_second`; null without a known price.")
    ] = None
