"""The contract of list_models_that_fit."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.pages import NextOffset, PageLimit, PageOffset
from fitgauge.services.common.schemas import (
    ChosenSettings,
    GpuAnswer,
    ListSettings,
    Names,
    Text,
    Tokens,
    Verdict,
)
from fitgauge.services.training_fit.shared_fields import Switch

ModelTask = Literal["generate", "encode", "encoder_decoder"]

Task = Literal["serving", "training", "generate", "encode", "encoder_decoder"]


ListOrder = Literal["most_capable", "largest"]


class ModelsForGpuRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of the well-known models run on this GPU? Only `gpu` is needed."""

    gpu: Annotated[
        Text, doc("Name or memory size: RTX 3090, 2x A100 80G, 24GB.", examples=["RTX 3090"])
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        doc("Number of GPUs. Default 1, or the count in gpu."),
    ] = None
    engine: Annotated[
        Text | None, doc("Default as in check_fit.", examples=[DEFAULT_ENGINES[0]])
    ] = None
    quantizations: Annotated[
        Names | None,
        doc(
            "Formats to try on 16-bit models, comma-separated. Default: the widest that fits of"
            " those people run there.",
            examples=["as published, awq"],
        ),
    ] = None
    context_length: Annotated[
        Tokens | None,
        doc(
            "Tokens per request; excludes models with a shorter maximum. Default 8192, or the"
            " model's maximum if less."
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Concurrent requests of that length. Default 1."),
    ] = None
    kv_cache_dtype: Annotated[Text | None, doc("auto (default), fp8 or bf16.")] = None
    task: Annotated[
        Task | None, doc("serving (default), training, or serving only models of one kind.")
    ] = None
    method: Annotated[
        Switch | None, doc("Training: lora, qlora or full. Default: the first that fits.")
    ] = None
    sequence_length: Annotated[Tokens | None, doc("Training. Default 2048.")] = None
    settings: ListSettings = None
    """auto or defaults: what a row may change to fit."""
    search: Annotated[
        Text | None,
        doc("Only models with these words in name, type or architecture.", examples=["qwen3"]),
    ] = None
    objective: Annotated[
        ListOrder | None, doc("What comes first: most_capable (default) or largest, by parameters.")
    ] = None
    limit: PageLimit = None
    """Items of a page."""
    offset: PageOffset = None
    """Items to skip."""


class FittingModel(Struct, kw_only=True):
    """One model in one format that fits or, marked by `verdict`, is tight with a probability of at
    least 0.5."""

    model: Annotated[str, doc("Hugging Face Hub ID.")]
    parameters: Annotated[int, doc("Number of parameters.")]
    task: Annotated[ModelTask, doc("What the model does.")]
    engine: Annotated[str | None, doc("Null for training.")]
    quantization: Annotated[str, doc("Format of the weights.")]
    method: Annotated[str | None, doc("Of training; null for serving.")] = None
    framework: Annotated[str | None, doc("Of training; null for serving.")] = None
    context_length: Annotated[int, doc("Tokens of a request; for training, of a sequence.")]
    verdict: Annotated[Verdict, doc("fits or tight.")]
    fit_probability: Annotated[float, doc("Probability that it fits, 0 to 1.")]
    required_bytes: Annotated[Bytes, doc("Of the fullest GPU.")]
    budget_bytes: Annotated[int, doc("Memory that may be used of one GPU.")]
    headroom_bytes: Annotated[int, doc("budget_bytes minus the required bytes, per GPU.")]
    chosen: ChosenSettings = {}
    """Settings that differ from the engine's defaults."""
    checkpoint: Annotated[
        str | None,
        doc(
            "What the engine loads, in <> where no checkpoint in the format is known; null for"
            " training."
        ),
    ] = None


class ModelsForGpuAnswer(Struct, kw_only=True):
    """A page of the bundled models that fit or are tight, the most capable first: by size and
    release, newer models counting as larger ones."""

    gpu: Annotated[GpuAnswer, doc("The GPU and how many of it.")]
    items: Annotated[list[FittingModel], doc("The rows of the page.")]
    total: Annotated[int, doc("Rows of all pages.")]
    summary: Annotated[str, doc("The first rows in one sentence.")]
    warnings: Annotated[list[Note], doc("What to know about the GPU.")]
    next_offset: NextOffset = None
    """The `offset` of the next page."""
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
