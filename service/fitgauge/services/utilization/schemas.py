"""The contract of explain_utilization: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from fitgauge.engine.note import Note
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.schemas import Degree, GpuAnswer, ModelAnswer, Text, Tokens

Rate = Annotated[float, Meta(ge=1e-6, le=1e12)]
Share = Annotated[float, Meta(ge=1e-6, le=1)]
TokenBudget = Annotated[float, Meta(ge=1, le=1e18)]


class UtilizationRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """How much of its GPUs does a training run use? `gpu` and either `achieved_tflops` or a
    throughput are needed."""

    gpu: Annotated[Text, doc("Name: A100 80GB, 8xH100.", examples=["A100 80GB"])]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("GPUs of the whole run. Default 1, or the count in gpu.", examples=[4]),
    ] = None
    precision: Annotated[
        Text | None,
        doc("Arithmetic: bf16 (default), fp16, tf32, fp8, fp4 or int8.", examples=["bf16"]),
    ] = None
    achieved_tflops: Annotated[Rate | None, doc("Measured TFLOPS of one GPU.", examples=[100])] = (
        None
    )
    model: Annotated[
        Text | None,
        doc(
            "Hugging Face ID, well-known name or size; turns tokens into operations.",
            examples=["meta-llama/Llama-3.1-8B"],
        ),
    ] = None
    tokens_per_second: Annotated[
        Rate | None, doc("Of the whole run, all GPUs together.", examples=[6144])
    ] = None
    samples_per_second: Annotated[
        Rate | None, doc("Alternatively, in sequences of sequence_length tokens.", examples=[3])
    ] = None
    published_tokens_per_second: Annotated[
        Rate | None, doc("Published throughput of one GPU, to compare with.", examples=[3300])
    ] = None
    sequence_length: Annotated[
        Tokens | None, doc("Tokens of a sequence. Default 2048.", examples=[2048])
    ] = None
    method: Annotated[
        Literal["full", "lora", "dora", "qlora"] | None,
        doc("full (default); lora and qlora compute no gradients of the base."),
    ] = None
    activation_checkpointing: Annotated[
        Literal["none", "selective", "full"] | None, doc("Recomputation, for HFU. Default none.")
    ] = None
    peak_tflops: Annotated[
        Rate | None, doc("Dense peak of one GPU, instead of the catalog's.", examples=[312])
    ] = None
    mfu: Annotated[
        Share | None, doc("Assumed MFU for token_budget: usually 0.3 to 0.5.", examples=[0.4])
    ] = None
    token_budget: Annotated[
        TokenBudget | None,
        doc("Training tokens: adds the time, and with a price the cost.", examples=[1e12]),
    ] = None
    price_per_gpu_hour: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | None,
        doc("Price of one GPU per hour, in any currency.", examples=[2.5]),
    ] = None
    zero_stage: Annotated[
        Annotated[int, Meta(ge=0, le=3)] | None,
        doc("Over all GPUs: adds communication. FSDP is 3."),
    ] = None
    micro_batch_size: Annotated[
        Degree | None, doc("Sequences of one GPU's micro-batch, for zero_stage. Default 1.")
    ] = None
    interconnect_gbps: Annotated[
        Rate | None,
        doc("GB/s between GPUs, one direction, instead of the catalog's.", examples=[32]),
    ] = None


class FlopsAnswer(Struct, kw_only=True):
    """Floating-point operations of one training token."""

    model_flops_per_token: Annotated[float, doc("Of the model alone, as MFU counts.")]
    hardware_flops_per_token: Annotated[float, doc("With recomputation, as HFU counts.")]
    multiplied_parameters: Annotated[int, doc("Active parameters per token.")]
    formula: Annotated[str, doc("How the model's operations add up.")]
    source: Annotated[str, doc("Where the formula comes from.")]


class BudgetAnswer(Struct, kw_only=True):
    """Time and cost of a token budget."""

    tokens: Annotated[float, doc("The token budget.")]
    seconds: Annotated[float, doc("Time on all GPUs together.")]
    gpu_hours: Annotated[float, doc("GPUs times hours.")]
    cost: Annotated[float | None, doc("gpu_hours x price_per_gpu_hour; null without a price.")]


class CommunicationAnswer(Struct, kw_only=True):
    """ZeRO communication of one micro-batch, compared with its computation."""

    bytes_per_gpu: Annotated[int, doc("What one GPU sends for a micro-batch.")]
    communication_seconds: Annotated[float, doc("At the link's full speed.")]
    compute_seconds: Annotated[float, doc("At the GPU's full speed.")]
    ratio: Annotated[
        float, doc("Communication time / computation time; above 1 the link is the bottleneck.")
    ]
    formula: Annotated[str, doc("How the bytes add up.")]
    source: Annotated[str, doc("Where the formula comes from.")]


class CollectiveAnswer(Struct, kw_only=True):
    """Time of one kind of kernel or collective, all GPUs together."""

    name: Annotated[str, doc("The kernel or collective.")]
    seconds: Annotated[float, doc("Its time.")]


class TraceAnswer(Struct, kw_only=True):
    """What an uploaded profiler trace says. Shares are of the time from the first kernel to the
    last."""

    gpus: Annotated[int, doc("GPUs with kernels in the trace.")]
    kernels: Annotated[int, doc("Kernels and copies read.")]
    seconds: Annotated[float, doc("From the first kernel to the last, of one GPU.")]
    tensor_core_share: Annotated[
        float, doc("Kernels on tensor cores, of the time of all kernels, 0 to 1.")
    ]
    communication_share: Annotated[float, doc("A collective runs, 0 to 1.")]
    exposed_communication_share: Annotated[
        float, doc("Share of time in collectives alone, 0 to 1.")
    ]
    idle_share: Annotated[float, doc("Nothing runs, 0 to 1.")]
    collectives: Annotated[list[CollectiveAnswer], doc("Time by kind of collective.")]
    longest_kernels: Annotated[list[CollectiveAnswer], doc("The kernels that take the most time.")]


class UtilizationAnswer(Struct, kw_only=True):
    """The shares, what they were made of, and what to change."""

    summary: Annotated[str, doc("Summary in one or two sentences.")]
    gpu: Annotated[GpuAnswer | None, doc("null if the trace names no known GPU.")]
    model: Annotated[ModelAnswer | None, doc("The model as it was read; null without one.")]
    precision: Annotated[str | None, doc("null for a trace.")]
    peak_tflops: Annotated[float | None, doc("Dense, of one GPU; null if unknown and not needed.")]
    achieved_tflops: Annotated[float | None, doc("Of one GPU, model operations alone.")]
    mfu: Annotated[float | None, doc("Model FLOPs utilization, 0 to 1.")]
    hfu: Annotated[float | None, doc("Hardware FLOPs utilization, 0 to 1: recomputation counts.")]
    tokens_per_second_per_gpu: Annotated[
        float | None, doc("Measured throughput of one GPU; null without one.")
    ]
    fraction_of_published: Annotated[
        float | None, doc("Throughput / published throughput, both of one GPU.")
    ]
    flops: Annotated[FlopsAnswer | None, doc("Operations of a token; null without a model.")]
    budget: Annotated[BudgetAnswer | None, doc("Time and cost of `token_budget`; null without it.")]
    communication: Annotated[
        CommunicationAnswer | None, doc("What ZeRO moves; null without `zero_stage`.")
    ]
    trace: Annotated[TraceAnswer | None, doc("Of an uploaded trace; else null.")]
    advice: Annotated[list[str], doc("Changes to try, most likely first.")]
    warnings: Annotated[list[Note], doc("What to know about the figures.")]
    understood_as: Annotated[
        dict[str, str | int | float | bool], doc("The request with every default filled in.")
    ]
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
