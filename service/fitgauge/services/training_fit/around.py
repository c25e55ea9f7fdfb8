"""What is around a training step: the whole run, its checkpoints, evaluation, merged adapters, and
a run that resumes."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from fitgauge.catalog.instances import Offers
from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.model import Model
from fitgauge.engine.note import Note
from fitgauge.engine.quantity import gib
from fitgauge.services.training_fit.disk import disk_in_words, training_disk
from fitgauge.services.training_fit.evaluation import evaluation, evaluation_notes
from fitgauge.services.training_fit.launchers.command import lacking_run
from fitgauge.services.training_fit.launchers.run_settings import Field
from fitgauge.services.training_fit.merge import adapter_merge, merge_in_words
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.resume import resume
from fitgauge.services.training_fit.run import run_in_words, run_settings, training_run
from fitgauge.services.training_fit.run_schemas import (
    AdapterMerge,
    Evaluation,
    Resume,
    TrainingDisk,
    TrainingRun,
)
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest


class Around(NamedTuple):
    """The parts of an answer that a request adds; UNSET where it does not, or where the step does
    not fit."""

    run: TrainingRun | UnsetType = UNSET
    """Time and cost of the whole run."""
    disk: TrainingDisk | UnsetType = UNSET
    """What its checkpoints take."""
    evaluation: Evaluation | UnsetType = UNSET
    """Evaluation between steps."""
    merge: AdapterMerge | UnsetType = UNSET
    """Adapters merged into their base."""
    resume: Resume | UnsetType = UNSET
    """The run on other GPUs."""
    notes: tuple[Note, ...] = ()
    """Warnings about them."""
    settings: Mapping[Field, float] = {}
    """How long the command trains and when it saves."""


def around(
    request: TrainingRequest,
    trained: TrainingEstimate,
    model: Model,
    accelerator: Accelerator,
    offers: Offers | None,
    estimate: Callable[[TrainingRequest, int], TrainingEstimate],
) -> Around:
    """Return what a request adds to a step that its GPU can run. estimate: of a request on a number
    of GPUs."""
    spec = model.spec
    if trained.verdict == "does_not_fit":
        return Around(
            disk=training_disk(request, trained, spec, UNSET),
            merge=adapter_merge(request, trained, spec, accelerator),
            resume=resume(request, trained, estimate),
        )
    run, notes = training_run(request, trained.workload, trained.count, spec, accelerator, offers)
    evaluated = evaluation(request, trained, spec, accelerator)
    settings = run_settings(request, run)
    return Around(
        run=run,
        disk=training_disk(request, trained, spec, run),
        evaluation=evaluated,
        merge=adapter_merge(request, trained, spec, accelerator),
        resume=resume(request, trained, estimate),
        notes=(
            *notes,
            *lacking_run(model, trained.workload, trained.setup, trained.tool, settings),
            *evaluation_notes(evaluated, accelerator),
        ),
        settings=settings,
    )


def around_in_words(parts: Around | TrainingAnswer) -> str:
    """Return a sentence of each part, each after a space."""
    return "".join(f" {sentence}" for sentence in _sentences(parts))


def _sentences(parts: Around | TrainingAnswer) -> Iterator[str]:
    if parts.run is not UNSET:
        yield run_in_words(parts.run)
    if parts.disk is not UNSET:
        yield disk_in_words(parts.disk)
    if parts.evaluation is not UNSET:
        one = parts.evaluation
        yield (
            f"Evaluation of {one.batch_size} sequences needs {gib(one.required_bytes)}; at most"
            f" {one.max_batch_size} fit."
        )
    if parts.merge is not UNSET:
        yield merge_in_words(parts.merge)
    if parts.resume is not UNSET:
        yield _resume_in_words(parts.resume)


def _resume_in_words(resumed: Resume) -> str:
    gpus = "one GPU" if resumed.gpu_count == 1 else f"{resumed.gpu_count} GPUs"
    needed = "" if resumed.required_bytes is None else f" ({gib(resumed.required_bytes)} each)"
    verdict = {
        "fits": "fits",
        "tight": "is tight",
        "does_not_fit": "does not fit",
        "unsupported": "is impossible",
    }[resumed.verdict]
    checkpoint = {
        "loads": "the checkpoint loads as it is",
        "converts": "the checkpoint must be converted first",
        "loads_without_data": "the checkpoint loads, but not its place in the data",
        "unverified": "how the checkpoint loads was not verified",
    }[resumed.checkpoint]
    if resumed.verdict == "unsupported":
        return f"Resumed on {gpus} it {verdict}: {resumed.why}"
    return f"Resumed on {gpus} it {verdict}{needed}; {checkpoint}."
