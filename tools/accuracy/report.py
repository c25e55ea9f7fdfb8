"""docs/ACCURACY.md: the figures, what must be reached, errors by engine, architecture and GPU,
the worst cases, the peers' rules."""

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from accuracy import peers, report_odds, score
from accuracy.report_causes import CAUSES, WHY
from accuracy.score import Error, Interval, Judged
from accuracy.table import table
from accuracy.truth import GIB, Run, model, runs

Figures = dict[str, dict[str, dict[str, float]]]


class Bar(NamedTuple):
    """One figure that must be reached on the check part."""

    words: str
    figure: str
    key: str
    least: float | None
    most: float | None
    unit: str = "%"


BARS = (
    Bar("weights per GPU, median", "weights", "median", None, 0.1),
    Bar("weights per GPU, 90th percentile", "weights", "p90", None, 1.0),
    Bar("KV tokens of a given pool, median", "planner", "median", None, 0.1),
    Bar("KV tokens of a given pool, 95th percentile", "planner", "p95", None, 1.0),
    Bar("KV tokens from the question alone, median", "kv_tokens", "median", None, 3.0),
    Bar("KV tokens from the question alone, 90th percentile", "kv_tokens", "p90", None, 10.0),
    Bar("activation peak, median", "activations", "median", None, 10.0),
    Bar("total need, median", "need", "median", None, 3.0),
    Bar("outcome, balanced over served and failed", "outcome", "balanced", 95.0, None),
    Bar("`fits` with 90 % or more that did not serve", "outcome", "broken_promises", None, 0.0, ""),
)


def must_reach(figures: Figures) -> str:
    """Return every bar with its figure on the check part."""
    rows: list[tuple[object, ...]] = []
    for bar in BARS:
        value = figures[bar.figure]["check"][bar.key]
        held = (bar.least is None or value >= bar.least) and (bar.most is None or value <= bar.most)
        wanted = " and ".join(
            x
            for x in (
                bar.least is not None and f"at least {bar.least:g}",
                bar.most is not None and f"at most {bar.most:g}",
            )
            if x
        )
        rows.append(
            (
                bar.words,
                wanted,
                f"{value:g} {bar.unit}".strip(),
                figures[bar.figure]["check"]["runs"],
                "reached" if held else "**not reached**",
            )
        )
    text = table(("figure, check part", "must be", "is", "runs", ""), rows)
    return (
        text
        + "\n\n"
        + "\n".join(f"- {figure} ({key}): {why}" for (figure, key), why in WHY.items())
    )


def side_by_side() -> str:
    """Return the same runs, here and under the peers' rules."""
    rows: list[tuple[object, ...]] = []
    for words, ours, theirs in (
        ("weights per GPU", score.weights, peers.weight_errors),
        ("KV tokens of a given pool", score.planner, peers.planner_errors),
        ("KV tokens from the question", score.kv_tokens, peers.token_errors),
        ("activation peak", score.activations, peers.activation_errors),
    ):
        for part in ("check", None):
            mine, other = score.spread(ours(part)), score.spread(theirs(part))
            rows.append(
                (
                    words,
                    part or "all",
                    mine["runs"],
                    mine["median"],
                    mine["p90"],
                    other["median"],
                    other["p90"],
                )
            )
    for part in ("check", None):
        need, other = score.covering(score.needs(part)), score.covering(peers.need_errors(part))
        rows.append(
            (
                "total need",
                part or "all",
                need["runs"],
                need["median"],
                need["p90"],
                other["median"],
                other["p90"],
            )
        )
    text = table(
        ("absolute error, %", "part", "runs", "median", "90th", "peers' rules: median", "90th"),
        rows,
    )
    judged: list[tuple[object, ...]] = []
    for part in ("check", None):
        mine, other = score.balanced(score.outcomes(part)), score.balanced(peers.outcomes(part))
        judged.append(
            (
                part or "all",
                mine["runs"],
                mine["served"],
                mine["failed"],
                mine["balanced"],
                other["served"],
                other["failed"],
                other["balanced"],
            )
        )
    head = (
        "outcomes right, %",
        "runs",
        "served",
        "failed",
        "balanced",
        "peers' rules: served",
        "failed",
        "balanced",
    )
    return text + "\n\n" + table(head, judged)


def confusion(judged: list[Judged]) -> str:
    """Return what was said against what happened."""
    rows: list[tuple[object, ...]] = []
    for outcome in ("served", "kv_too_small", "oom"):
        counts = [
            sum(one.run.outcome == outcome and one.verdict == verdict for one in judged)
            for verdict in VERDICTS
        ]
        rows.append((outcome, *counts))
    return table(("happened", *VERDICTS), rows)


VERDICTS = ("fits", "tight", "does_not_fit", "unsupported")


def grouped(name: str, group: Callable[[Run], str]) -> str:
    """Median errors of every figure by a property of runs, all parts."""
    kinds: dict[str, Callable[[str | None], list[Error]]] = {
        "weights": score.weights, "planner": score.planner, "tokens": score.kv_tokens,
        "activations": score.activations,
    }  # fmt: skip
    cells: dict[str, dict[str, list[float]]] = {}
    for kind, errors in kinds.items():
        for one in errors(None):
            cells.setdefault(group(one.run), {}).setdefault(kind, []).append(100 * abs(one.error))
    for need in score.needs(None):
        cells.setdefault(group(need.run), {}).setdefault("need", []).append(
            100 * abs(need.expected / need.measured - 1)
        )
    names = (*kinds, "need")
    rows: list[tuple[object, ...]] = [
        (
            key,
            *(
                f"{median(members[kind]):.2f} ({len(members[kind])})" if kind in members else ""
                for kind in names
            ),
        )
        for key, members in sorted(cells.items())
    ]
    return table((name, *(f"{kind}, %" for kind in names)), rows)


