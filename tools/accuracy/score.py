"""Errors of the estimate against the truth set, by figure: what `make accuracy` prints and the
tests hold."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Literal, NamedTuple, get_args

from accuracy.truth import GIB, Run, Scored, answer, check, runs
from fitgauge.engine.serving.estimate import StageEstimate
from fitgauge.engine.serving.vllm.kv_cache.layout import KvCacheConfig
from fitgauge.errors import FitgaugeError
from fitgauge.services.fit.query import FitEstimate

LOADED = ("weights", "fragmentation", "workspace", "repacking")
"""What vLLM's "Model loading took" counts."""

PASS = ("activations", "logits", "encoder")
"""What its profiling pass peaks at."""


class Error(NamedTuple):
    """One figure of one run: the estimate over the measurement, less one."""

    run: Run
    error: float


class Judged(NamedTuple):
    """One outcome: whether it was served, what was said, with what chance."""

    run: Run
    served: bool
    verdict: str
    probability: float

    @property
    def right(self) -> bool:
        """`fits` and `tight` say that it will be served."""
        return self.served == (self.verdict in ("fits", "tight"))


class Interval(NamedTuple):
    """The need of one run: the measurement, and the estimate's interval [bytes]."""

    run: Run
    measured: float
    low: float
    expected: float
    high: float

    @property
    def covered(self) -> bool:
        return self.low <= self.measured <= self.high

    @property
    def width(self) -> float:
        """Of the interval, as a share of the expected need."""
        return (self.high - self.low) / self.expected


def part_of(stage: StageEstimate, names: tuple[str, ...]) -> int:
    """Return the bytes of some terms of a stage."""
    return sum(term.bytes for term in stage.fixed if term.name in names)


def estimates(
    part: str | None, scored: Scored, **changes: object
) -> Iterator[tuple[Run, FitEstimate]]:
    """Run of a part that may be scored for something, with their estimates."""
    for run in runs():
        if scored not in run.scores or part not in (None, run.part):
            continue
        try:
            result = check(
                run,
                **{
                    name: value(run) if callable(value) else value
                    for name, value in changes.items()
                },
            )
        except FitgaugeError:
            continue
        if result is not None:
            yield run, result


def weights(part: str | None) -> list[Error]:
    """Return the errors of loaded memory per GPU against "Model loading took"."""
    engines = ("vllm",)
    return [
        Error(run, part_of(each.estimate.fullest, LOADED) / GIB / run.measured["weights_gib"] - 1)
        for run, each in estimates(part, "weights", gpu=lambda run: run.question.get("gpu", "H200"))
        if run.engine in engines
    ]


def planner(part: str | None) -> list[Error]:
    """Return the tokens of a pool whose bytes are given, against "GPU KV cache size".

    What that line counts changed with 0.21 for models of several kinds of layers: those are
    scored only where the release was printed."""
    required = {
        "gpu": lambda run: run.question.get("gpu", "H200"),
        "kv_cache_memory_gib": lambda run: run.measured["kv_gib"],
    }
    scored = (
        (run, each)
        for run, each in estimates(part, "planner", **required)
        if run.version or uniform(each)
    )
    return [Error(run, tokens(each) / run.measured["kv_tokens"] - 1) for run, each in scored]


def uniform(each: FitEstimate) -> bool:
    """Return whether all layers share one group of the cache."""
    cache = each.estimate.fullest.layout
    return isinstance(cache, KvCacheConfig) and len(cache.groups) == 1


def kv_tokens(part: str | None) -> list[Error]:
    """Return the tokens of the cache from nothing but the question; of vLLM's, those that
    `planner` may score."""
    return [
        Error(run, tokens(each) / run.measured["kv_tokens"] - 1)
        for run, each in estimates(part, "kv_tokens")
        if run.engine != "vllm" or run.version or uniform(each)
    ]


def tokens(each: FitEstimate) -> int:
    """Return what the engine would log."""
    estimate = each.estimate
    stages = [stage for stage in estimate.stages if stage.layout.keeps]
    return min((stage.layout.tokens(estimate.pool_bytes) for stage in stages), default=0)


def activations(part: str | None) -> list[Error]:
    """Return the peak of the profiling pass."""
    return [
        Error(run, part_of(each.estimate.fullest, PASS) / GIB / run.measured["activation_gib"] - 1)
        for run, each in estimates(part, "activations")
        if run.measured["activation_gib"] > 0
    ]


def needs(part: str | None) -> list[Interval]:
    """Return all but the pool of the cache: the budget less the pool that was left, against the
    sum of the fixed terms."""
    intervals = []
    for run, each in estimates(part, "need"):
        assert run.total_gpu_gib is not None
        budget = run.total_gpu_gib * run.question["gpu_memory_utilization"]
        intervals.append(need_interval(run, each, (budget - run.measured["kv_gib"]) * GIB))
    return intervals


