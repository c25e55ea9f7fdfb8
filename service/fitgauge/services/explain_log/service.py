"""explain_log: compare a start-up log with the estimate of the same request."""

from math import log
from typing import Literal

from msgspec import UNSET, structs

from fitgauge.catalog.format_names import take_formats
from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import MIB, gib
from fitgauge.engine.quantization.formats import GGUF_FILE_BITS
from fitgauge.engine.quantization.published import published
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.services.common import responses
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE, refused_field
from fitgauge.services.explain_log.causes import causes, in_doubt
from fitgauge.services.explain_log.comparison import Measured, rows
from fitgauge.services.explain_log.diagnosis import Diagnosis, Launched, diagnose
from fitgauge.services.explain_log.launched import launched_server, launched_training
from fitgauge.services.explain_log.parsed_log import RAN_OUT, ParsedLog
from fitgauge.services.explain_log.schemas import ComparisonRow, LogAnswer, LogReading
from fitgauge.services.explain_log.truth_row import case
from fitgauge.services.fit.checkpoints import default_format
from fitgauge.services.fit.echo import understood_as
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService
from fitgauge.services.training_fit.schemas import TrainingAnswer
from fitgauge.services.training_fit.service import TrainingFitService

_VISIBLE = 16 * MIB
_REMAINDERS = ("kv_cache", "weights_and_runtime", "usable")
"""Rows that follow from others: named as the largest difference only where no other differs."""


class LogExplainer:
    """Puts estimate and measurement side by side. Pure arithmetic: no I/O, no await."""

    def __init__(self, serving: FitService, training: TrainingFitService) -> None:
        self._serving = serving
        self._training = training

    def answer(
        self, reading: ParsedLog, model: Model | None, match: GpuMatch | None, *, full: bool
    ) -> LogAnswer:
        """Return the LogAnswer; with measurements alone where no question was read. Raises
        InvalidRequestError where the question is impossible."""
        if reading.training is not None and model is not None and match is not None:
            notes = list(reading.notes)
            run = launched_training(self._training, reading, reading.training, model, match, notes)
            if run is not None:
                return self._training_answer(reading, *run, notes, full=full)
            reading = structs.replace(reading, training=None, notes=tuple(notes))
        log, notes = reading.log, list(reading.notes)
        checked, request = None, reading.serving
        if request is not None and model is not None and match is not None:
            request = structs.replace(request, quantization=_quantization(request, model))
            if request.quantization is None:
                form, unnamed = _format_loaded(reading, model)
                request = structs.replace(request, quantization=form)
                notes += unnamed
            if _takes_maximum(reading, request):
                request = structs.replace(request, context_length=model.spec.max_context_length)
            try:
                checked, request = self._check(request, model, match, notes, log)
            except IMPOSSIBLE as error:
                if log.outcome not in RAN_OUT:
                    raise
                notes.append(Note("flag-ignored", refused_field(error), str(error)))
            notes += match.warnings
        context = checked.workload.context_length if checked else 0
        table = rows(
            reading.engine, Measured(log.readings), checked.estimate if checked else None, context
        )
        largest = _largest(table)
        why = causes(log, table, largest, checked) if checked else []
        accelerator = match.accelerator if match else None
        diagnosis = None
        if log.outcome in RAN_OUT:
            launched = None
            if checked and request and model and match:
                launched = launched_server(self._serving, checked, request, model, match, log)
            diagnosis = diagnose(log, reading.named_engine, launched)
        answer = LogAnswer(
            summary=_summary(reading, model, checked, table, largest, why),
            engine=reading.engine if checked else reading.named_engine,
            engine_version=log.version,
            outcome=log.outcome,
            model=responses.model_answer(model) if model else None,
            gpu=responses.gpu_answer(accelerator, checked.count)
            if accelerator and checked
            else None,
            understood_as=understood_as(checked) if checked else {},
            rows=table,
            largest_difference=largest.name if largest else None,
            causes=why,
            warnings=notes,
            case=case(log, _named(request, model, match), reading.engine, doubtful=in_doubt(table)),
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
        self, request: FitRequest, model: Model, match: GpuMatch, notes: list[Note], log: StartLog
    ) -> tuple[FitEstimate, FitRequest]:
        """Return the estimate. Flags of the log it does not support are dropped, with a note."""
        while True:
            try:
                return self._serving.check(request, model, match, as_launched=True), request
            except IMPOSSIBLE as error:
                field = refused_field(error)
                flagged = {field, f"{field}_on"} & log.flags.keys()
                if field is None or not flagged or getattr(request, field, None) is None:
                    raise
                notes.append(Note("flag-ignored", field, f"{error} The estimate ignores it."))
                request = structs.replace(request, **{field: None})


