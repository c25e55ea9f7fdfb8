"""The estimate of a launch that ran out of memory, and how to start each change that helps."""

from msgspec import structs

from fitgauge.catalog.gpu_match import GpuMatch
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import GIB
from fitgauge.engine.serving.start_log.measurements import StartLog
from fitgauge.services.common.schemas import FitRequest, Launch
from fitgauge.services.common.unsupported import IMPOSSIBLE, refused_field
from fitgauge.services.explain_log.comparison import Measured
from fitgauge.services.explain_log.diagnosis import Launched, others_bytes
from fitgauge.services.explain_log.schemas import MemoryPart
from fitgauge.services.fit.query import FitEstimate
from fitgauge.services.fit.service import FitService
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
    request: TrainingRequest,
    model: Model,
    match: GpuMatch,
    notes: list[Note],
) -> tuple[TrainingAnswer, Launched] | None:
    """Return the answer to a training run, and its estimate; None where there is none. What it
    does not support of the run is left out, with a note."""
    while True:
        try:
            trained = training.answer(request, model, match)
        except IMPOSSIBLE as error:
            field = refused_field(error)
            notes.append(Note("flag-ignored", field, f"{error} The estimate ignores it."))
            if field in ("model", "gpu") or getattr(request, field or "", None) is None:
                return None
            request = structs.replace(request, **{str(field): None})
        else:
            break
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
    )


def _command(launch: Launch | None) -> str | None:
    return launch.command if launch else None


def _part(name: str, size: int) -> MemoryPart:
    return MemoryPart(name=name, bytes=size, basis="estimate")
