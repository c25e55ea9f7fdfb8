"""explain_log: compare a start-up log with the estimate of the same request."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, structs

from fitgauge.catalog.engines import Engines
from fitgauge.catalog.lookup import GpuMatch
from fitgauge.engine.model.spec import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB, MIB, gib
from fitgauge.engine.quantization.published import published
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.engine.serving.workload import EngineName
from fitgauge.errors import InvalidRequestError
from fitgauge.logs.detect import detect
from fitgauge.services.common import parsing as words
from fitgauge.services.common import responses as answers
from fitgauge.services.common.engine_names import titles_with_logs
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, refused_field
from fitgauge.services.explain_log.causes import causes, in_doubt
from fitgauge.services.explain_log.comparison import Measured, rows
from fitgauge.services.explain_log.diagnosis import Diagnosis, Launched, diagnose
from fitgauge.services.explain_log.launched import launched_server, launched_training
from fitgauge.services.explain_log.schemas import (
    ComparisonRow,
    ExplainLogRequest,
    LogAnswer,
    LogReading,
)
from fitgauge.services.explain_log.training_command import named_model, training_request
from fitgauge.services.explain_log.truth_row import case
from fitgauge.services.fit.echo import understood_as
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService

RAN_OUT = ("oom", "kv_too_small")
_VISIBLE = 16 * MIB
_REMAINDERS = ("kv_cache", "weights_and_runtime", "usable")
"""Rows that follow from others: named as the largest difference only where no other differs."""


class ParsedLog(msgspec.Struct, frozen=True):
    """A log that was understood. named_engine: None where nothing says which one ran; asked: the
    question it answers, None where it is not valid or of training; training: the run where it is
    one; notes: what was left out; missing: fields that memory ran out without."""

    log: StartLog
    engine: EngineName
    asked: FitRequest | None
    notes: tuple[Note, ...]
    named_engine: EngineName | None = None
    training: TrainingRequest | None = None
    missing: tuple[Literal["model", "gpu"], ...] = ()


def read(request: ExplainLogRequest, engines: Engines) -> ParsedLog:
    """Return the log and the question in it. Raises InvalidRequestError where nothing is
    recognised, or where the model or the GPU is missing of a launch that did not run out of
    memory."""
    log = detect(request.log, request.command)
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
    named = log.engine or (words.engine(request.engine) if request.engine else None)
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
        return ParsedLog(log, name, None, tuple(notes), named, training)
    fields["engine"] = name
    if log.version and log.engine == name:
        version, note = _version(engines, name, log.version)
        fields["engine_version"] = version
        notes += [note] if note else []
    return ParsedLog(log, name, _valid(fields, notes), tuple(notes), named)


def _missing(log: StartLog, request: ExplainLogRequest) -> tuple[Literal["model", "gpu"], ...]:
    """Return the fields that neither the log nor the request names."""
    gpu = request.gpu or log.gpu or Measured(log.readings).value("total")
    return (
        *(() if request.model or log.model else ("model",)),
        *(() if gpu else ("gpu",)),
    )


def without_names(reading: ParsedLog, field: Literal["model", "gpu"]) -> ParsedLog:
    """Return the log of a launch whose model or GPU, as the log names it, is unknown here."""
    return structs.replace(reading, asked=None, training=None, missing=(field,))


def _of_plain_errors() -> EngineName:
    """Return the engine that PyTorch's out-of-memory message without a log is taken for."""
    return next(name for name, row in ENGINES.items() if row.reads_plain_errors)


