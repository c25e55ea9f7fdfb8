"""The contract of compare_fit: a table of models, GPUs and settings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fitgauge.engine.note import NoteCode
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.errors import ErrorCode
from fitgauge.services.common.schemas import (
    ChosenSettings,
    ListSettings,
    Names,
    Text,
    Tokens,
    Verdict,
)

MOST_CELLS = 10_000
MOST_AT_ONCE = 1_000
"""Cells of one JSON answer; what is larger comes as NDJSON, row by row."""

Requests = Annotated[int, Meta(ge=1, le=1_000_000)]


class CompareRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of these models fit on which of these GPUs? Every model with every GPU and every
    setting is one cell, up to 10,000."""

    models: Annotated[
        Names,
        Meta(
            description=(
                "Hugging Face IDs, well-known names or sizes: a list, or comma-separated text."
            ),
            examples=["Qwen/Qwen3-32B, 7b"],
        ),
    ]
    gpus: Annotated[
        Names,
        Meta(
            description="GPUs with counts: a list, or comma-separated text.",
            examples=["2x L40S, RTX 4090, 80GB"],
        ),
    ]
    engines: Annotated[
        Names | None,
        Meta(description="Default as in check_fit.", examples=[", ".join(DEFAULT_ENGINES)]),
    ] = None
    quantizations: Annotated[
        Names | None,
        Meta(
            description="Formats of the weights. Default: as published.",
            examples=["as published, fp8, awq"],
        ),
    ] = None
    context_lengths: Annotated[
        Tokens | Annotated[list[Tokens], Meta(min_length=1, max_length=50)] | None,
        Meta(
            description=(
                "Tokens per request, one or several values. Default 8192, or the model's maximum"
                " if less."
            ),
            examples=[65536],
        ),
    ] = None
    concurrencies: Annotated[
        Requests | Annotated[list[Requests], Meta(min_length=1, max_length=50)] | None,
        Meta(
            description=("Concurrent requests of that length, one or several values. Default 1."),
            examples=[8],
        ),
    ] = None
    kv_cache_dtype: Annotated[Text | None, Meta(description="auto (default), fp8 or bf16.")] = None
    settings: ListSettings = None


class CellNote(Struct, frozen=True):
    """Why a cell is empty, or what to know of it: a code of a warning or of an error."""

    code: Literal[NoteCode, ErrorCode]
    field: Annotated[str | None, Meta(description="The request field concerned; null for none.")]
    message: str


class CompareRow(Struct, kw_only=True):
    """One cell. The sizes are null where the question is impossible; `note` says why, or what
    else must be known."""

    number: Annotated[int, Meta(description="Progress, from 1 to `of`.")]
    of: int
    model: str
    gpu: str
    gpu_count: int
    engine: str
    quantization: str
    context_length: int
    concurrency: int
    verdict: Verdict
    fit_probability: float | None = None
    required_bytes: Annotated[Bytes | None, Meta(description="Of the fullest GPU.")] = None
    budget_bytes: int | None = None
    headroom_bytes: int | None = None
    chosen: ChosenSettings = {}
    note: CellNote | None = None


class CompareAnswer(Struct, kw_only=True):
    """The whole table, up to 1,000 cells, in the order of models, gpus, engines, quantizations,
    context lengths, concurrencies."""

    items: list[CompareRow]
    total: int
