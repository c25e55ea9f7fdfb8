"""The contract of recommendations: what to serve a model on."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from fitgauge.engine.note import Note
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.engine_names import choice
from fitgauge.services.common.pages import NextOffset, PageLimit, PageOffset
from fitgauge.services.common.schemas import ListSettings, ModelAnswer, Names, Text, Tokens
from fitgauge.services.recommend.option_schemas import (
    Fields,
    MeasuredOn,
    Recommendation,
    TrainingRecommendation,
)
from fitgauge.services.training_fit.shared_fields import Switch

Objective = Literal[
    "fewest_cards", "smallest", "fastest", "most_headroom", "cheapest", "cheapest_per_token"
]


class RecommendRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What should this model be served or trained on? Only `model` is needed; the rest is the
    workload, constraints and the order."""

    model: Annotated[
        Text,
        doc(
            "Hugging Face Hub ID, a well-known name, or a size such as 7b.",
            examples=["meta-llama/Llama-3.3-70B-Instruct"],
        ),
    ]
    task: Annotated[
        Literal["serving", "training"] | None,
        doc("serving (default) or training; each has fields of its own."),
    ] = None
    context_length: Annotated[
        Tokens | None,
        doc(
            "Tokens per request. Default 8192, or the model's maximum if smaller.", examples=[32768]
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Concurrent requests of that length. Default 1.", examples=[16]),
    ] = None
    engine: Annotated[
        Text | None,
        doc(f"Serving engine. Default: {choice(DEFAULT_ENGINES)}, the first that runs."),
    ] = None
    quantization: Annotated[
        Text | None,
        doc(
            "Weights as if quantized, such as fp8 or awq. Default: as published, and the"
            " engine's usual formats."
        ),
    ] = None
    kv_cache_dtype: Annotated[
        Text | None, doc("Number format of the KV cache: auto (default), fp8, bf16.")
    ] = None
    language_model_only: Annotated[
        bool | None,
        doc(
            "true: a model that also reads images or sound is served for text alone, by engines"
            " that leave its encoders out. Default false."
        ),
    ] = None
    vendors: Annotated[
        Names | None, doc("Only GPUs of these vendors, comma-separated.", examples=["NVIDIA, AMD"])
    ] = None
    kinds: Annotated[
        Names | None,
        doc(
            "Only GPUs of these kinds, comma-separated: consumer, workstation, server, laptop; a"
            " generation such as Blackwell, a series such as RTX 50.",
            examples=["consumer"],
        ),
    ] = None
    gpus: Annotated[
        Names | None,
        doc(
            "Only these GPUs, comma-separated; 2x L40S: at most two.",
            examples=["2x L40S, RTX 4090"],
        ),
    ] = None
    include: Annotated[
        Names | None,
        doc(
            "GPUs besides those sold: laptop, integrated, slice, modified, announced, retired, all."
        ),
    ] = None
    owned: Annotated[
        bool | None,
        doc("true: the GPUs in gpus are owned and cost nothing per hour. Default false: rented."),
    ] = None
    clouds: Annotated[
        Names | None,
        doc(
            "Only GPUs these clouds offer, at their prices. Default: any cloud.",
            examples=["aws, gcp"],
        ),
    ] = None
    max_usd_per_hour: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        doc("Maximum US dollars per hour on demand; excludes unknown prices.", examples=[10]),
    ] = None
    max_gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        doc(
            "Maximum GPUs of one deployment. Serving: up to 16, the default; training: default 64,"
            " and more where no fewer hold it."
        ),
    ] = None
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=72)] | None,
        doc("GPUs per node. Default: the usual number for the GPU, else 8."),
    ] = None
    max_nodes: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None, doc("Maximum nodes of one deployment.")
    ] = None
    max_watts: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Maximum thermal design power of all GPUs together; excludes unknown ones."),
    ] = None
    no_quantization: Annotated[
        bool | None, doc("true: weights as published only. Default false.")
    ] = None
    min_weight_bits: Annotated[
        Annotated[float, Meta(ge=1, le=64)] | None,
        doc(
            "Minimum bits per weight, a coarse measure of quality: 16 for bf16, 8 for fp8, 4"
            " for awq.",
            examples=[8],
        ),
    ] = None
    min_tokens_per_second: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        doc("Minimum expected decoding speed of all requests together; excludes unknown speeds."),
    ] = None
    min_tokens_per_second_per_request: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        doc("Minimum expected speed of one answer at the load, as in the answer of a fit."),
    ] = None
    min_quality: Annotated[
        Annotated[float, Meta(gt=0, le=100)] | None,
        doc(
            "Minimum percent of the published quality in every known measurement of the"
            " format; excludes unmeasured formats.",
            examples=[98],
        ),
    ] = None
    prompt_tokens: Annotated[
        Tokens | None,
        doc(
            "Prompt length for the time to first token. Default: the context_length.",
            examples=[2048],
        ),
    ] = None
    max_seconds_to_first_token: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        doc("Maximum expected time to first token at the load; excludes unknown times."),
    ] = None
    settings: ListSettings = None
    """auto or defaults: what an option may change to fit."""
    method: Annotated[
        Switch | None, doc("Training: lora, qlora or full. Default: each of the three.")
    ] = None
    framework: Annotated[
        Switch | None,
        doc(
            "Training: fsdp, deepspeed, megatron or a tool over one of them. Default: all three;"
            " adapters all but megatron."
        ),
    ] = None
    sequence_length: Annotated[
        Tokens | None, doc("Training: tokens of one sequence. Default 2048.", examples=[4096])
    ] = None
    global_batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Training: sequences of one optimizer step. Default 128."),
    ] = None
    precision: Annotated[
        Switch | None,
        doc("Training: mixed_bf16 (default; bf16 for lora), mixed_fp16, bf16, fp32 or fp8."),
    ] = None
    optimizer: Annotated[
        Switch | None,
        doc("Training: adamw (default), adamw_8bit, adafactor, lion, muon and others."),
    ] = None
    lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=8192)] | None, doc("Training: rank of adapters. Default 16.")
    ] = None
    objective: Annotated[
        Text | None,
        doc(
            "Order of the options: fewest_cards (default), smallest (least total memory),"
            " fastest, most_headroom, cheapest (per hour) or cheapest_per_token."
        ),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        doc("full: also a page of all that nothing beats. Default summary."),
    ] = None
    limit: PageLimit = None
    """Items of a page; a page ends earlier where it would be too long."""
    offset: PageOffset = None
    """Items to skip."""