class LogExplainer:
    """Puts estimate and measurement side by side. Pure arithmetic: no I/O, no await."""

    def __init__(self, serving: FitService, training: TrainingFitService) -> None:
        self._serving = serving
        self._training = training

    def answer(
        self, reading: ParsedLog, model: Model | None, found: GpuMatch | None, *, full: bool
    ) -> LogAnswer:
        """Return the LogAnswer; with measurements alone where no question was read. Raises
        InvalidRequestError where the question is impossible."""
        if reading.training is not None and model is not None and found is not None:
            notes = list(reading.notes)
            run = launched_training(self._training, reading.training, model, found, notes)
            if run is not None:
                return self._training_answer(reading, *run, notes, full=full)
            reading = structs.replace(reading, training=None, notes=tuple(notes))
        log, notes = reading.log, list(reading.notes)
        checked, asked = None, reading.asked
        if asked is not None and model is not None and found is not None:
            asked = structs.replace(asked, quantization=_quantization(asked, model))
            if _takes_maximum(reading, asked):
                asked = structs.replace(asked, context_length=model.spec.max_context_length)
            try:
                checked, asked = self._check(asked, model, found, notes, log)
            except IMPOSSIBLE as error:
                if log.outcome not in RAN_OUT:
                    raise
                notes.append(Note("flag-ignored", refused_field(error), str(error)))
            notes += found.warnings
        context = checked.workload.context_length if checked else 0
        table = rows(
            reading.engine, Measured(log.readings), checked.estimate if checked else None, context
        )
        largest = _largest(table)
        why = causes(log, table, largest, checked) if checked else []
        accelerator = found.accelerator if found else None
        diagnosis = None
        if log.outcome in RAN_OUT:
            launched = (
                launched_server(self._serving, checked, asked, model, found, log)
                if checked and asked and model and found
                else None
            )
            diagnosis = diagnose(log, reading.named_engine, launched)
        answer = LogAnswer(
            summary=_summary(reading, model, checked, table, largest, why),
            engine=reading.engine if checked else reading.named_engine,
            engine_version=log.version,
            outcome=log.outcome,
            model=answers.model_answer(model) if model else None,
            gpu=answers.gpu_answer(accelerator, checked.count) if accelerator and checked else None,
            understood_as=understood_as(checked) if checked else {},
            rows=table,
            largest_difference=largest.name if largest else None,
            causes=why,
            warnings=notes,
            case=case(log, _named(asked, found), reading.engine, doubtful=in_doubt(table)),
            readings=log_readings(log) if full else UNSET,
        )
        if diagnosis is not None:
            _add(answer, diagnosis, reading.missing)
        return answer

    def _training_answer(
        self,
        reading: ParsedLog,
        trained: TrainingAnswer,
        launched: Launched,
        notes: list[Note],
        *,
        full: bool,
    ) -> LogAnswer:
        """Return the answer to a training run that ran out of memory."""
        answer = LogAnswer(
            summary=trained.summary,
            engine=None,
            engine_version=None,
            outcome=reading.log.outcome,
            model=trained.model,
            gpu=trained.gpu,
            understood_as=trained.understood_as,
            rows=[],
            largest_difference=None,
            causes=[],
            warnings=[*notes, *trained.warnings],
            case=case(reading.log, None, reading.engine, doubtful=True),
            readings=log_readings(reading.log) if full else UNSET,
        )
        _add(answer, diagnose(reading.log, None, launched), ())
        return answer

    def _check(
        self, asked: FitRequest, model: Model, found: GpuMatch, notes: list[Note], log: StartLog
    ) -> tuple[FitEstimate, FitRequest]:
        """Return the estimate. Flags of the log it does not support are dropped, with a note."""
        while True:
            try:
                return self._serving.check(asked, model, found, as_launched=True), asked
            except IMPOSSIBLE as error:
                field = refused_field(error)
                if field not in log.flags or getattr(asked, field, None) is None:
                    raise
                notes.append(Note("flag-ignored", field, f"{error} The estimate ignores it."))
                asked = structs.replace(asked, **{field: None})


def _add(
    answer: LogAnswer, diagnosis: Diagnosis, missing: tuple[Literal["model", "gpu"], ...]
) -> None:
    """Put what took the memory first: it is what a reader of such a log wants to know."""
    answer.causes = [*diagnosis.sentences, *answer.causes]
    answer.memory, answer.fixes = diagnosis.memory, diagnosis.fixes
    answer.missing = list(missing)
    first = f" First: {diagnosis.fixes[0].change}." if diagnosis.fixes else ""
    more = f" Send {' and '.join(missing)} for an estimate." if missing else ""
    lead = " ".join(diagnosis.sentences)
    answer.summary = f"{lead}{first}{more}"


def _takes_maximum(reading: ParsedLog, asked: FitRequest) -> bool:
    """Return whether memory ran out of a launch that left the context to the model's maximum."""
    return (
        reading.log.outcome in RAN_OUT
        and ENGINES[reading.engine].default_context_is_maximum
        and asked.context_length is None
        and reading.named_engine is not None
    )


def log_readings(log: StartLog) -> list[LogReading]:
    """Return every number of the log."""
    return [LogReading(name=r.name, value=r.value, rank=r.rank, line=r.line) for r in log.readings]


def _fields(log: StartLog, request: ExplainLogRequest) -> tuple[dict[str, Any], list[Note]]:
    """Return the fields of the request; the caller's override the log's. Raise InvalidRequestError
    without a model or GPU."""
    notes: list[Note] = []
    fields: dict[str, Any] = {
        name: value for name, value in log.flags.items() if name in FitRequest.__struct_fields__
    }
    fields["model"] = request.model or log.model
    if fields["model"] is None:
        called = f", only {log.called!r}" if log.called else ""
        raise InvalidRequestError(
            f"The log has no Hub ID of the model{called}.",
            hint='Send it with the log: "model": "org/name".',
            field="model",
            code="missing-field",
        )
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
            hint='Send it with the log: "gpu": "H100".',
            field="gpu",
            code="missing-field",
        )
    fields["settings"] = "defaults"  # a log is of a launch whose settings were chosen
    fields["gpu_count"] = request.gpu_count or (
        log.gpu_count if "tensor_parallel" not in fields else None
    )
    if log.engine is not None and ENGINES[log.engine].reads_gguf:
        fields |= _split_fields(log)
    if log.flags.get("expert_parallel_on"):
        fields["expert_parallel"] = int(fields.get("tensor_parallel", 1)) * int(
            fields.get("data_parallel", 1)
        )
    if log.flags.get("kv_cache_memory_bytes"):
        fields["kv_cache_memory_gib"] = float(log.flags["kv_cache_memory_bytes"]) / GIB
    return fields, notes


