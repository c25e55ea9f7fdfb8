"""Errors of training estimates against their truth, by figure: what `make accuracy` prints and
the tests hold."""

from collections.abc import Iterable
from functools import cache
from statistics import median
from typing import NamedTuple

from accuracy import training_parallel as parallel
from accuracy import training_truth as truth
from accuracy.score import quantile
from accuracy.training_calibrate import part
from accuracy.training_truth import COUNTERS, Published, Step
from accuracy.truth import GIB


class Counted(NamedTuple):
    """One published run against the counter its source names [bytes]."""

    run: Published
    counter: str
    measured: float
    low: float
    expected: float
    high: float

    @property
    def error(self) -> float:
        return self.expected / self.measured - 1

    @property
    def covered(self) -> bool:
        return self.low <= self.measured <= self.high


class Outcome(NamedTuple):
    """A run that ended without memory, or with enough of it; and what was said."""

    run: Published
    ran: bool
    verdict: str

    @property
    def right(self) -> bool:
        """`tight` is no promise: it is right for either."""
        return self.verdict != ("does_not_fit" if self.ran else "fits")


def _counted(runs: Iterable[Published]) -> tuple[Counted, ...]:
    """Return every run that ended and names a counter."""
    result = []
    for run in runs:
        printed = run.row["measured"]
        name, field = next(
            ((name, field) for name, field in COUNTERS if printed.get(name)), ("", "")
        )
        if run.row["outcome"] != "oom" and name:
            size = getattr(run.trained.fullest, field)
            result.append(
                Counted(run, name, printed[name] * GIB, size.low, size.expected, size.high)
            )
    return tuple(result)


@cache
def counted(which: str | None = None) -> tuple[Counted, ...]:
    """Return the published runs of a part, None for both, that ended and name a counter."""
    return _counted(run for run in truth.published().runs if which in (None, part(run.row)))


@cache
def literature() -> tuple[Counted, ...]:
    """Return the same of the runs to which nothing is fitted."""
    return _counted(truth.literature().runs)


def outcomes(runs: Iterable[Published], *, ran: bool) -> tuple[Outcome, ...]:
    """Run that ran out of memory, or that ran."""
    return tuple(
        Outcome(run, ran, run.trained.verdict)
        for run in runs
        if (run.row["outcome"] != "oom") == ran
    )


def spread(errors: Iterable[float], digits: int = 3) -> dict[str, float]:
    """Absolute errors [%]: how many, their median, 90th and 95th percentile, and the worst."""
    sizes = [100 * abs(error) for error in errors]
    if not sizes:
        return {"runs": 0}
    return {
        "runs": len(sizes),
        "median": round(median(sizes), digits),
        "p90": round(quantile(sizes, 0.9), digits),
        "p95": round(quantile(sizes, 0.95), digits),
        "worst": round(max(sizes), digits),
    }


def measured(step: Step) -> int:
    """Return bytes at the highest moment of a measured step."""
    return int(step.row["bytes"].get("steady_peak") or step.row["bytes"]["total"])


def steps(chosen: Iterable[Step]) -> dict[str, float]:
    """Return the spread of measured steps."""
    return spread(step.error for step in chosen)


def runs(judged: Iterable[Counted]) -> dict[str, float]:
    """Return the spread of published runs, and the share within their 90 % interval [%]."""
    chosen = list(judged)
    inside = 100 * sum(one.covered for one in chosen) / max(1, len(chosen))
    return spread((one.error for one in chosen), 1) | {"coverage": round(inside, 1)}


def verdicts(judged: Iterable[Outcome]) -> dict[str, float]:
    """Share of right verdicts [%]."""
    chosen = list(judged)
    return {
        "runs": len(chosen),
        "right": round(100 * sum(one.right for one in chosen) / max(1, len(chosen)), 1),
    }


def headline() -> dict[str, dict[str, dict[str, float]]]:
    """Return every figure of training, in the shape of the serving half's: name -> part ->
    figure."""
    own, first, later = truth.own(), truth.published().runs, truth.literature().runs
    return {
        "training_steps": {
            "given": steps(truth.provided()),
            "own": steps(step for step in own if step.verified),
        },
        "training_untaught": {
            "never taught": steps(step for step in own if not step.verified),
            "as if never taught": steps(truth.untaught()),
        },
        "training_ranks": {
            "fsdp": steps(truth.ranks()),
            "tensor": steps(parallel.tensor_ranks(sharded=False)),
            "tensor and fsdp": steps(parallel.tensor_ranks(sharded=True)),
            "context": spread(rank.error for rank in parallel.context_ranks()),
            "zero": steps(parallel.zero_ranks()),
        },
        "training_runs": {"check": runs(counted("check")), "all": runs(counted())},
        "training_outcomes": {
            "out of memory": verdicts(outcomes(first, ran=False)),
            "ran": verdicts(outcomes(first, ran=True)),
        },
        "training_found": {"check": runs(literature())},
        "training_found_outcomes": {
            "out of memory": verdicts(outcomes(later, ran=False)),
            "ran": verdicts(outcomes(later, ran=True)),
        },
    }
