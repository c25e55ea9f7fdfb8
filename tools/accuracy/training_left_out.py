"""Campaigns of training left out: how wide intervals must be for runs that nobody has seen.

Every campaign of the fit part is judged by coefficients that the others make. Beside the spread
of what is no arithmetic, a share of the whole is allowed, the least with which nine of ten left-out
runs lie within their interval, every campaign weighing the same. The runs of the check part are
not looked at."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

import msgspec

from accuracy.training_truth import COUNTERS, Published
from accuracy.truth import GIB
from fitgauge.catalog.catalog import bundled
from fitgauge.catalog.engines import load_engines
from fitgauge.engine.training.estimate import TrainingStage
from fitgauge.engine.training.profile import TrainingProfile
from fitgauge.services.training_fit.service import TrainingFitService

AIM = 0.9
"""Of left-out runs, those that intervals hold."""
MOST = 15
"""Percent of the whole."""

Fit = Callable[[Sequence[Published], float], Mapping[str, Any]]
"""Makes the coefficients of runs, where a share of the whole is allowed beside their spread."""


def narrowest(fit: Fit, campaigns: Mapping[str, Sequence[Published]]) -> float:
    """Return the least share whose intervals hold AIM of the runs of campaigns left out."""
    shares = [step / 100 for step in range(1, MOST + 1)]
    return next((share for share in shares if held(fit, campaigns, share) >= AIM), shares[-1])


def held(fit: Fit, campaigns: Mapping[str, Sequence[Published]], share: float) -> float:
    """Return the share of left-out runs within their interval, every campaign weighing the
    same."""
    parts = []
    for name, runs in campaigns.items():
        others = [run for other, theirs in campaigns.items() if other != name for run in theirs]
        inside = _within(runs, fit(others, share))
        if inside:
            parts.append(mean(inside))
    return mean(parts)


def service_with(coefficients: Mapping[str, Any]) -> TrainingFitService:
    """Return the service that has these coefficients."""
    return TrainingFitService(msgspec.convert(coefficients, TrainingProfile), load_engines())


def asked_again(service: TrainingFitService, run: Published) -> TrainingStage:
    """Return the fullest stage of a run as the service estimates it."""
    accelerator = bundled().find(run.request.gpu).accelerator
    return service.check(run.request, run.model, accelerator, run.request.gpu_count or 1).fullest


def _within(runs: Sequence[Published], coefficients: Mapping[str, Any]) -> list[bool]:
    """Return whether each run lies within the interval that the coefficients give it, of those
    that name a counter."""
    service, result = service_with(coefficients), []
    for run in runs:
        printed = run.row["measured"]
        name, field = next(
            ((name, field) for name, field in COUNTERS if printed.get(name)), ("", "")
        )
        if name:
            size = getattr(asked_again(service, run), field)
            result.append(size.low <= printed[name] * GIB <= size.high)
    return result