def _split_fields(log: StartLog) -> dict[str, Any]:
    """Return llama.cpp's settings as request fields: n_parallel, n_ubatch, and the weights
    offloaded per GPU."""
    named = {
        "max_num_seqs": log.flags.get("n_parallel"),
        "max_batched_tokens": log.flags.get("n_ubatch"),
    }
    fields: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    on_host = sum(
        reading.value for reading in Measured(log.readings).of_rank("host_weights").values()
    )
    if "partial_offload" in log.remarks and on_host:
        fields["cpu_offload_gib"] = on_host / GIB / (log.gpu_count or 1)
    return fields


def _valid(fields: dict[str, Any], notes: list[Note]) -> FitRequest:
    """Return the request. Flags out of range are dropped, with a note."""
    while True:
        try:
            return msgspec.convert(fields, FitRequest)
        except msgspec.ValidationError as error:
            message = str(error)
            wrong = next((name for name in fields if f"$.{name}`" in message), None)
            if wrong in (None, "model", "gpu"):
                raise InvalidRequestError(
                    message,
                    hint="Send `model` and `gpu` with the log.",
                    field=wrong,
                    code="invalid-value",
                ) from None
            notes.append(
                Note(
                    "flag-ignored",
                    wrong,
                    f"`{wrong}` {fields.pop(wrong)!r} is out of range: the estimate ignores it.",
                )
            )


def _version(engines: Engines, engine: str, printed: str) -> tuple[str | None, Note | None]:
    """Return the version to estimate with, and a note if it is not the printed one."""
    try:
        engines.profile(engine, words.version(printed))
    except InvalidRequestError:
        oldest = engines.oldest(engine)
        if "dev" in printed and printed.startswith("0.1."):
            return None, _unknown_version(
                f"Version {printed} is built from source: using the newest version."
            )
        return oldest, _unknown_version(f"Version {printed} is unknown: using {oldest}.")
    return printed, None


def _unknown_version(message: str) -> Note:
    return Note("engine-version-unknown", "engine_version", message)


def _quantization(asked: FitRequest, model: Model) -> str | None:
    """Return the log's flag where it changed what is stored: engines print the scheme of
    quantized repositories too; else the format that the model's name says."""
    scheme = published(model.spec)
    if scheme is not None and scheme.form:
        return None
    return asked.quantization or model.named_format


def _named(asked: FitRequest | None, found: GpuMatch | None) -> FitRequest | None:
    """Return the question with the card under its own name: what a caller wrote may name a
    machine."""
    if asked is None or found is None or found.accelerator.vendor == "custom":
        return asked
    return structs.replace(asked, gpu=found.accelerator.name)


def _largest(table: list[ComparisonRow]) -> ComparisonRow | None:
    """Return the row that differs most: one of those outside their interval where there are any,
    a remainder only where nothing else differs."""
    differing = [
        row
        for row in table
        if row.unit == "bytes"
        and abs(row.difference or 0) >= _VISIBLE
        and row.measured_is == "value"
    ]
    for chosen in (
        [row for row in differing if not row.within and row.name not in _REMAINDERS],
        [row for row in differing if not row.within],
        [row for row in differing if row.name not in _REMAINDERS],
        differing,
    ):
        if chosen:
            return max(chosen, key=lambda row: abs(row.difference or 0))
    return None


def _summary(
    reading: ParsedLog,
    model: Model | None,
    checked: FitEstimate | None,
    table: list[ComparisonRow],
    largest: ComparisonRow | None,
    why: list[str],
) -> str:
    log = reading.log
    engine = " ".join(filter(None, (reading.engine, log.version)))
    did = {
        "served": "served",
        "kv_too_small": "refused to start for lack of KV cache with",
        "oom": "ran out of memory with",
        None: "loaded",
    }[log.outcome]
    if checked is None or model is None:
        return f"{engine} {did} {log.model or 'a model'}: {len(table)} terms in the log."
    cards = answers.cards_in_words(checked.estimate.accelerator, checked.count)
    judged = [row.within for row in table if row.within is not None]
    said = f"{engine} {did} {model.id} on {cards}"
    said += (
        f": {judged.count(True)} of {len(judged)} measured terms are within the estimated interval."
        if judged
        else "."
    )
    if largest and largest.difference:
        more = "more" if largest.difference > 0 else "less"
        said += (
            f" {largest.name} differs most: {gib(largest.measured)} measured,"
            f" {gib(abs(largest.difference))} {more} than estimated."
        )
    return f"{said} Likely: {why[0]}" if why else said