def need_interval(run: Run, each: FitEstimate, measured: float) -> Interval:
    """Return what is measured of a need against what the fullest stage requires but its cache."""
    stage = each.estimate.fullest
    cache = sum(term.bytes for term in stage.cache)
    need = stage.required
    return Interval(run, measured, need.low - cache, need.expected - cache, need.high - cache)


def outcomes(part: str | None) -> list[Judged]:
    """Verdicts against what happened."""
    judged = []
    for run in runs():
        if "outcome" not in run.scores or part not in (None, run.part):
            continue
        try:
            each = answer(run)
        except FitgaugeError:
            each = None
        if each is not None:
            judged.append(
                Judged(run, run.outcome == "served", each.verdict, each.fit_probability or 0.0)
            )
    return judged


Untold = Literal[
    "release not printed",
    "memory held by others at start",
    "a setting that the question has no word for",
]


def untold(run: Run) -> Untold | None:
    """Return what decides a run that its question does not say, by what its source says of it,
    whatever came out of it."""
    if run.version is None:
        return "release not printed"
    free, note = run.measured.get("free_at_start_gib"), run.note or ""
    share_gib = (run.total_gpu_gib or 0) * run.question.get("gpu_memory_utilization", 0.9)
    if (free is not None and free < share_gib) or "already used" in note:
        return "memory held by others at start"
    return "a setting that the question has no word for" if "VLLM_USE_V1" in note else None


def quantile(values: list[float], share: float) -> float:
    """Return the value at a share of the ordered values; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def spread(errors: list[Error]) -> dict[str, float]:
    """Return number, median and quantiles of the absolute error [%]; `by_source` is the median
    of every campaign's own median."""
    sizes = [100 * abs(one.error) for one in errors]
    campaigns: dict[str, list[float]] = {}
    for one in errors:
        campaigns.setdefault(one.run.campaign, []).append(100 * abs(one.error))
    return {
        "runs": len(sizes),
        "median": round(median(sizes), 3) if sizes else 0.0,
        "p90": round(quantile(sizes, 0.9), 3),
        "p95": round(quantile(sizes, 0.95), 3),
        "by_source": round(median(map(median, campaigns.values())), 3) if campaigns else 0.0,
    }


def balanced(judged: list[Judged]) -> dict[str, float]:
    """Shares of right verdicts [%], of served and failed runs and their mean; and how many were
    promised with 90 % that failed."""

    def share(served: bool) -> float:
        chosen = [one.right for one in judged if one.served == served]
        return 100 * sum(chosen) / len(chosen) if chosen else 100.0

    return {
        "runs": len(judged),
        "served": round(share(True), 1),
        "failed": round(share(False), 1),
        "balanced": round((share(True) + share(False)) / 2, 1),
        "broken_promises": sum(
            not one.served and one.verdict == "fits" and one.probability >= 0.9 for one in judged
        ),
    }


def calibration_bins(judged: list[Judged]) -> list[tuple[str, dict[str, float]]]:
    """Return the balanced figures of all, without the runs of each kind of `untold`, and without
    any of them."""
    rows = [("all", balanced(judged))]
    rows += [
        (f"without: {kind}", balanced([one for one in judged if untold(one.run) != kind]))
        for kind in get_args(Untold)
    ]
    return [
        *rows,
        ("without any of these", balanced([one for one in judged if untold(one.run) is None])),
    ]


def covering(intervals: list[Interval]) -> dict[str, float]:
    """Share of needs within their interval [%], the median width of it and the median error [%]."""
    errors = [100 * abs(one.expected / one.measured - 1) for one in intervals]
    return {
        "runs": len(intervals),
        "coverage": round(100 * sum(one.covered for one in intervals) / max(1, len(intervals)), 1),
        "width": round(100 * median(one.width for one in intervals), 2) if intervals else 0.0,
        "median": round(median(errors), 3) if errors else 0.0,
        "p90": round(quantile(errors, 0.9), 3),
    }


FIGURES: dict[str, Callable[[str | None], dict[str, float]]] = {
    "weights": lambda part: spread(weights(part)),
    "planner": lambda part: spread(planner(part)),
    "kv_tokens": lambda part: spread(kv_tokens(part)),
    "activations": lambda part: spread(activations(part)),
    "need": lambda part: covering(needs(part)),
    "outcome": lambda part: balanced(outcomes(part)),
}
"""Every headline figure, by part of the truth."""


def headline() -> dict[str, dict[str, dict[str, float]]]:
    """Return all figures of the check part and of everything."""
    return {
        name: {"check": figure("check"), "all": figure(None)} for name, figure in FIGURES.items()
    }
