"""The contract of compare_fit: a table of models, GPUs and settings."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from fitgauge.engine.note import NoteCode
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.errors import ErrorCode
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf, AnswerId
from fitgauge.services.common.pages import NextOffset, PageLimit, PageOffset
from fitgauge.services.common.schemas import (
    ChosenSettings,
    ListSettings,
    Names,
    Text,
    Tokens,
    Verdict,
)

MOST_CELLS = 10_000

Requests = Annotated[int, Meta(ge=1, le=1_000_000)]


class CompareRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of these models fit on which of these GPUs? Every model with every GPU and every
    setting is one row, up to 10,000; a page of them is answered."""

    models: Annotated[
        Names,
        doc(
            "Hugging Face IDs, names or sizes: a list, or comma-separated text.",
            examples=["Qwen/Qwen3-32B, 7b"],
        ),
    ]
    gpus: Annotated[
        Names,
        doc(
            "GPUs with counts: a list, or comma-separated text.",
            examples=["2x L40S, RTX 4090, 80GB"],
        ),
    ]
    engines: Annotated[
        Names | None, doc("Default as in check_fit.", examples=[", ".join(DEFAULT_ENGINES)])
    ] = None
    quantizations: Annotated[
        Names | None,
        doc("Formats of the weights. Default: as published.", examples=["as published, fp8, awq"]),
    ] = None
    context_lengths: Annotated[
        Tokens | Annotated[list[Tokens], Meta(min_length=1, max_length=50)] | None,
        doc(
            "Tokens per request, one or several values. Default 8192, or the model's maximum"
            " if less.",
            examples=[65536],
        ),
    ] = None
    concurrencies: Annotated[
        Requests | Annotated[list[Requests], Meta(min_length=1, max_length=50)] | None,
        doc("Concurrent requests, one or several values. Default 1.", examples=[8]),
    ] = None
    kv_cache_dtype: Annotated[Text | None, doc("auto (default), fp8 or bf16.")] = None
    settings: ListSettings = None
    """auto or defaults: what a cell may change to fit."""
    limit: PageLimit = None
    """Items of a page."""
    offset: PageOffset = None
    """Items to skip."""


class CellNote(Struct, frozen=True):
    """Why a cell is empty, or what to know of it: a code of a warning or of an error."""

    code: Annotated[Literal[NoteCode, ErrorCode], doc("The code of the warning or of the error.")]
    field: Annotated[str | None, doc("The request field concerned; null for none.")]
    message: Annotated[str, doc("The same in words.")]


class RowError(Struct, frozen=True):
    """Why a row has no answer: its model or its GPU is unknown, or only the Hub knows the model
    and is away."""

    code: Annotated[ErrorCode, doc("The code of the error.")]
    detail: Annotated[str, doc("What is wrong.")]
    hint: Annotated[str, doc("What to send instead.")]
    field: Annotated[Literal["models", "gpus"], doc("Where the name at fault stands.")]
    matches: Annotated[list[str], doc("Up to five close matches.")] = []
    send: Annotated[
        dict[str, str] | None,
        doc("Fields to ask about this row again, where some are known to work."),
    ] = None


class CompareRow(Struct, kw_only=True):
    """One cell. The sizes are null where the question is impossible; `note` says why, or what
    else must be known. Under `error` the names are as they were sent, and what follows from them
    is null."""

    number: Annotated[int, doc("Progress, from 1 to `of`.")]
    of: Annotated[int, doc("Cells of the table.")]
    model: Annotated[str, doc("The model as it was read.")]
    gpu: Annotated[str, doc("Name of the GPU.")]
    gpu_count: Annotated[int | None, doc("Number of GPUs.")]
    engine: Annotated[str | None, doc("Serving engine.")]
    quantization: Annotated[str | None, doc("Format of the weights.")]
    context_length: Annotated[int | None, doc("Tokens of a request.")]
    concurrency: Annotated[int, doc("Requests at once.")]
    verdict: Annotated[Verdict | None, doc("Whether it fits; null under `error`.")]
    fit_probability: Annotated[
        float | None, doc("Probability that it fits, 0 to 1; null without an estimate.")
    ] = None
    required_bytes: Annotated[Bytes | None, doc("Of the fullest GPU.")] = None
    budget_bytes: Annotated[
        int | None, doc("Memory the engine may use of one GPU; null without an estimate.")
    ] = None
    headroom_bytes: Annotated[
        int | None, doc("budget_bytes minus the required bytes, per GPU; null likewise.")
    ] = None
    chosen: ChosenSettings = {}
    """Settings that differ from the engine's defaults."""
    note: Annotated[
        CellNote | None, doc("Why there is no estimate, or what to know of it; null for neither.")
    ] = None
    error: Annotated[RowError | None, doc("Why this row alone is not answered; else null.")] = None


class CompareAnswer(Struct, kw_only=True):
    """A page of the table, in the order of models, gpus, engines, quantizations, context lengths,
    concurrencies."""

    items: Annotated[list[CompareRow], doc("The rows of the page.")]
    total: Annotated[int, doc("Rows of the whole table.")]
    summary: Annotated[str, doc("Which rows of the page fit, or which comes nearest.")]
    next_offset: NextOffset = None
    """The `offset` of the next page."""
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
    answer_id: AnswerId = UNSET
    """The permalink of the answer."""
