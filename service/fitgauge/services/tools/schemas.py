"""The short answers of the tools. Fields that do not apply are left out."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.services.common.schemas import Verdict

Value = str | int | float | bool
Text = str | UnsetType
Count = int | UnsetType
Gib = float | UnsetType


class Fix(Struct, kw_only=True, omit_defaults=True):
    """A change that helps; with a verdict it was estimated."""

    change: str
    arguments: Annotated[
        dict[str, Value] | UnsetType,
        Meta(description="Arguments to send in place of the call's own."),
    ] = UNSET
    needs_gib: Gib = UNSET
    verdict: Verdict | UnsetType = UNSET
    command: Text = UNSET


class Other(Struct, kw_only=True):
    """The same training by another method."""

    needs_gib: float
    verdict: Verdict


class Option(Struct, kw_only=True, omit_defaults=True):
    """One row of a list."""

    role: Text = UNSET
    model: Text = UNSET
    gpu: Annotated[Text, Meta(description="With its count: 2x L40S.")] = UNSET
    engine: Text = UNSET
    method: Text = UNSET
    layout: Text = UNSET
    quantization: Text = UNSET
    context_length: Count = UNSET
    concurrency: Count = UNSET
    verdict: Verdict | UnsetType = UNSET
    needs_gib: Annotated[Gib, Meta(description="Of the fullest GPU.")] = UNSET
    usable_gib: Gib = UNSET
    tokens_per_second: Gib = UNSET
    usd_per_hour: Gib = UNSET
    efficiency: Gib = UNSET
    note: Text = UNSET


class ToolAnswer(Struct, kw_only=True, omit_defaults=True):
    """The answer of a tool. Sizes are GiB per GPU with one decimal."""

    verdict: Verdict | UnsetType = UNSET
    answer: Annotated[str, Meta(description="The whole answer in a sentence or two.")]
    model: Text = UNSET
    gpu: Text = UNSET
    gpu_count: Count = UNSET
    method: Text = UNSET
    engine: Text = UNSET
    quantization: Text = UNSET
    context_length: Count = UNSET
    concurrency: Count = UNSET
    sequence_length: Count = UNSET
    micro_batch_size: Count = UNSET
    needs_gib: Annotated[Gib, Meta(description="Expected, of the fullest GPU.")] = UNSET
    range_gib: Annotated[list[float] | UnsetType, Meta(description="From low to high.")] = UNSET
    usable_gib: Annotated[
        Gib, Meta(description="What needs_gib is set against: of the GPU, or the engine's share.")
    ] = UNSET
    parts_gib: Annotated[
        dict[str, float] | UnsetType, Meta(description="They add up to needs_gib.")
    ] = UNSET
    needs_by_format: Annotated[
        dict[str, float] | UnsetType,
        Meta(description="GiB in all by weight format, or by training method."),
    ] = UNSET
    smallest: Annotated[
        list[Option] | UnsetType, Meta(description="GPUs that hold it, without a gpu in the call.")
    ] = UNSET
    max_context: Annotated[Count, Meta(description="The longest context that fits.")] = UNSET
    max_micro_batch_size: Count = UNSET
    others: Annotated[
        dict[str, Other] | UnsetType, Meta(description="The other training methods.")
    ] = UNSET
    options: list[Option] | UnsetType = UNSET
    more: Annotated[Count, Meta(description="Options that are not listed.")] = UNSET
    fixes: list[Fix] | UnsetType = UNSET
    command: Text = UNSET
    assumed: Annotated[
        list[str] | UnsetType, Meta(description="What was left open, read or ignored.")
    ] = UNSET
    warnings: list[str] | UnsetType = UNSET


class ToolError(Struct, kw_only=True, omit_defaults=True, rename={"alternatives": "or"}):
    """Why a call has no answer, and the next call."""

    error: str
    code: str
    send: Annotated[
        dict[str, Value] | UnsetType,
        Meta(description="Arguments to send in place of the call's own."),
    ] = UNSET
    alternatives: Annotated[
        list[str] | UnsetType, Meta(description="Other values of the first of them.")
    ] = UNSET
