"""The estimate of a launch that ran out of memory, and how to start each change that helps."""

from collections.abc import Iterator

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.services.common.responses import parameters
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.common.unsupported import IMPOSSIBLE, refused_field
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.explain_log.diagnosis import Launched, others_bytes
from fitgauge.services.explain_log.parsed_log import ParsedLog
from fitgauge.services.explain_log.schemas import MemoryPart
from fitgauge.services.explain_log.training_command import method_of
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService
from fitgauge.services.training_fit.assumptions import METHOD_TITLES
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService


def launched_server(
    serving: FitService,
    checked: FitEstimate,
    request: FitRequest,
    model: Model,
    match: GpuMatch,
    log: StartLog,
) -> Launched:
    """Return the estimate of a server, with what others hold of the GPU."""
    others = others_bytes(Measured(log.readings))
    if others and request.other_memory_gib is None:
        request = structs.replace(request, other_memory_gib=round(others / GIB, 2))
        checked = serving.check(request, model, match, as_launched=True)
    answer = serving.answer(request, model, match)
    return Launched(
        terms=[_part(term.name, term.bytes) for term in checked.estimate.fullest.terms],
        needs=checked.required,
        may_use=checked.estimate.budget.expected,
        verdict=answer.verdict,
        suggestions=answer.suggestions,
        commands=[_command(suggestion.launch) for suggestion in answer.suggestions],
    )


def launched_training(
    training: TrainingFitService,
    reading: ParsedLog,
    request: TrainingRequest,
    model: Model,
    match: GpuMatch,
    notes: list[Note],
) -> tuple[TrainingAnswer, Launched] | None:
    """Return the answer to a training run, and its estimate; None where there is none. What it
    does not support of the run is left out, with a note."""
    held = Measured(reading.log.readings).value("allocated")
    run = None
    for candidate in _as_the_log_tells(request, reading, model):
        run = _answer(training, candidate, model, match, notes)
        if run is None or not held or _weights(run[1]) <= held:
            break
    if run is None:
        return None
    request, trained = run
    terms = [_part(term.name, term.bytes) for term in trained.terms or ()]
    commands = [
        _command(
            suggestion.launch
            or training.answer(structs.replace(request, **suggestion.request), model, match).launch
        )
        for suggestion in trained.suggestions
    ]
    return trained, Launched(
        terms=terms,
        needs=sum(term.bytes for term in terms),
        may_use=match.accelerator.usable.expected,
        verdict=trained.verdict,
        suggestions=trained.suggestions,
        commands=commands,
        taken_as=_taken_as(request, trained),
    )


def _as_the_log_tells(
    request: TrainingRequest, reading: ParsedLog, model: Model
) -> Iterator[TrainingRequest]:
    """Yield the run; where it names no method, with the one that the log tells, and if that is not
    of all weights, with smaller bases, since a log of a step shows that the base fits."""
    if request.method is not None:
        yield request
        return
    method = method_of(reading.text, parameters(model), reading.log)
    yield (request := structs.replace(request, method=method))
    if method != "full":
        yield structs.replace(request, base_precision="half")
        yield structs.replace(request, method="qlora")


def _answer(
    training: TrainingFitService,
    request: TrainingRequest,
    model: Model,
    match: GpuMatch,
    notes: list[Note],
) -> tuple[TrainingRequest, TrainingAnswer] | None:
    """Return a run without what is not supported of it, which is noted, and its answer; None where
    there is none."""
    while True:
        try:
            return request, training.answer(request, model, match)
        except IMPOSSIBLE as error:
            field = refused_field(error)
            notes.append(Note("flag-ignored", field, f"{error} The estimate ignores it."))
            if field in ("model", "gpu") or getattr(request, field or "", None) is None:
                return None
            request = structs.replace(request, **{str(field): None})


def _weights(trained: TrainingAnswer) -> int:
    return sum(term.bytes for term in trained.terms or () if term.name == "weights")


def _taken_as(request: TrainingRequest, trained: TrainingAnswer) -> str:
    """Return the training that is estimated, as the subject of a sentence, with what all weights
    would take where nothing names a method."""
    load = trained.understood_as
    words = (
        f"{METHOD_TITLES[str(load['method'])]} with {load['micro_batch_size']} x"
        f" {load['sequence_length']:,} tokens"
    )
    words = words[0].upper() + words[1:]
    if request.method is not None:
        return words
    full = trained.others.get("full")
    rest = f"; full fine-tuning: {gib(full.required_bytes)}" if full else ""
    return f"{words} (no method is named{rest})"


def _command(launch: Launch | None) -> str | None:
    return launch.command if launch else None


def _part(name: str, size: int) -> MemoryPart:
    return MemoryPart(name=name, bytes=size, basis="estimate")
