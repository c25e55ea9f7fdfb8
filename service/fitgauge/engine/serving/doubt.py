"""How far an estimate is to be trusted, by how near the runs are that measured its kind.

Terms say how far each of them was seen to vary. Campaigns that no coefficient was fitted to stray
further: what a build, a driver or a launch does that no term knows. `Doubt` is that rest, as left
out campaigns show it (docs/ACCURACY.md, "Campaigns left out")."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.profile import EngineProfile


class Doubt(NamedTuple):
    """What no term knows of."""

    share: float
    """Half of a 90 % interval, as a share of all but the cache."""

    ceiling: float
    """The highest probability. The lowest is half of what it leaves: what was judged too large
    served less often than what was promised failed."""


SAME_RELEASE = Doubt(share=0.04, ceiling=0.97)
"""This engine was measured on this class of GPU, in the releases of the same profile."""

OTHER_RELEASE = Doubt(share=0.06, ceiling=0.95)
"""It was, in other releases."""

NEVER = Doubt(share=0.12, ceiling=0.93)
"""It was not measured on this class of GPU at all."""

_PRIOR_RUNS = 8
"""Runs of one's own that weigh as much as `SAME_RELEASE`: of runs that were each judged by the
others of their campaign 92 % are covered so (86 by the published campaigns alone), in intervals of
6.0 % of the need (9.2)."""

_NINE_OF_TEN = 2.44
"""Half of a 90 % interval over the median distance, of a normal distribution."""

ANY_NVIDIA = "NVIDIA"
"""The class of a GPU of which nothing is known but its size."""

_ADA = (8, 9)


def gpu_class(accelerator: Accelerator) -> str:
    """Return the GPUs that an engine treats alike: a generation of one maker, and a maker's unified
    memory apart."""
    if accelerator.vendor == "custom":
        return ANY_NVIDIA
    if accelerator.unified_memory:
        return f"{accelerator.vendor} unified memory"
    if accelerator.compute_capability is not None:
        major = accelerator.compute_capability[0]
        return f"NVIDIA {'8.9' if accelerator.compute_capability == _ADA else major}"
    if accelerator.gfx is not None:
        return f"AMD {'CDNA' if accelerator.gfx.startswith('gfx9') else 'RDNA'}"
    return accelerator.vendor


def doubt(profile: EngineProfile, accelerator: Accelerator) -> Doubt:
    """Return the doubt of an engine's profile on an accelerator: by runs of one's own, else by its
    campaigns on GPUs of this class."""
    own = profile.own_shares.get(accelerator.id)
    if own is not None:
        return Doubt(own, SAME_RELEASE.ceiling)
    name = gpu_class(accelerator)
    if name in profile.measured:
        return SAME_RELEASE
    return OTHER_RELEASE if name in profile.measured_ever else NEVER


def least_doubt(profile: EngineProfile) -> float:
    """Return the least `Doubt.share` of an engine's profile on any accelerator."""
    return min((SAME_RELEASE.share, *profile.own_shares.values()))


def own_share(misses: Sequence[float]) -> float:
    """Return `Doubt.share` on a GPU where one's own runs missed the estimate by these shares of
    it. The median: a run that shared its GPU tells nothing of others."""
    spread = _NINE_OF_TEN * sorted(map(abs, misses))[len(misses) // 2]
    return (_PRIOR_RUNS * SAME_RELEASE.share + len(misses) * spread) / (_PRIOR_RUNS + len(misses))


def doubted(required: Bytes, fixed_bytes: int, by: Doubt) -> Bytes:
    """Return `required` [bytes] with the spread that `by` adds to both sides in quadrature.

    fixed_bytes: what of it is no cache, whose size follows from the question."""
    more = by.share * fixed_bytes
    below, above = required.expected - required.low, required.high - required.expected
    return Bytes(
        low=max(0, int(required.expected - (below * below + more * more) ** 0.5)),
        expected=required.expected,
        high=int(required.expected + (above * above + more * more) ** 0.5),
    )


def with_doubt(estimate: Estimate, profile: EngineProfile) -> Estimate:
    """Return an estimate with stages `doubted` as their GPUs are."""
    of_all = doubt(profile, estimate.accelerator)
    stages = []
    for stage in estimate.stages:
        by = doubt(profile, estimate.gpu_of(stage)) if estimate.gpus else of_all
        required = doubted(stage.required, stage.fixed_bytes, by)
        stages.append(structs.replace(stage, required=required))
    return structs.replace(estimate, stages=tuple(stages))


def capped(probability: float, by: Doubt) -> float:
    """Return a probability no surer than what was measured allows."""
    least, most = (1 - by.ceiling) / 2, by.ceiling
    return least if probability < least else most if probability > most else probability
