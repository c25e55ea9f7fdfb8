"""`make accuracy TRUTH=truth.jsonl`: runs of one's own, as `fitgauge measure`, `explain-log
--append` and `truth export` write them, against this checkout's estimates.

They stay where they are: no published figure and no coefficient rests on them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from accuracy.score import LOADED, PASS, part_of, tokens
from accuracy.truth import GIB, SERVING, Run, check, model
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.catalog.training import load_training
from fitgauge.errors import FitgaugeError
from fitgauge.services.common.model_readings import size_model
from fitgauge.services.training_fit.schemas import TrainingAnswer, TrainingRequest
from fitgauge.services.training_fit.service import TrainingFitService

_ENDED = {
    None: "ended unseen",
    "served": "served",
    "oom": "ran out of memory",
    "kv_too_small": "had too little cache",
    "failed": "did not run",
}


class LocalRun(Run, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of one's own."""

    operation: str = "check_fit"
    """Of the question, check_fit or check_training_fit."""
    answered: dict[str, Any] = msgspec.field(default_factory=dict)
    """What was answered before it ran; an outcome that people said has it."""


def local_runs(path: Path) -> tuple[LocalRun, ...]:
    """Return every run of a local truth file."""
    return tuple(
        msgspec.json.decode(line, type=LocalRun)
        for line in path.read_bytes().splitlines()
        if line.strip()
    )


def errors(run: Run) -> Iterator[tuple[str, float]]:
    """Yield what of a run may be scored, and estimate / measurement - 1. Nothing where the bundled
    snapshot does not know the model.

    Raises FitgaugeError where the question is refused.
    """
    if not set(run.scores) - {"outcome"}:
        return
    result = check(run)
    if result is None:
        return
    stage, measured = result.estimate.fullest, run.measured
    if "weights" in run.scores:
        yield (
            "weights",
            part_of(stage, LOADED if run.engine == "vllm" else ("weights",))
            / GIB
            / measured["weights_gib"]
            - 1,
        )
    if "activations" in run.scores and measured["activation_gib"] > 0:
        yield "activations", part_of(stage, PASS) / GIB / measured["activation_gib"] - 1
    if "kv_tokens" in run.scores and measured["kv_tokens"]:
        yield "kv_tokens", tokens(result) / measured["kv_tokens"] - 1
    pool = None
    if "planner" in run.scores and measured["kv_tokens"]:
        pool = check(run, kv_cache_memory_gib=measured["kv_gib"])
    if pool is not None:
        yield "planner", tokens(pool) / measured["kv_tokens"] - 1


def training_errors(run: LocalRun) -> Iterator[tuple[str, float]]:
    """Yield estimate / measurement - 1 of every phase of a training step that was measured.

    Raises as `verdict`."""
    answer = training_answer(run) if "training" in run.scores else None
    for phase in answer.phases if answer else ():
        measured = run.measured.get(f"{phase.name}_gib")
        if measured:
            yield phase.name, phase.bytes / GIB / measured - 1


def training_answer(run: LocalRun) -> TrainingAnswer | None:
    """Return what is answered to a question of training; None where its model is unknown here.

    Raises as `verdict`."""
    name = run.question["model"]
    resolved = model(name) or size_model(name)
    if resolved is None:
        return None
    request = msgspec.convert(run.question | {"detail": "full"}, TrainingRequest)
    service = TrainingFitService(load_training(), load_engines())
    return service.answer(request, resolved, bundled().find(run.question["gpu"]))


def verdict(run: LocalRun) -> str | None:
    """Return the verdict on a run's question, of training too; None where its model is unknown
    here. Raises FitgaugeError where the question is refused, msgspec.ValidationError where it is
    none."""
    if run.operation == "check_training_fit":
        answer = training_answer(run)
        return answer.verdict if answer else None
    name = run.question["model"]
    resolved = model(name) or size_model(name)
    if resolved is None:
        return None
    gpu = bundled().find(run.question["gpu"])
    return SERVING.answer(run.request, resolved, gpu).verdict


def errors_of(run: LocalRun) -> Iterator[tuple[str, float]]:
    """Yield what may be scored of a run of serving or of training, as `errors`."""
    return training_errors(run) if run.operation == "check_training_fit" else errors(run)


def ran_by(run: LocalRun) -> str:
    """Return what ran: the engine, or the framework of a training."""
    if run.operation == "check_training_fit":
        return str(run.question.get("framework", "training"))
    return run.engine


def report(runs: tuple[LocalRun, ...]) -> Iterator[str]:
    """Yield a line a run: its errors, and the verdict beside what happened."""
    for run in runs:
        name = (
            f"{run.id}  {ran_by(run)} {run.question.get('engine_version', '')} "
            f" {run.question.get('model', 'unknown model')}"
        )
        if "model" not in run.question or "gpu" not in run.question:
            yield f"{name}: the model or the GPU is not known"
            continue
        try:
            errors_in_words = [f"{scored} {error:+.2%}" for scored, error in errors_of(run)]
            judged = verdict(run)
        except FitgaugeError as error:
            yield f"{name}: {error.detail}"
            continue
        except msgspec.ValidationError as error:
            yield f"{name}: {error}"
            continue
        if judged is None:
            yield f"{name}: not in the bundled snapshot"
            continue
        yield (
            f"{name}: "
            + ", ".join(
                [*errors_in_words, f"{judged} where it {_ENDED.get(run.outcome, run.outcome)}"]
            )
        )


def main(path: str) -> None:
    """Print the report of a file."""
    for line in report(local_runs(Path(path))):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1])