class RecommendAnswer(Struct, kw_only=True):
    """The few options that stand out, and on request the Pareto set: nothing that fits beats one
    of these in GPUs, memory, speed, bits and price at once."""

    summary: Annotated[str, doc("The options in a sentence each.")]
    model: Annotated[ModelAnswer, doc("The model as it was read.")]
    objective: Annotated[Objective, doc("The order of the options.")]
    options: Annotated[
        list[Recommendation],
        doc(
            "Three to five deployments to choose from, where there are so many: the fewest"
            " GPUs, the cheapest, the fastest, one with headroom. Empty where task is training."
        ),
    ]
    items: Annotated[
        list[Recommendation],
        doc("A page of the Pareto set, with `detail` full, `limit` or `offset`; else empty."),
    ]
    total: Annotated[int, doc("Size of the Pareto set.")]
    next_offset: NextOffset
    """Where the next page begins."""
    measurements: Annotated[
        dict[str, list[MeasuredOn]], doc("Measurements behind the quality of the formats shown.")
    ]
    warnings: Annotated[list[Note], doc("What to know about the search and its figures.")]
    understood_as: Annotated[Fields, doc("The request with every default filled in.")]
    training_options: Annotated[
        list[TrainingRecommendation], doc("As options, where task is training.")
    ] = []
    training: Annotated[list[TrainingRecommendation], doc("As items, where task is training.")] = []
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
