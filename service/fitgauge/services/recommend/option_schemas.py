"""The contract of one recommended deployment: its need, speeds, cost and how to start it."""

from typing import Annotated, Literal

from msgspec import Struct

from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.performance.prefill import Seconds
from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.field_docs import doc
from fitgauge.services.common.kubernetes import Kubernetes
from fitgauge.services.common.schemas import ChosenSettings, GpuAnswer, Launch, Verdict
from fitgauge.services.recommend.costs import CostAnswer
from fitgauge.services.training_plan.schemas import PlanLaunch

Fields = dict[str, str | int | float | bool]

Role = Literal[
    "fewest_gpus",
    "cheapest",
    "fastest",
    "headroom",
    "as_published",
    "smallest",
    "cheapest_per_token",
    "alternative",
]
"""Why an option is one of the few that are shown first."""


class DecodeAnswer(Struct, kw_only=True):
    """How fast it generates: what memory bandwidth and arithmetic allow, the slower of the two,
    and what layers and links take on top."""

    tokens_per_second: Annotated[DecodeSpeed, doc("Of all requests together, at full context.")]
    tokens_per_second_per_request: Annotated[float, doc("Expected, of one request among them.")]
    basis: Annotated[
        Basis,
        doc(
            "calibrated: on published runs of similar engines; assumed: the same efficiency"
            " elsewhere."
        ),
    ]


class PrefillAnswer(Struct, kw_only=True):
    """How fast prompts are read: operations / (peak x efficiency), and what tensor parallelism
    exchanges."""

    prompt_tokens: Annotated[int, doc("Length of the prompt.")]
    seconds_to_first_token: Annotated[
        Seconds,
        doc("At the load, as in the answer of a fit: low alone, high all requests at once."),
    ]
    tokens_per_second: Annotated[DecodeSpeed, doc("With a steady queue of prompts.")]
    basis: Annotated[Basis, doc("As of decode.")]


class MeasuredOn(Struct, kw_only=True):
    """One published measurement of a format."""

    model: Annotated[str, doc("The model that was measured.")]
    measured: Annotated[str, doc("The benchmark, or the text of a perplexity.")]
    measure: Annotated[
        Literal["benchmarks", "perplexity"],
        doc("Whether benchmark scores or perplexities were compared."),
    ]
    recovered_percent: Annotated[float, doc("Percent of the unquantized model's quality.")]
    source: Annotated[str, doc("Where it was published.")]


class QualityAnswer(Struct, kw_only=True):
    """What a format was seen to keep of the quality of models as they are published [percent].

    Benchmarks: its score over the unquantized one. Perplexity: the unquantized one over its own.
    The two are not the same percent."""

    low: Annotated[float, doc("The least measured percentage.")]
    expected: Annotated[float, doc("Median over the measurements.")]
    high: Annotated[float, doc("The highest measured percentage.")]
    measurements: Annotated[
        int,
        doc("Number of measurements, listed by format. 0 for published weights, the reference."),
    ]


class Recommendation(Struct, kw_only=True):
    """One deployment that fits, and that no other beats in GPUs, memory, speed, bits and price
    at once."""

    gpu: Annotated[GpuAnswer, doc("The GPU and how many of it.")]
    engine: Annotated[str, doc("The serving engine.")]
    quantization: Annotated[
        str, doc("Format of the weights; `as published` where nothing is quantized.")
    ]
    weight_bits: Annotated[
        float, doc("Of most weights, without scales; not a measure of calibration quality.")
    ]
    verdict: Annotated[Verdict, doc("Whether it fits with the settings in `chosen`.")]
    fit_probability: Annotated[float, doc("Probability that it fits, 0 to 1.")]
    required_bytes: Annotated[Bytes, doc("Of the fullest GPU.")]
    budget_bytes: Annotated[int, doc("Memory the engine may use of one GPU.")]
    headroom_bytes: Annotated[int, doc("budget_bytes minus the required bytes, per GPU.")]
    total_usable_bytes: Annotated[int, doc("Usable memory of all its GPUs.")]
    decode: Annotated[
        DecodeAnswer | None,
        doc(
            "Null where no source states how fast the GPU reads and multiplies (one request on"
            " Apple's GPUs, and NVIDIA's from Ampere on, only reads), or the model does not"
            " generate."
        ),
    ]
    prefill: Annotated[PrefillAnswer | None, doc("Null if the GPU's peak arithmetic is unknown.")]
    cost: Annotated[CostAnswer | None, doc("Null where no price is known.")]
    watts: Annotated[int | None, doc("Thermal design power of its GPUs, without the host.")]
    quality: Annotated[
        QualityAnswer | None, doc("Null if no published measurement of the format is known.")
    ]
    kubernetes: Annotated[Kubernetes | None, doc("Null for what no device plugin offers.")]
    request: Annotated[Fields, doc("The request to POST /v1/fit for the full breakdown.")]
    chosen: ChosenSettings
    """Settings that differ from the engine's defaults."""
    launch: Annotated[Launch, doc("The command that starts it.")]
    purchase_usd: Annotated[
        int | None, doc("Approximate launch price of its GPUs; null if unknown.")
    ] = None
    roles: Annotated[
        list[Role], doc("What it is best at among the options; empty for the other items.")
    ] = []
    reason: Annotated[str | None, doc("The same in words; null likewise.")] = None


class TrainingRecommendation(Struct, kw_only=True):
    """The fewest of one GPU on which a training step fits, under the fastest layout that does."""

    gpu: Annotated[GpuAnswer, doc("The GPU and how many of it.")]
    framework: Annotated[str, doc("fsdp, deepspeed, megatron or transformers.")]
    method: Annotated[str, doc("lora, qlora or full.")]
    verdict: Annotated[Verdict, doc("Whether a training step fits.")]
    required_bytes: Annotated[Bytes, doc("Of the fullest GPU.")]
    usable_bytes: Annotated[int, doc("Usable memory of one GPU.")]
    headroom_bytes: Annotated[int, doc("Usable minus the least required bytes, per GPU.")]
    total_usable_bytes: Annotated[int, doc("Usable memory of all its GPUs.")]
    efficiency: Annotated[float, doc("Of one GPU: 1 without recomputation or idle time.")]
    tokens_per_second_at_peak: Annotated[
        float | None, doc("An upper bound: all its GPUs at their full dense peak.")
    ]
    cost: Annotated[CostAnswer | None, doc("Null where no price is known.")]
    watts: Annotated[
        int | None, doc("Thermal design power of its GPUs, without the host; null if unknown.")
    ]
    kubernetes: Annotated[Kubernetes | None, doc("Null for what no device plugin offers.")]
    request: Annotated[Fields, doc("The request to POST /v1/training-fit for the full breakdown.")]
    launch: Annotated[PlanLaunch, doc("The command that starts it, and its files.")]
    roles: Annotated[
        list[Role], doc("What it is best at among the options; empty for the other items.")
    ] = []
    reason: Annotated[str | None, doc("The same in words; null likewise.")] = None
