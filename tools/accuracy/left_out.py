"""Campaigns left out: every posted run is asked of a service that is calibrated on other campaigns
alone, so that intervals and probabilities are those of a run that nobody has seen.

Campaigns are dealt to parts by a hash (`Run.fold`); for every part the coefficients and the table
of what was measured are made of the rest. Each campaign weighs the same."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from math import log
from statistics import mean, median
from typing import NamedTuple

import msgspec

from accuracy import calibrate
from accuracy.score import Interval, need_interval
from accuracy.truth import FOLDS, GIB, Run, check, runs
from fitgauge.catalog.engines import Engines
from fitgauge.engine.quantity import total
from fitgauge.engine.serving.doubt import gpu_class
from fitgauge.engine.serving.fit import SURE, fit_probability, starting_probability
from fitgauge.engine.serving.profile import EngineProfile
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.errors import FitgaugeError
from fitgauge.services.fit.estimate import FitEstimate
from fitgauge.services.fit.service import FitService

ROUNDING = 0.02 * GIB
"""Logs print sizes in hundredths of a GiB, and a need is the difference of two."""


class Judgement(NamedTuple):
    """One run as an unseen one: the need that its pool shows, and whether it held what was asked
    with the probability that was given; None where the run does not tell."""

    run: Run
    gpu: str
    need: Interval | None
    held: bool | None
    probability: float

    @property
    def covered(self) -> bool | None:
        """Whether the need lies within the interval."""
        if self.need is None:
            return None
        return self.need.low - ROUNDING <= self.need.measured <= self.need.high + ROUNDING

    @property
    def brier(self) -> float:
        """Squared error of the probability."""
        return (self.probability - bool(self.held)) ** 2

    @property
    def surprise(self) -> float:
        """Log loss of the probability, bounded as log(0) is not."""
        chance = self.probability if self.held else 1 - self.probability
        return -log(max(chance, 1e-4))


@cache
def judgements(doubted: bool = True) -> tuple[Judgement, ...]:
    """Return every run that may be scored for its need, its tokens or its outcome; by the terms
    alone where it is not to be `doubted`."""
    rows = []
    for fold in range(FOLDS):
        others = [run for run in runs() if run.fold != fold]
        profiles = msgspec.convert(calibrate.profiles(others), tuple[EngineProfile, ...])
        service = FitService(Engines(profiles))
        for run in runs():
            if run.fold != fold or not {"need", "kv_tokens", "outcome"} & set(run.scores):
                continue
            try:
                estimate = check(run, service)
            except FitgaugeError:
                continue
            if estimate is not None and not estimate.refused:
                rows.append(_judgement(run, estimate if doubted else _bare(estimate)))
    return tuple(rows)


def _judgement(run: Run, estimate: FitEstimate) -> Judgement:
    return Judgement(
        run,
        gpu_class(estimate.estimate.accelerator),
        _need(run, estimate),
        _held(run) if "outcome" in run.scores else None,
        estimate.probability,
    )


def _bare(result: FitEstimate) -> FitEstimate:
    """Return an estimate with the intervals that its terms have, and the probability of those."""
    stages = tuple(
        msgspec.structs.replace(stage, required=total((*stage.fixed, *stage.cache)))
        for stage in result.estimate.stages
    )
    estimate = msgspec.structs.replace(result.estimate, stages=stages)
    chance = fit_probability(estimate.fullest.required, estimate.budget)
    if ENGINES[result.workload.engine].budget_is_device_share:
        usable = estimate.accelerator.usable
        chance = starting_probability(
            estimate.fullest.required, estimate.budget, result.outside, usable
        )
    return msgspec.structs.replace(result, estimate=estimate, probability=chance)


def _need(run: Run, estimate: FitEstimate) -> Interval | None:
    """Return all but the pool: the engine's share, as printed or else as it follows from the GPU,
    less the pool that was left."""
    pool, share = run.measured.get("kv_gib"), run.question.get("gpu_memory_utilization")
    if run.engine != "vllm" or run.outcome != "served" or not pool or pool < 0:
        return None
    if not {"need", "kv_tokens"} & set(run.scores):
        return None
    printed = run.total_gpu_gib * share * GIB if run.total_gpu_gib and share else None
    budget = printed or estimate.estimate.budget.expected
    return need_interval(run, estimate, budget - pool * GIB)


def _held(run: Run) -> bool:
    """Return whether it served the context that was asked: SGLang starts with less."""
    tokens, context = run.measured.get("kv_tokens"), run.question.get("context_length")
    return run.outcome == "served" and not (tokens and context and tokens < context)


def by_campaign(chosen: Iterable[Judgement], figure: Callable[[Judgement], float]) -> float:
    """Return the mean over campaigns of their own mean."""
    values = defaultdict(list)
    for one in chosen:
        values[one.run.campaign].append(figure(one))
    return mean(mean(own) for own in values.values()) if values else 0.0


def figures(chosen: Iterable[Judgement]) -> dict[str, float]:
    """Return coverage [%] and width [%] of intervals, Brier score and log loss of probabilities,
    over runs and over campaigns."""
    needs = [one for one in chosen if one.need is not None]
    judged = [one for one in chosen if one.held is not None]
    sure = [one for one in judged if one.probability >= SURE]
    return {
        "runs": len(needs),
        "campaigns": len({one.run.campaign for one in needs}),
        "coverage": round(100 * mean(bool(one.covered) for one in needs), 1),
        "coverage_by_campaign": round(100 * by_campaign(needs, lambda one: bool(one.covered)), 1),
        "width": round(100 * median(one.need.width for one in needs if one.need), 2),
        "judged": len(judged),
        "judged_campaigns": len({one.run.campaign for one in judged}),
        "brier": round(by_campaign(judged, lambda one: one.brier), 4),
        "log_loss": round(by_campaign(judged, lambda one: one.surprise), 4),
        "sure": len(sure),
        "sure_held": sum(bool(one.held) for one in sure),
        "highest": round(max(one.probability for one in judged), 2),
    }
