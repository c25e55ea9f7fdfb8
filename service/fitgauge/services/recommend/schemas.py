"""The contract of recommendations: what to serve a model on."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fitgauge.engine.note import Note
from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.performance.prefill import Seconds
from fitgauge.engine.quantity import Basis, Bytes
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.services.common.engine_names import choice
from fitgauge.services.common.schemas import (
    GpuAnswer,
    Launch,
    ModelAnswer,
    Names,
    Text,
    Tokens,
    Verdict,
)
from fitgauge.services.recommend.costs import CostAnswer
from fitgauge.services.recommend.kubernetes import Kubernetes
from fitgauge.services.training_fit.shared_fields import Switch
from fitgauge.services.training_plan.schemas import PlanLaunch

"""Several names: a list, or one text with commas between them."""

Fields = dict[str, str | int | float | bool]

Objective = Literal[
    "fewest_cards", "smallest", "fastest", "most_headroom", "cheapest", "cheapest_per_token"
]


class RecommendRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What should this model be served or trained on? Only `model` is needed; the rest is the
    workload, constraints and the order."""

    model: Annotated[
        Text,
        Meta(
            description="Hugging Face Hub ID, a well-known name, or a size such as 7b.",
            examples=["meta-llama/Llama-3.3-70B-Instruct"],
        ),
    ]
    task: Annotated[
        Literal["serving", "training"] | None,
        Meta(description="serving (default) or training; each has fields of its own."),
    ] = None
    context_length: Annotated[
        Tokens | None,
        Meta(
            description=("Tokens per request. Default 8192, or the model's maximum if smaller."),
            examples=[32768],
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Concurrent requests of that length. Default 1.", examples=[16]),
    ] = None
    engine: Annotated[
        Text | None,
        Meta(
            description=f"Serving engine. Default: {choice(DEFAULT_ENGINES)}, the first that runs."
        ),
    ] = None
    quantization: Annotated[
        Text | None,
        Meta(
            description=(
                "Weights as if quantized, such as fp8 or awq. Default: as published, and the"
                " engine's usual formats."
            )
        ),
    ] = None
    kv_cache_dtype: Annotated[
        Text | None, Meta(description="Number format of the KV cache: auto (default), fp8, bf16.")
    ] = None
    vendors: Annotated[
        Names | None,
        Meta(
            description="Only GPUs of these vendors, comma-separated.",
            examples=["NVIDIA, AMD"],
        ),
    ] = None
    gpus: Annotated[
        Names | None,
        Meta(
            description="Only these GPUs, comma-separated; 2x L40S: at most two.",
            examples=["2x L40S, RTX 4090"],
        ),
    ] = None
    owned: Annotated[
        bool | None,
        Meta(
            description=(
                "true: the GPUs in gpus are owned and cost nothing per hour. Default false: rented."
            )
        ),
    ] = None
    clouds: Annotated[
        Names | None,
        Meta(
            description=("Only GPUs these clouds offer, at their prices. Default: any cloud."),
            examples=["aws, gcp"],
        ),
    ] = None
    max_usd_per_hour: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(
            description=("Maximum US dollars per hour on demand; excludes unknown prices."),
            examples=[10],
        ),
    ] = None
    max_gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(
            description=(
                "Maximum GPUs of one deployment. Serving: up to 16, the default; training:"
                " default 64."
            )
        ),
    ] = None
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=72)] | None,
        Meta(description="GPUs per node. Default: the usual number for the GPU, else 8."),
    ] = None
    max_nodes: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(description="Maximum nodes of one deployment."),
    ] = None
    max_watts: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description=(
                "Maximum thermal design power of all GPUs together; excludes unknown ones."
            )
        ),
    ] = None
    no_quantization: Annotated[
        bool | None, Meta(description="true: weights as published only. Default false.")
    ] = None
    min_weight_bits: Annotated[
        Annotated[float, Meta(ge=1, le=64)] | None,
        Meta(
            description=(
                "Minimum bits per weight, a coarse measure of quality: 16 for bf16, 8 for fp8, 4"
                " for awq."
            ),
            examples=[8],
        ),
    ] = None
    min_tokens_per_second: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        Meta(
            description=(
                "Minimum expected decoding speed of all requests together; excludes unknown speeds."
            )
        ),
    ] = None
    min_quality: Annotated[
        Annotated[float, Meta(gt=0, le=100)] | None,
        Meta(
            description=(
                "Minimum percent of the published quality in every known measurement of the"
                " format; excludes unmeasured formats."
            ),
            examples=[98],
        ),
    ] = None
    prompt_tokens: Annotated[
        Tokens | None,
        Meta(
            description=("Prompt length for the time to first token. Default: the context_length."),
            examples=[2048],
        ),
    ] = None
    max_seconds_to_first_token: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(
            description=(
                "Maximum expected time to first token on an idle server; excludes unknown times."
            )
        ),
    ] = None
    method: Annotated[
        Switch | None, Meta(description="Training: full (default), lora or qlora.")
    ] = None
    framework: Annotated[
        Switch | None,
        Meta(
            description=(
                "Training: fsdp, deepspeed or megatron. Default: all three; adapters all but"
                " megatron."
            )
        ),
    ] = None
    sequence_length: Annotated[
        Tokens | None,
        Meta(description="Training: tokens of one sequence. Default 2048.", examples=[4096]),
    ] = None
    global_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Training: sequences of one optimizer step. Default 128."),
    ] = None
    precision: Annotated[
        Switch | None,
        Meta(
            description=(
                "Training: mixed_bf16 (default; bf16 for lora), mixed_fp16, bf16, fp32 or fp8."
            )
        ),
    ] = None
    optimizer: Annotated[
        Switch | None,
        Meta(
            description="Training: adamw (default), adamw_8bit, adafactor, lion, muon and others."
        ),
    ] = None
    lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=8192)] | None,
        Meta(description="Training: rank of adapters. Default 16."),
    ] = None
    objective: Annotated[
        Text | None,
        Meta(
            description=(
                "Order of the options: fewest_cards (default), smallest (least total memory),"
                " fastest, most_headroom, cheapest (per hour) or cheapest_per_token."
            )
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Options of a page. Default 20."),
    ] = None
    offset: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="Options to skip. Default 0."),
    ] = None


