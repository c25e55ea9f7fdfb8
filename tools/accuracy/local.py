"""`make accuracy TRUTH=truth.jsonl`: runs of one's own, as `fitgauge explain-log --append` wrote
them, against this checkout's estimates.

They stay where they are: no published figure and no coefficient rests on them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from accuracy.score import LOADED, PASS, part_of, tokens
from accuracy.truth import GIB, Run, answer, check
from fitgauge.errors import FitgaugeError

_ENDED = {
    None: "ended unseen",
    "served": "served",
    "oom": "ran out of memory",
    "kv_too_small": "had too little cache",
}


def local_runs(path: Path) -> tuple[Run, ...]:
    """Return every run of a local truth file."""
    return tuple(
        msgspec.json.decode(line, type=Run)
        for line in path.read_bytes().splitlines()
        if line.strip()
    )


def errors(run: Run) -> Iterator[tuple[str, float]]:
    """Yield what of a run may be scored, and estimate / measurement - 1. Nothing where the bundled
    snapshot does not know the model.

    Raises FitgaugeError where the question is refused.
    """
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
    pool = (
        check(run, kv_cache_memory_gib=measured["kv_gib"])
        if "planner" in run.scores and measured["kv_tokens"]
        else None
    )
    if pool is not None:
        yield "planner", tokens(pool) / measured["kv_tokens"] - 1


def report(runs: tuple[Run, ...]) -> Iterator[str]:
    """Yield a line a run: its errors, and the verdict beside what happened."""
    for run in runs:
        name = (
            f"{run.id}  {run.engine} {run.question.get('engine_version', '')} "
            f" {run.question.get('model', 'unknown model')}"
        )
        if "model" not in run.question or "gpu" not in run.question:
            yield f"{name}: the model or the GPU is not known"
            continue
        try:
            errors_in_words = [f"{scored} {error:+.2%}" for scored, error in errors(run)]
            result = answer(run)
        except FitgaugeError as error:
            yield f"{name}: {error.detail}"
            continue
        if result is None:
            yield f"{name}: not in the bundled snapshot"
            continue
        yield (
            f"{name}: "
            + ", ".join(
                [
                    *errors_in_words,
                    f"{result.verdict} where it {_ENDED.get(run.outcome, run.outcome)}",
                ]
            )
        )


def main(path: str) -> None:
    """Print the report of a file."""
    for line in report(local_runs(Path(path))):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1])
