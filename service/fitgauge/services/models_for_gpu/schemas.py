"""The contract of list_models_that_fit."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fitgauge.engine.note import Note
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.registry import DEFAULT_ENGINES
from fitgauge.services.common.schemas import GpuAnswer, Names, Text, Tokens, Verdict

Task = Literal["generate", "encode", "encoder_decoder"]


class ModelsForGpuRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of the well-known models run on this card? Only `gpu` is needed."""

    gpu: Annotated[
        Text,
        Meta(
            description=("Name or memory size: RTX 3090, 2x A100 80G, 24GB."), examples=["RTX 3090"]
        ),
    ]
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        Meta(description="Number of GPUs. Default 1, or the count in gpu."),
    ] = None
    engine: Annotated[
        Text | None,
        Meta(description="Default as in check_fit.", examples=[DEFAULT_ENGINES[0]]),
    ] = None
    quantizations: Annotated[
        Names | None,
        Meta(
            description=(
                "Formats to try on 16-bit models: a list, or comma-separated text. Default: as"
                " published."
            ),
            examples=["as published, awq"],
        ),
    ] = None
    context_length: Annotated[
        Tokens | None,
        Meta(
            description=(
                "Tokens per request; excludes models with a shorter maximum. Default 8192, or the"
                " model's maximum if less."
            )
        ),
    ] = None
    concurrency: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Concurrent requests of that length. Default 1."),
    ] = None
    kv_cache_dtype: Annotated[Text | None, Meta(description="auto (default), fp8 or bf16.")] = None
    task: Annotated[Task | None, Meta(description="Only models of this task. Default: all.")] = None
    search: Annotated[
        Text | None,
        Meta(
            description="Only models with these words in name, type or architecture.",
            examples=["qwen3"],
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None, Meta(description="Rows of a page. Default 50.")
    ] = None
    offset: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="Rows to skip. Default 0."),
    ] = None


class FittingModel(Struct, kw_only=True):
    """One model in one format that fits, or just so."""

    model: str
    parameters: int
    task: Task
    engine: str
    quantization: str
    context_length: int
    verdict: Verdict
    fit_probability: float
    required_bytes: Annotated[Bytes, Meta(description="Of the fullest GPU.")]
    budget_bytes: int
    headroom_bytes: int


class ModelsForGpuAnswer(Struct, kw_only=True):
    """A page of the bundled models that fit or are tight, the largest first."""

    gpu: GpuAnswer
    items: list[FittingModel]
    total: int
    warnings: list[Note]