class DecodeAnswer(Struct, kw_only=True):
    """How fast it generates: what memory bandwidth and arithmetic allow, the slower of the two,
    and what layers and links take on top."""

    tokens_per_second: Annotated[
        DecodeSpeed, Meta(description="Of all requests together, at full context.")
    ]
    per_request: Annotated[float, Meta(description="Expected tokens per second of one request.")]
    basis: Annotated[
        Basis,
        Meta(
            description=(
                "calibrated: on published runs of similar engines; assumed: the same efficiency"
                " elsewhere."
            )
        ),
    ]


class PrefillAnswer(Struct, kw_only=True):
    """How fast prompts are read: operations / (peak x efficiency), and what tensor parallelism
    exchanges."""

    prompt_tokens: int
    seconds_to_first_token: Annotated[
        Seconds, Meta(description="Of one such prompt on an idle server, without queueing.")
    ]
    tokens_per_second: Annotated[DecodeSpeed, Meta(description="With a steady queue of prompts.")]
    basis: Annotated[Basis, Meta(description="As of decode.")]


class MeasuredOn(Struct, kw_only=True):
    """One published measurement of a format."""

    model: str
    measured: str
    measure: Literal["benchmarks", "perplexity"]
    recovered_percent: float
    source: str


class QualityAnswer(Struct, kw_only=True):
    """What a format was seen to keep of the quality of models as they are published [percent].

    Benchmarks: its score over the unquantized one. Perplexity: the unquantized one over its own.
    The two are not the same percent."""

    low: float
    expected: Annotated[float, Meta(description="Median over the measurements.")]
    high: float
    measurements: Annotated[
        int,
        Meta(
            description=(
                "Number of measurements, listed by format. 0 for published weights, the reference."
            )
        ),
    ]


