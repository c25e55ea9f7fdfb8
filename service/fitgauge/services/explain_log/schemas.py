"""The contract of explain_log: what callers send and what they get."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from fitgauge.engine.note import Note
from fitgauge.engine.serving.start_log.lines import MAX_CHARACTERS
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

    name: Annotated[str, Meta(description="The term.")]
    unit: Annotated[Literal["bytes", "tokens"], Meta(description="Unit of the sizes.")]
    measured: Annotated[int, Meta(description="As the log prints it.")]
    measured_is: Annotated[
        Literal["value", "at_least"],
        Meta(description="at_least: allocated when memory ran out."),
    ] = "value"
    estimated: Annotated[int | None, Meta(description="null if this term is not estimated.")] = None
    low: Annotated[int | None, Meta(description="Lower end of the estimate's interval.")] = None
    high: Annotated[int | None, Meta(description="Upper end of the estimate's interval.")] = None
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

    name: Annotated[str, Meta(description="What was measured.")]
    value: Annotated[float, Meta(description="The number; bytes for sizes.")]
    rank: Annotated[str, Meta(description="The rank that printed it; empty for all.")]
    line: Annotated[int, Meta(description="Line of the log, counted from 1.")]


class LogCase(Struct, kw_only=True, omit_defaults=True):
    """One line of a truth file: numbers and flags alone, nothing that names a machine, a path or
    a person."""

    id: Annotated[str, Meta(description="A digest of the case.")]
    question: Annotated[
        dict[str, str | int | float | bool], Meta(description="The fields of the request.")
    ]
    outcome: Annotated[str | None, Meta(description="As in the answer.")]
    measured: Annotated[
        dict[str, Measurement], Meta(description="The numbers of the log, by name.")
    ]
    scores: Annotated[
        list[str], Meta(description="The measured numbers that an estimate can be held to.")
    ]
    source: Annotated[str, Meta(description="Where the log comes from: local, with the digest.")]
    build: Annotated[
        str | None, Meta(description="The version as printed, where it is no release.")
    ] = None
    total_gpu_gib: Annotated[
        float | None, Meta(description="Memory of the GPU as the log shows it [GiB].")
    ] = None
    settings: Annotated[
        dict[str, str | int | float | bool], Meta(description="Further flags of the log.")
    ] = {}


class MemoryPart(Struct, kw_only=True):
    """What held a part of the memory that ran out."""

    name: Annotated[str, Meta(description="The part, such as weights.")]
    bytes: Annotated[int, Meta(description="Its size.")]
    basis: Annotated[
        Literal["log", "estimate"],
        Meta(description="log: as printed; estimate: of the launch that the log names."),
    ]


class LogFix(Struct, kw_only=True, omit_defaults=True):
    """One change that helps. With a verdict it was estimated."""

    change: Annotated[str, Meta(description="What to change, in words.")]
    command: Annotated[
        str | None, Meta(description="How to start it so, or the flag or setting to add.")
    ] = None
    request: Annotated[
        dict[str, str | int | float | bool] | None,
        Meta(description="Fields to send to check_fit or check_training_fit."),
    ] = None
    verdict: Annotated[Verdict | None, Meta(description="The verdict with the change.")] = None
    required_bytes: Annotated[
        int | None, Meta(description="What the fullest GPU needs with the change.")
    ] = None


class LogAnswer(Struct, kw_only=True):
    """The ledger: estimate against measurement, the term that differs most, and why. Where memory
    ran out: what took it, and what to change."""

    summary: Annotated[
        str,
        Meta(description="The comparison; where memory ran out, why and what to change first."),
    ]
    engine: Annotated[str | None, Meta(description="null where nothing says which one ran.")]
    engine_version: Annotated[
        str | None, Meta(description="As the log prints it; null if it does not.")
    ]
    outcome: Annotated[
        Literal["served", "kv_too_small", "oom"] | None,
        Meta(description="null if the log ends too early."),
    ]
    model: Annotated[
        ModelAnswer | None, Meta(description="The model as it was read; null without one.")
    ]
    gpu: Annotated[
        GpuAnswer | None, Meta(description="The GPU and how many of it; null without one.")
    ]
    understood_as: Annotated[
        dict[str, str | int | float | bool], Meta(description="The estimated request.")
    ]
    rows: Annotated[
        list[ComparisonRow], Meta(description="Terms that were measured, each with its estimate.")
    ]
    largest_difference: Annotated[
        str | None, Meta(description=("The row with the largest difference."))
    ]
    causes: Annotated[
        list[str], Meta(description="What likely made the difference, the flag first.")
    ]
    warnings: Annotated[
        list[Note], Meta(description="What to know about the log and the estimate.")
    ]
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
    readings: Annotated[
        list[LogReading] | UnsetType,
        Meta(description="Every number of the log, with `detail` full."),
    ] = UNSET
    as_of: AnswerAsOf = UNSET
    """How old the facts of the answer are."""
