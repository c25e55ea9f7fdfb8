"""The contract of recommendations: what to serve a model on."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.performance.prefill import Seconds
from fitgauge.engine.quantity import Basis, Bytes
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
            description=(
                "Tokens one request may hold. Default 8192, or the model's maximum if smaller."
            ),
            examples=[32768],
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Requests of that length held at once. Default 1.", examples=[16]),
    ] = None
    engine: Annotated[
        Text | None,
        Meta(description="Serving engine. Default: vllm, mlx or llama.cpp, the first that runs."),
    ] = None
    quantization: Annotated[
        Text | None,
        Meta(
            description=(
                "Weights as if stored so, such as fp8 or awq. Default: as published, and the usual"
                " formats of the engine."
            )
        ),
    ] = None
    kv_cache_dtype: Annotated[
        Text | None, Meta(description="Number format of the KV cache: auto (default), fp8, bf16.")
    ] = None
    vendors: Annotated[
        Names | None,
        Meta(
            description="Only cards of these makers, with commas between them.",
            examples=["NVIDIA, AMD"],
        ),
    ] = None
    gpus: Annotated[
        Names | None,
        Meta(
            description="Only these GPUs, with commas between them; 2x L40S: at most two of them.",
            examples=["2x L40S, RTX 4090"],
        ),
    ] = None
    owned: Annotated[
        bool | None,
        Meta(
            description=(
                "True: the GPUs named in gpus are yours and cost nothing an hour. Default false:"
                " they are rented."
            )
        ),
    ] = None
    clouds: Annotated[
        Names | None,
        Meta(
            description=(
                "Only GPUs that these clouds rent out, at their prices. Default: any cloud."
            ),
            examples=["aws, gcp"],
        ),
    ] = None
    max_usd_per_hour: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(
            description=(
                "Budget: most US dollars an hour on demand; what has no known price is left out."
            ),
            examples=[10],
        ),
    ] = None
    max_gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(
            description=(
                "Most GPUs of one deployment, such as those of a node. Serving: up to 16, the"
                " default; training: default 64."
            )
        ),
    ] = None
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=72)] | None,
        Meta(description="GPUs in one of your nodes. Default: what is usual for the card, else 8."),
    ] = None
    max_nodes: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        Meta(description="Most nodes of one deployment; 1: within a node."),
    ] = None
    max_watts: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(
            description=(
                "Most power that all GPUs together are built to draw; what is unknown is left out."
            )
        ),
    ] = None
    no_quantization: Annotated[
        bool | None, Meta(description="True: only as published. Default false.")
    ] = None
    min_weight_bits: Annotated[
        Annotated[float, Meta(ge=1, le=64)] | None,
        Meta(
            description=(
                "Least bits of a weight, a coarse measure of quality: 16 for bf16, 8 for fp8, 4 for"
                " awq. Default: none."
            ),
            examples=[8],
        ),
    ] = None
    min_tokens_per_second: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        Meta(
            description=(
                "Least expected decoding speed of all requests together; what is unknown is left"
                " out."
            )
        ),
    ] = None
    min_quality: Annotated[
        Annotated[float, Meta(gt=0, le=100)] | None,
        Meta(
            description=(
                "Least percent of the published quality that every known measurement of a format"
                " recovered; what nobody measured is left out."
            ),
            examples=[98],
        ),
    ] = None
    prompt_tokens: Annotated[
        Tokens | None,
        Meta(
            description=(
                "Tokens of a prompt, for the time to its first token. Default: the context_length."
            ),
            examples=[2048],
        ),
    ] = None
    max_seconds_to_first_token: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(
            description=(
                "Most expected seconds to the first token of a prompt on an idle server; what is"
                " unknown is left out."
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
                "Order of the answers: fewest_cards (default), smallest (least memory in all),"
                " fastest, most_headroom, cheapest (an hour) or cheapest_per_token."
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
        DecodeSpeed, Meta(description="Of all requests together, every context full.")
    ]
    per_request: Annotated[float, Meta(description="Expected tokens a second of one request.")]
    basis: Annotated[
        Basis,
        Meta(
            description=(
                "calibrated: on published runs of engines like it; assumed: the same efficiency"
                " elsewhere."
            )
        ),
    ]


class PrefillAnswer(Struct, kw_only=True):
    """How fast prompts are read: operations / (peak x efficiency), and what tensor parallelism
    exchanges."""

    prompt_tokens: int
    seconds_to_first_token: Annotated[
        Seconds, Meta(description="Of one such prompt on an idle server; a queue is not in it.")
    ]
    tokens_per_second: Annotated[
        DecodeSpeed, Meta(description="Where there are always more prompts.")
    ]
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
                "How many: they stand beside the options, by format. 0 for the weights as they are"
                " published, the reference."
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
            description=(
                "Of most weights, without scales. Says nothing of how a format was calibrated."
            )
        ),
    ]
    verdict: Verdict
    fit_probability: float
    required_bytes: Annotated[Bytes, Meta(description="Of the fullest GPU.")]
    budget_bytes: Annotated[int, Meta(description="What the engine may use of one GPU.")]
    headroom_bytes: Annotated[int, Meta(description="budget_bytes less what is required, per GPU.")]
    total_usable_bytes: Annotated[int, Meta(description="Usable memory of all its GPUs.")]
    decode: Annotated[
        DecodeAnswer | None,
        Meta(description="Null where the bandwidth is unknown or the model generates nothing."),
    ]
    prefill: Annotated[
        PrefillAnswer | None,
        Meta(description="Null where nobody states how fast the card multiplies."),
    ]
    cost: Annotated[CostAnswer | None, Meta(description="Null where no price is known.")]
    watts: Annotated[
        int | None,
        Meta(
            description="What all its GPUs are built to draw; the machine around them is not in it."
        ),
    ]
    quality: Annotated[
        QualityAnswer | None,
        Meta(description="Null where no published measurement of the format is known here."),
    ]
    kubernetes: Annotated[
        Kubernetes | None, Meta(description="Null for what no device plugin offers.")
    ]
    request: Annotated[
        Fields, Meta(description="The question to send to POST /v1/fit for every byte of it.")
    ]
    launch: Launch
    checkpoint: Annotated[
        str | None,
        Meta(
            description=(
                "What to put in the place of the model in the command; null where the command"
                " quantizes by itself."
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
        float, Meta(description="Of one card: 1 where nothing is computed twice and none waits.")
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
        Meta(description="The question to send to POST /v1/training-fit for every byte of it."),
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
        Meta(description="What the quality of the formats shown was measured on."),
    ]
    warnings: list[str]
    understood_as: Annotated[Fields, Meta(description="The question with its defaults filled in.")]
    training: Annotated[
        list[TrainingRecommendation], Meta(description="Where task is training.")
    ] = []