def architecture(run: Run) -> str:
    """Return the model type."""
    resolved = model(run.question["model"])
    return resolved.spec.model_type if resolved else "unknown"


def release(run: Run) -> str:
    """Engine and minor release."""
    if run.version:
        return f"{run.engine} {run.version[0]}.{run.version[1]}"
    return f"{run.engine}, release not printed"


def worst(intervals: list[Interval]) -> str:
    """Return the ten needs that are furthest off, one a campaign."""
    rows: list[tuple[object, ...]] = []
    campaigns: set[str] = set()
    for one in sorted(
        intervals, key=lambda one: (-abs(one.expected / one.measured - 1), one.run.id)
    ):
        if one.run.campaign in campaigns:
            continue
        campaigns.add(one.run.campaign)
        size = [f"{value / GIB:.2f}" for value in (one.measured, one.low, one.expected, one.high)]
        question = one.run.question
        what = f"{question['model']} on {question.get('gpu')}, {release(one.run)}"
        rows.append((one.run.id, what, *size, CAUSES.get(one.run.id, ""), one.run.source))
        if len(rows) == 10:
            break
    return table(("run", "what", "measured GiB", "low", "expected", "high", "why", "source"), rows)


UNTOLD = """\
Without the runs that something decides which their question does not say, served and failed alike
(`score.untold`: of a run's source, not of what came out). Of the failed, `fits` is what was
promised to them; with {failed} failed runs left in the check part, one run is {step} points of the
balanced figure. In one case, f063 and f064, the same question failed for one and served for
another."""


def without_untold() -> str:
    """Outcomes right with and without what the questions do not say, and how many failed runs
    were told that they fit."""
    rows: list[tuple[object, ...]] = []
    for part in ("check", None):
        judged = score.outcomes(part)
        rows += [
            (
                part or "all",
                kind,
                members["runs"],
                members["served"],
                members["failed"],
                members["balanced"],
                members["broken_promises"],
            )
            for kind, members in score.calibration_bins(judged)
        ]
    failed = sum(
        not one.served and score.untold(one.run) is None for one in score.outcomes("check")
    )
    head = (
        "part",
        "runs",
        "number",
        "served right, %",
        "failed right, %",
        "balanced, %",
        "`fits` >= 90 % that did not serve",
    )
    return (
        UNTOLD.format(failed=failed, step=f"{50 / max(1, failed):.1f}") + "\n\n" + table(head, rows)
    )


def misjudged(judged: list[Judged]) -> str:
    """Return every outcome that was judged wrongly."""
    rows: list[tuple[object, ...]] = [
        (one.run.id, one.run.part, one.run.question["model"], one.run.question.get("gpu"),
            release(one.run), one.run.outcome, one.verdict,
         CAUSES.get(one.run.id, one.run.error or ""), one.run.source)
        for one in judged
        if not one.right
    ]  # fmt: skip
    return table(
        ("run", "part", "model", "GPU", "engine", "happened", "said", "why", "source"), rows
    )


def unknown_models() -> str:
    """Return the models of the truth whose config is not at hand: their runs are not scored."""
    names = sorted(
        {
            run.question["model"]
            for run in runs()
            if run.scores and model(run.question["model"]) is None
        }
    )
    return (
        f"{len(names)} models of the truth set have no config in the bundled snapshot or"
        " `models.jsonl`; their runs are not scored: " + ", ".join(names)
    )


PREFACE = """\
Written by `make accuracy` from `tools/accuracy/serving.jsonl`; every figure is recomputed offline,
from a fresh clone, in seconds. {runs} runs that people posted: {fit} to fit, {check} to check,
split by a hash of their source (every log file of a campaign is one). Calibration
(`tools/accuracy/calibrate.py`) sees the fit part alone; the headline is the check part, to which
nothing was fitted. One inference had seen two of its runs (v257, v258): that the second model
runner profiles 8,192 tokens."""

MEANING = """\
*Weights* is what vLLM's line "Model loading took" counts: parameters, registered buffers, what
PyTorch's allocator rounds up, what is repacked and what modules allocate (the terms `weights`,
`fragmentation`, `workspace`, `repacking`). *Total need* is everything but the pool: the budget
(total x gpu_memory_utilization) less the pool the engine logged. Many runs are one campaign's, on
one kind of GPU: `by_source` in `tools/accuracy/headline.json` lets every campaign weigh the
same."""


def document(figures: Figures, odds: report_odds.Odds) -> str:
    """Return the whole page."""
    judged = score.outcomes(None)
    fit = sum(run.part == "fit" for run in runs())
    return "\n\n".join(
        (
            "# Accuracy",
            PREFACE.format(runs=len(runs()), fit=fit, check=len(runs()) - fit),
            "## Must reach",
            must_reach(figures),
            MEANING,
            "## Beside the rules that calculators use",
            "Parameters x bytes x 1.2, every layer full attention, the GPU's marketed size: on the"
            " same runs.",
            side_by_side(),
            "## Outcomes",
            confusion(judged),
            without_untold(),
            "Judged wrongly:",
            misjudged(judged),
            "## By release",
            grouped("release", release),
            "## By architecture",
            grouped("architecture", architecture),
            "## By GPU",
            grouped("GPU", lambda run: str(run.question.get("gpu", "not printed"))),
            "## The ten worst needs, one a campaign",
            worst(score.needs(None)),
            report_odds.section(odds),
            "## What is not scored",
            unknown_models(),
        )
    ) + "\n"  # fmt: skip
