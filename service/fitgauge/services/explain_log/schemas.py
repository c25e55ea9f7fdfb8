"""The contract of explain_log: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.serving.start_log.lines import MAX_CHARACTERS
from fitgauge.field_docs import doc
from fitgauge.services.common.answer_facts import AnswerAsOf
from fitgauge.services.common.engine_names import titles_with_logs
from fitgauge.services.common.schemas import GpuAnswer, ModelAnswer, Text, Verdict

LONGEST_LOG = MAX_CHARACTERS

Measurement = int | float


class ExplainLogRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What does this start-up log say, and how far was the estimate from it? Only `log` is
    needed where the log names the rest."""

    log: Annotated[
        str,
        doc(
            f"As printed by {titles_with_logs()}; or any out-of-memory message.",
            min_length=1,
            max_length=LONGEST_LOG,
            examples=[
                "INFO 12-02 15:48:37 [gpu_model_runner.py:3338] Model loading took 14.9889 GiB"
                " memory and 3.03 seconds"
            ],
        ),
    ]
    model: Annotated[
        Text | None, doc("Required if the log names only a path.", examples=["Qwen/Qwen3-32B"])
    ] = None
    gpu: Annotated[
        Text | None,
        doc("Required if the log does not name it, as vLLM's does not.", examples=["H100"]),
    ] = None
    gpu_count: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        doc("Default: from the parallel degrees in the log."),
    ] = None
    engine: Annotated[Text | None, doc("The engine, for a message that does not show it.")] = None
    command: Annotated[
        Annotated[str, Meta(min_length=1, max_length=8192)] | None,
        doc(
            "The launch command, where the log does not show it.",
            examples=["vllm serve Qwen/Qwen3-32B --max-model-len 32768"],
        ),
    ] = None
    detail: Annotated[
        Literal["summary", "full"] | None,
        doc("full adds every number read, with its line. Default summary."),
    ] = None


class ComparisonRow(Struct, kw_only=True):
    """One term, estimated and measured, of the fullest rank."""

    name: Annotated[str, doc("The term.")]
    unit: Annotated[Literal["bytes", "tokens"], doc("Unit of the sizes.")]
    measured: Annotated[int, doc("As the log prints it.")]
    measured_is: Annotated[
        Literal["value", "at_least"], doc("at_least: allocated when memory ran out.")
    ] = "value"
    estimated: Annotated[int | None, doc("null if this term is not estimated.")] = None
    low: Annotated[int | None, doc("Lower end of the estimate's interval.")] = None
    high: Annotated[int | None, doc("Upper end of the estimate's interval.")] = None
    difference: Annotated[int | None, doc("measured minus estimated.")] = None
    within: Annotated[
        bool | None,
        doc("Whether the measurement is within the interval, to the last digit printed."),
    ] = None
    lines: Annotated[list[int], doc("Lines of the log, counted from 1.")] = []


class LogReading(Struct, kw_only=True):
    """One number as the log prints it; sizes in bytes."""

    name: Annotated[str, doc("What was measured.")]
    value: Annotated[float, doc("The number; bytes for sizes.")]
    rank: Annotated[str, doc("The rank that printed it; empty for all.")]
    line: Annotated[int, doc("Line of the log, counted from 1.")]


class LogCase(Struct, kw_only=True, omit_defaults=True):
    """One line of a truth file: numbers and flags alone, nothing that names a machine, a path or
    a person."""

    id: Annotated[str, doc("A digest of the case.")]
    question: Annotated[dict[str, str | int | float | bool], doc("The fields of the request.")]
    outcome: Annotated[str | None, doc("As in the answer.")]
    measured: Annotated[dict[str, Measurement], doc("The numbers of the log, by name.")]
    scores: Annotated[list[str], doc("The measured numbers that an estimate can be held to.")]
    source: Annotated[str, doc("Where the log comes from: local, with the digest.")]
    build: Annotated[str | None, doc("The version as printed, where it is no release.")] = None
    total_gpu_gib: Annotated[float | None, doc("Memory of the GPU as the log shows it [GiB].")] = (
        None
    )
    settings: Annotated[dict[str, str | int | float | bool], doc("Further flags of the log.")] = {}


class MemoryPart(Struct, kw_only=True):
    """What held a part of the memory that ran out."""

    name: Annotated[str, doc("The part, such as weights.")]
    bytes: Annotated[int, doc("Its size.")]
    basis: Annotated[
        Literal["log", "estimate"],
        doc("log: as printed; estimate: of the launch that the log names."),
    ]


class LogFix(Struct, kw_only=True, omit_defaults=True):
    """One change that helps. With a verdict it was estimated."""

    change: Annotated[str, doc("What to change, in words.")]
    command: Annotated[str | None, doc("How to start it so, or the flag or setting to add.")] = None
    request: Annotated[
        dict[str, str | int | float | bool] | None,
        doc("Fields to send to check_fit or check_training_fit."),
    ] = None
    verdict: Annotated[Verdict | None, doc("The verdict with the change.")] = None
    required_bytes: Annotated[int | None, doc("What the fullest GPU needs with the change.")] = None


class LogAnswer(Struct, kw_only=True):
    """The ledger: estimate against measurement, the term that differs most, and why. Where memory
    ran out: what took it, and what to change."""

    summary: Annotated[
        str, doc("The comparison; where memory ran out, why and what to change first.")
    ]
    engine: Annotated[str | None, doc("null where nothing says which one ran.")]
    engine_version: Annotated[str | None, doc("As the log prints it; null if it does not.")]
    outcome: Annotated[
        Literal["served", "kv_too_small", "oom"] | None, doc("null if the log ends too early.")
    ]
    model: Annotated[ModelAnswer | None, doc("The model as it was read; null without one.")]
    gpu: Annotated[GpuAnswer | None, doc("The GPU and how many of it; null without one.")]
    understood_as: Annotated[dict[str, str | int | float | bool], doc("The estimated request.")]
    rows: Annotated[list[ComparisonRow], doc("Terms that were measured, each with its estimate.")]
    largest_difference: Annotated[str | None, doc("The row with the largest difference.")]
    causes: Annotated[list[str], doc("What likely made the difference, the flag first.")]
    warnings: Annotated[list[Note], doc("What to know about the log and the estimate.")]
    memory: Annotated[
        list[MemoryPart],
        doc("Where memory ran out: what held it, of the log first, the largest first."),
    ] = []
    fixes: Annotated[
        list[LogFix], doc("Where memory ran out: what to change, in the order to try.")
    ] = []
    missing: Annotated[
        list[Literal["model", "gpu"]], doc("Fields that would let the launch be estimated.")
    ] = []
    case: Annotated[LogCase, doc("The run as a line for a truth file, anonymised.")]
    readings: Annotated[
        list[LogReading] | UnsetType, doc("Every number of the log, with `detail` full.")
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