class Recommendation(Struct, kw_only=True):
    """One deployment that fits, and that no other beats in cards, memory, speed, bits and price
    at once."""

    gpu: GpuAnswer
    engine: str
    quantization: str
    weight_bits: Annotated[
        float,
        Meta(
            description=("Of most weights, without scales; not a measure of calibration quality.")
        ),
    ]
    verdict: Verdict
    fit_probability: float
    required_bytes: Annotated[Bytes, Meta(description="Of the fullest GPU.")]
    budget_bytes: Annotated[int, Meta(description="Memory the engine may use of one GPU.")]
    headroom_bytes: Annotated[
        int, Meta(description=("budget_bytes minus the required bytes, per GPU."))
    ]
    total_usable_bytes: Annotated[int, Meta(description="Usable memory of all its GPUs.")]
    decode: Annotated[
        DecodeAnswer | None,
        Meta(description="Null if the bandwidth is unknown or the model does not generate."),
    ]
    prefill: Annotated[
        PrefillAnswer | None,
        Meta(description="Null if the GPU's peak arithmetic is unknown."),
    ]
    cost: Annotated[CostAnswer | None, Meta(description="Null where no price is known.")]
    watts: Annotated[
        int | None,
        Meta(description="Thermal design power of its GPUs, without the host."),
    ]
    quality: Annotated[
        QualityAnswer | None,
        Meta(description="Null if no published measurement of the format is known."),
    ]
    kubernetes: Annotated[
        Kubernetes | None, Meta(description="Null for what no device plugin offers.")
    ]
    request: Annotated[
        Fields, Meta(description="The request to POST /v1/fit for the full breakdown.")
    ]
    launch: Launch
    checkpoint: Annotated[
        str | None,
        Meta(
            description=(
                "Replacement for the model in the command; null if the command quantizes while"
                " loading."
            )
        ),
    ]


class TrainingRecommendation(Struct, kw_only=True):
    """The fewest of one card on which a training step fits, under the fastest layout that does."""

    gpu: GpuAnswer
    framework: str
    method: str
    verdict: Verdict
    required_bytes: Annotated[Bytes, Meta(description="Of the fullest GPU.")]
    usable_bytes: int
    headroom_bytes: int
    total_usable_bytes: Annotated[int, Meta(description="Usable memory of all its GPUs.")]
    efficiency: Annotated[
        float, Meta(description="Of one GPU: 1 without recomputation or idle time.")
    ]
    tokens_per_second_at_peak: Annotated[
        float | None, Meta(description="An upper bound: all its GPUs at their full dense peak.")
    ]
    cost: Annotated[CostAnswer | None, Meta(description="Null where no price is known.")]
    watts: int | None
    kubernetes: Annotated[
        Kubernetes | None, Meta(description="Null for what no device plugin offers.")
    ]
    request: Annotated[
        Fields,
        Meta(description="The request to POST /v1/training-fit for the full breakdown."),
    ]
    launch: PlanLaunch


class RecommendAnswer(Struct, kw_only=True):
    """The Pareto set of what fits: nothing that fits beats one of these in cards, memory, speed,
    bits and price at once."""

    summary: str
    model: ModelAnswer
    objective: Objective
    items: Annotated[
        list[Recommendation],
        Meta(description="Deployments that serve; empty where task is training."),
    ]
    total: int
    measurements: Annotated[
        dict[str, list[MeasuredOn]],
        Meta(description="Measurements behind the quality of the formats shown."),
    ]
    warnings: list[Note]
    understood_as: Annotated[Fields, Meta(description="The request with every default filled in.")]
    training: Annotated[
        list[TrainingRecommendation], Meta(description="Where task is training.")
    ] = []
