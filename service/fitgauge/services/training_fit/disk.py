"""Disk that the checkpoints of a run take."""

from math import ceil

from msgspec import UNSET, UnsetType

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.training.states.checkpoint_files import Writer, checkpoint_files
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.run import asks_for_run
from fitgauge.services.training_fit.run_schemas import (
    CheckpointFileAnswer,
    TrainingDisk,
    TrainingRun,
)
from fitgauge.services.training_fit.schemas import TrainingRequest

_SAVE_STEPS: dict[Writer, int] = {"trainer": 500, "litgpt": 1000}
"""transformers training_args.py, save_steps; litgpt/args.py, save_interval."""


def training_disk(
    request: TrainingRequest,
    trained: TrainingEstimate,
    spec: ModelSpec,
    run: TrainingRun | UnsetType,
) -> TrainingDisk | UnsetType:
    """Return what the checkpoints of a run take, where the request is about a run or about
    checkpoints."""
    if not (asks_for_run(request) or request.save_total_limit or request.save_steps):
        return UNSET
    tool = trained.tool
    writer: Writer = "trainer" if tool is None else tool.writer
    files = checkpoint_files(spec, trained.workload, writer)
    size = sum(file.bytes for file in files)
    written = None if run is UNSET else _written(request, run, writer)
    limit = request.save_total_limit
    at_once = written
    if limit is not None:
        at_once = limit + 1 if written is None else min(limit + 1, written)
    return TrainingDisk(
        checkpoint_bytes=size,
        files=[
            CheckpointFileAnswer(
                name=file.name, bytes=file.bytes, formula=file.formula, source=file.source
            )
            for file in files
        ],
        written=written,
        total_bytes=None if at_once is None else at_once * size,
    )


def disk_in_words(disk: TrainingDisk) -> str:
    """Return "A checkpoint takes 1.23 GiB on disk, all of them 2.46 GiB."."""
    total = "" if disk.total_bytes is None else f", all of them {_in_words(disk.total_bytes)}"
    return f"A checkpoint takes {gib(disk.checkpoint_bytes)} on disk{total}."


def _in_words(size: int) -> str:
    """Return a size [bytes] of a whole run, which may be many times 1,024 GiB."""
    tebibytes = size / GIB / 1024
    return gib(size) if tebibytes < 10 else f"{tebibytes:,.1f} TiB"


def _written(request: TrainingRequest, run: TrainingRun, writer: Writer) -> int | None:
    """Return the checkpoints of a run, the last step's among them; None where the tool's own
    interval is not known."""
    if request.save_steps is None and writer == "torchtune":
        return max(1, ceil(request.epochs or 1))
    steps = request.save_steps or _SAVE_STEPS.get(writer)
    return None if steps is None else ceil(run.steps / steps)
