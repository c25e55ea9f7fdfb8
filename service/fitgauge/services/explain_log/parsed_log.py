"""What a start-up log says: its measurements, and the question that its launch answers."""

import re
from typing import Any, Literal

import msgspec
from msgspec import structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.variants import file_type
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError
from fitgauge.logs.detect import detect
from fitgauge.services.common import parsing
from fitgauge.services.common.engine_names import titles_with_logs
from fitgauge.services.common.launch_fields import known_version, launch_fields, valid_request
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.explain_log.schemas import ExplainLogRequest
from fitgauge.services.explain_log.training_command import named_model, training_request
from fitgauge.services.training_fit.schemas import TrainingRequest

_SIZE = re.compile(r" - ([SML])[a-z]+$")
"""The size of a file type as llama.cpp prints it: "Q4_K - Medium" is Q4_K_M."""
RAN_OUT = ("oom", "kv_too_small")
"""Outcomes of a launch that lacked memory."""


class ParsedLog(msgspec.Struct, frozen=True):
    """A log that was understood."""

    log: StartLog
    """Measurements and flags."""
    engine: EngineName
    """The engine of the log, or the one that a plain out-of-memory message is read as."""
    serving: FitRequest | None
    """The question of a serving launch; None where it is not valid or of training."""
    notes: tuple[Note, ...]
    """What the estimate leaves out."""
    named_engine: EngineName | None = None
    """The engine that the log or the request names; None for neither."""
    training: TrainingRequest | None = None
    """The question of a training run; None for serving."""
    text: str = ""
    """The command and the log of a training run."""
    missing: tuple[Literal["model", "gpu"], ...] = ()
    """Fields that neither the log nor the request of a launch that ran out of memory names."""


def read(request: ExplainLogRequest, engines: Engines) -> ParsedLog:
    """Return the log and the question in it. Raises InvalidRequestError where nothing is
    recognised, or where the model or the GPU is missing of a launch that did not run out of
    memory."""
    engine = parsing.engine(request.engine) if request.engine else None
    log = detect(request.log, request.command, engine)
    if log is None:
        raise InvalidRequestError(
            "Nothing in this text is a measurement that is known here.",
            hint=(
                f"Send the start-up log of {titles_with_logs()} as it was printed, or PyTorch's"
                " out-of-memory message."
            ),
            field="log",
            code="unreadable-log",
        )
    return read_run(log, request, engines)


def read_run(log: StartLog, request: ExplainLogRequest, engines: Engines) -> ParsedLog:
    """Return the question in what a run measured. Raises what `read` does."""
    named = log.engine or (parsing.engine(request.engine) if request.engine else None)
    name = named or _of_plain_errors()
    ran_out, text = log.outcome in RAN_OUT, f"{request.command or ''}\n{request.log}"
    if ran_out and "training" in log.remarks and not request.model:
        log = structs.replace(log, model=log.model or named_model(text))
    missing = _missing(log, request)
    if ran_out and missing:
        return ParsedLog(log, name, None, (), named, missing=missing)
    fields, notes = _fields(log, request)
    if ran_out and "training" in log.remarks:
        training = training_request(text, fields["model"], fields["gpu"], request.gpu_count)
        return ParsedLog(log, name, None, tuple(notes), named, training, text)
    fields["engine"] = name
    if log.version and log.engine == name:
        version, note = known_version(engines, name, log.version)
        fields["engine_version"] = version
        notes += [note] if note else []
    return ParsedLog(
        log,
        name,
        valid_request(fields, notes, "Send `model` and `gpu` with the log."),
        tuple(notes),
        named,
    )


def _missing(log: StartLog, request: ExplainLogRequest) -> tuple[Literal["model", "gpu"], ...]:
    """Return the fields that neither the log nor the request names."""
    gpu = request.gpu or log.gpu or Measured(log.readings).value("total")
    return (
        *(() if request.model or log.model or log.called else ("model",)),
        *(() if gpu else ("gpu",)),
    )


def without_names(reading: ParsedLog, field: Literal["model", "gpu"]) -> ParsedLog:
    """Return the log of a launch whose model or GPU, as the log names it, is unknown here."""
    return structs.replace(reading, serving=None, training=None, missing=(field,))


def _of_plain_errors() -> EngineName:
    """Return the engine that PyTorch's out-of-memory message without a log is taken for."""
    return next(name for name, row in ENGINES.items() if row.reads_plain_errors)


def unnamed_model(log: StartLog) -> InvalidRequestError:
    """Return the error of a log that names its model by no ID, nor by a name that is known."""
    called = f", only {log.called!r}" if log.called else ""
    return InvalidRequestError(
        f"The log has no Hub ID of the model{called}.",
        hint="Send `model` with the log, such as org/name.",
        field="model",
        code="missing-field",
    )


def _fields(log: StartLog, request: ExplainLogRequest) -> tuple[dict[str, Any], list[Note]]:
    """Return the fields of the request; the caller's override the log's. Raise InvalidRequestError
    without a model or GPU."""
    notes: list[Note] = []
    fields = launch_fields(log)
    fields["model"] = request.model or log.model or log.called
    if fields["model"] is None:
        raise unnamed_model(log)
    if _reads_gguf(log) and ":" not in fields["model"]:
        stored = _SIZE.sub(r"_\1", str(log.flags.get("file_type") or ""))
        fields["quantization"] = fields.get("quantization") or file_type(stored)
    fields["gpu"] = request.gpu or log.gpu
    total = Measured(log.readings).value("total")
    if fields["gpu"] is None and total:
        fields["gpu"] = f"{total / GIB:.2f}GiB"
        notes.append(
            Note(
                "log-without-gpu",
                "gpu",
                f"The log names no GPU: assuming one with {gib(total)}. Send `gpu` for a better"
                " estimate.",
            )
        )
    if fields["gpu"] is None:
        raise InvalidRequestError(
            "The log names no GPU.",
            hint="Send `gpu` with the log, such as H100.",
            field="gpu",
            code="missing-field",
        )
    fields["settings"] = "defaults"  # a log is of a launch whose settings were chosen
    fields["gpu_count"] = request.gpu_count or (
        log.gpu_count if "tensor_parallel" not in fields else None
    )
    return fields, notes


def _reads_gguf(log: StartLog) -> bool:
    return log.engine is not None and ENGINES[log.engine].reads_gguf