def _add(
    answer: LogAnswer, diagnosis: Diagnosis, missing: tuple[Literal["model", "gpu"], ...]
) -> None:
    """Put what took the memory first: it is what a reader of such a log wants to know."""
    answer.causes = [*diagnosis.sentences, *answer.causes]
    answer.memory, answer.fixes = diagnosis.memory, diagnosis.fixes
    answer.missing = list(missing)
    first = f" First: {diagnosis.fixes[0].change}." if diagnosis.fixes else ""
    names = " and ".join(f"`{name}`" for name in missing)
    more = f" Send {names} for an estimate." if missing else ""
    lead = " ".join(diagnosis.sentences)
    answer.summary = f"{lead}{first}{more}"


def _takes_maximum(reading: ParsedLog, request: FitRequest) -> bool:
    """Return whether memory ran out of a launch that left the context to the model's maximum."""
    return (
        reading.log.outcome in RAN_OUT
        and ENGINES[reading.engine].default_context_is_maximum
        and request.context_length is None
        and reading.named_engine is not None
    )


def log_readings(log: StartLog) -> list[LogReading]:
    """Return every number of the log."""
    return [LogReading(name=r.name, value=r.value, rank=r.rank, line=r.line) for r in log.readings]


def _quantization(request: FitRequest, model: Model) -> str | None:
    """Return the log's flag where it changed what is stored: engines print the scheme of
    quantized repositories too; else the format that the model's name says."""
    scheme = published(model.spec)
    if scheme is not None and scheme.form:
        return None
    return request.quantization or model.named_format


def _format_loaded(reading: ParsedLog, model: Model) -> tuple[str | None, list[Note]]:
    """Return the format that a launch named, else the file of the engine that is nearest to the
    weights in the log, else the one that it usually loads, 4-bit files under llama.cpp, with a
    note; None: as published."""
    scheme = published(model.spec)
    if scheme is not None and scheme.form:
        return None, []
    named = take_formats((reading.log.model or "").lower())[1]
    usual = default_format(model, reading.engine)
    if named or usual is None:
        return named or None, []
    loaded = sum(one.value for one in Measured(reading.log.readings).of_rank("weights").values())
    formats: dict[str | None, float] = {
        form: GGUF_FILE_BITS[form.upper()]
        for form in ENGINES[reading.engine].served_formats
        if form.upper() in GGUF_FILE_BITS
    }
    nearest: str | None = usual
    if loaded and formats:
        formats[None] = BITS["F16"]
        bits = 8 * loaded / responses.parameters(model)
        nearest = min(formats, key=lambda form: abs(log(formats[form] / bits)))
    words = f"{nearest or 'the published one'} is {'nearest in size' if loaded else 'assumed'}"
    message = f"The log names no format of the weights: {words}. Send it with the model."
    return nearest, [Note("log-without-format", "model", message)]


def _named(
    request: FitRequest | None, model: Model | None, match: GpuMatch | None
) -> FitRequest | None:
    """Return the question with the model and the GPU under their own names: what a file calls its
    model is no ID, and what a caller wrote may name a machine."""
    if request is not None and model is not None and "/" not in request.model:
        request = structs.replace(request, model=model.id)
    if request is None or match is None or match.accelerator.vendor == "custom":
        return request
    return structs.replace(request, gpu=match.accelerator.name)


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
    gpus = responses.gpu_count_in_words(checked.estimate.accelerator, checked.count)
    judged = [row.within for row in table if row.within is not None]
    text = f"{engine} {did} {model.id} on {gpus}"
    text += (
        f": {judged.count(True)} of {len(judged)} measured terms are within the estimated interval."
        if judged
        else "."
    )
    if largest and largest.difference:
        more = "more" if largest.difference > 0 else "less"
        text += (
            f" {largest.name} differs most: {gib(largest.measured)} measured,"
            f" {gib(abs(largest.difference))} {more} than estimated."
        )
    return f"{text} Likely: {why[0]}" if why else text
