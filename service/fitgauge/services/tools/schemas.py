"""The short answers of the tools. Fields that do not apply are left out."""

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from fitgauge.field_docs import doc
from fitgauge.services.common.schemas import Verdict

Value = str | int | float | bool
Text = str | UnsetType
Count = int | UnsetType
Gib = float | UnsetType


class Fix(Struct, kw_only=True, omit_defaults=True):
    """A change that helps; with a verdict it was estimated."""

    change: str
    """The change in words."""
    arguments: Annotated[
        dict[str, Value] | UnsetType, doc("Arguments to send in place of the call's own.")
    ] = UNSET
    needs_gib: Gib = UNSET
    """Of the fullest GPU, with the change."""
    verdict: Verdict | UnsetType = UNSET
    """The verdict with the change."""
    command: Text = UNSET
    """How to start it so, or the flag to add."""


class Other(Struct, kw_only=True):
    """The same training by another method."""

    needs_gib: float
    """Of the fullest GPU."""
    verdict: Verdict
    """The verdict of the method."""


class Option(Struct, kw_only=True, omit_defaults=True):
    """One row of a list."""

    role: Text = UNSET
    """What it is best at, for GPUs to take."""
    model: Text = UNSET
    """Hugging Face ID."""
    gpu: Annotated[Text, doc("With its count: 2x L40S.")] = UNSET
    engine: Text = UNSET
    """Serving engine."""
    method: Text = UNSET
    """Training method."""
    layout: Text = UNSET
    """Framework, degrees and checkpointing of a training run."""
    quantization: Text = UNSET
    """Format of the weights."""
    context_length: Count = UNSET
    """Tokens of a request."""
    concurrency: Count = UNSET
    """Requests at once."""
    verdict: Verdict | UnsetType = UNSET
    """Whether it fits."""
    needs_gib: Annotated[Gib, doc("Of the fullest GPU.")] = UNSET
    usable_gib: Gib = UNSET
    """What needs_gib is set against."""
    tokens_per_second: Gib = UNSET
    """Decoding speed of all requests together."""
    seconds_to_first_token: Annotated[Gib, doc("Expected, where the call asks for it.")] = UNSET
    usd_per_hour: Gib = UNSET
    """Lowest known price of all its GPUs."""
    rented_as: Annotated[Text, doc("The machines of that price, paid whole.")] = UNSET
    efficiency: Gib = UNSET
    """Of one GPU, 0 to 1."""
    note: Text = UNSET
    """Why it has no estimate."""


class ToolAnswer(Struct, kw_only=True, omit_defaults=True):
    """The answer of a tool. Sizes are GiB per GPU with one decimal."""

    verdict: Verdict | UnsetType = UNSET
    """Whether it fits."""
    answer: Annotated[str, doc("The whole answer in a sentence or two.")]
    model: Text = UNSET
    """Hugging Face ID of the model that was read."""
    gpu: Text = UNSET
    """Name of the GPU that was read."""
    gpu_count: Count = UNSET
    """Number of GPUs."""
    method: Text = UNSET
    """Training method."""
    engine: Text = UNSET
    """Serving engine."""
    quantization: Text = UNSET
    """Format of the weights."""
    context_length: Count = UNSET
    """Tokens of a request."""
    concurrency: Count = UNSET
    """Requests at once."""
    sequence_length: Count = UNSET
    """Tokens of a training sequence."""
    micro_batch_size: Count = UNSET
    """Sequences per GPU and forward pass."""
    needs_gib: Annotated[Gib, doc("Expected, of the fullest GPU.")] = UNSET
    range_gib: Annotated[list[float] | UnsetType, doc("From low to high.")] = UNSET
    usable_gib: Annotated[
        Gib, doc("What needs_gib is set against: of the GPU, or the engine's share.")
    ] = UNSET
    parts_gib: Annotated[dict[str, float] | UnsetType, doc("They add up to needs_gib.")] = UNSET
    needs_by_format: Annotated[
        dict[str, float] | UnsetType, doc("GiB in all by weight format, or by training method.")
    ] = UNSET
    smallest: Annotated[
        list[Option] | UnsetType, doc("GPUs that hold it, without a gpu in the call.")
    ] = UNSET
    tokens_per_second_per_request: Annotated[
        Gib, doc("Expected of an answer at this load, prompts and answers filling the context.")
    ] = UNSET
    seconds_to_first_token: Annotated[
        Gib, doc("Expected, where the call asks for a speed or describes a load.")
    ] = UNSET
    max_context: Annotated[Count, doc("The longest context that fits.")] = UNSET
    max_concurrency: Annotated[Count, doc("The most requests at once that fit.")] = UNSET
    max_micro_batch_size: Count = UNSET
    """The largest micro-batch that fits."""
    max_sequence_length: Annotated[Count, doc("Training: the longest sequences that fit.")] = UNSET
    others: Annotated[dict[str, Other] | UnsetType, doc("The other training methods.")] = UNSET
    options: list[Option] | UnsetType = UNSET
    """Rows of a list, the best first."""
    more: Annotated[Count, doc("Options that are not listed.")] = UNSET
    fixes: list[Fix] | UnsetType = UNSET
    """Changes that help, those that fit first."""
    command: Text = UNSET
    """How to start what fits."""
    assumed: Annotated[list[str] | UnsetType, doc("What was left open, read or ignored.")] = UNSET
    warnings: list[str] | UnsetType = UNSET
    """What to pass on to the person who asks."""


class ToolError(Struct, kw_only=True, omit_defaults=True, rename={"alternatives": "or"}):
    """Why a call has no answer, and the next call."""

    error: str
    """What is wrong, and what to send."""
    code: str
    """The code of the error, as in /v1."""
    send: Annotated[
        dict[str, Value] | UnsetType, doc("Arguments to send in place of the call's own.")
    ] = UNSET
    alternatives: Annotated[list[str] | UnsetType, doc("Other values of the first of them.")] = (
        UNSET
    )
