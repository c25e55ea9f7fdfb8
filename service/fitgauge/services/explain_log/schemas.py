"""The contract of explain_log: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.serving.start_log.lines import MAX_CHARACTERS
from fitgauge.services.common.engine_names import titles_with_logs
from fitgauge.services.common.schemas import GpuAnswer, ModelAnswer, Text, Verdict

LONGEST_LOG = MAX_CHARACTERS

Measurement = int | float


class ExplainLogRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What does this start-up log say, and how far was the estimate from it? Only `log` is
    needed where the log names the rest."""

    log: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_LOG,
            description=(f"As printed by {titles_with_logs()}; or any out-of-memory message."),
            examples=[
                "INFO 12-02 15:48:37 [gpu_model_runner.py:3338] Model loading took 14.9889 GiB"
                " memory and 3.03 seconds"
            ],
        ),
    ]
    model: Annotated[
        Text | None,
        Meta(description="Required if the log names only a path.", examples=["Qwen/Qwen3-32B"]),
    ] = None
    gpu: Annotated[
        Text | None,
        Meta(
            description=("Required if the log does not name it, as vLLM's does not."),
            examples=["H100"],
        ),
    ] = None
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        Meta(description="Default: from the parallel degrees in the log."),
    ] = None
    engine: Annotated[
        Text | None, Meta(description="The engine, for a message that does not show it.")
    ] = None
    command: Annotated[
        Annotated[str, Meta(min_length=1, max_length=8192)] | None,
        Meta(
            description="The launch command, where the log does not show it.",
            examples=["vllm serve Qwen/Qwen3-32B --max-model-len 32768"],
        ),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        Meta(description="full adds every number read, with its line. Default summary."),
    ] = None


class ComparisonRow(Struct, kw_only=True):
    """One term, estimated and measured, of the fullest rank."""

    name: str
    unit: Literal["bytes", "tokens"]
    measured: int
    measured_is: Annotated[
        Literal["value", "at_least"],
        Meta(description="at_least: allocated when memory ran out."),
    ] = "value"
    estimated: Annotated[int | None, Meta(description="null if this term is not estimated.")] = None
    low: int | None = None
    high: int | None = None
    difference: Annotated[int | None, Meta(description="measured minus estimated.")] = None
    within: Annotated[
        bool | None,
        Meta(
            description="Whether the measurement is within the interval, to the last digit printed."
        ),
    ] = None
    lines: Annotated[list[int], Meta(description="Lines of the log, counted from 1.")] = []


class LogReading(Struct, kw_only=True):
    """One number as the log prints it; sizes in bytes."""

    name: str
    value: float
    rank: str
    line: int


class LogCase(Struct, kw_only=True, omit_defaults=True):
    """One line of a truth file: numbers and flags alone, nothing that names a machine, a path or
    a person."""

    id: str
    question: dict[str, str | int | float | bool]
    outcome: str | None
    measured: dict[str, Measurement]
    scores: list[str]
    source: str
    build: str | None = None
    total_gpu_gib: float | None = None
    settings: dict[str, str | int | float | bool] = {}


class MemoryPart(Struct, kw_only=True):
    """What held a part of the memory that ran out."""

    name: str
    bytes: int
    basis: Annotated[
        Literal["log", "estimate"],
        Meta(description="log: as printed; estimate: of the launch that the log names."),
    ]


class LogFix(Struct, kw_only=True, omit_defaults=True):
    """One change that helps. With a verdict it was estimated."""

    change: str
    command: Annotated[
        str | None, Meta(description="How to start it so, or the flag or setting to add.")
    ] = None
    request: Annotated[
        dict[str, str | int | float | bool] | None,
        Meta(description="Fields to send to check_fit or check_training_fit."),
    ] = None
    verdict: Verdict | None = None
    required_bytes: int | None = None


class LogAnswer(Struct, kw_only=True):
    """The ledger: estimate against measurement, the term that differs most, and why. Where memory
    ran out: what took it, and what to change."""

    summary: str
    engine: Annotated[str | None, Meta(description="null where nothing says which one ran.")]
    engine_version: str | None
    outcome: Annotated[
        Literal["served", "kv_too_small", "oom"] | None,
        Meta(description="null if the log ends too early."),
    ]
    model: ModelAnswer | None
    gpu: GpuAnswer | None
    understood_as: Annotated[
        dict[str, str | int | float | bool], Meta(description="The estimated request.")
    ]
    rows: list[ComparisonRow]
    largest_difference: Annotated[
        str | None, Meta(description=("The row with the largest difference."))
    ]
    causes: Annotated[
        list[str], Meta(description="What likely made the difference, the flag first.")
    ]
    warnings: list[Note]
    memory: Annotated[
        list[MemoryPart],
        Meta(
            description="Where memory ran out: what held it, of the log first, the largest first."
        ),
    ] = []
    fixes: Annotated[
        list[LogFix],
        Meta(description="Where memory ran out: what to change, in the order to try."),
    ] = []
    missing: Annotated[
        list[Literal["model", "gpu"]],
        Meta(description="Fields that would let the launch be estimated."),
    ] = []
    case: Annotated[LogCase, Meta(description="The run as a line for a truth file, anonymised.")]
    readings: list[LogReading] | UnsetType = UNSET
