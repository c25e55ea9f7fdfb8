"""How likely training fits: what it needs against what the GPU has, no surer than runs were whose
allocator had to give memory back."""

from typing import NamedTuple

from fitgauge.engine.quantity import Bytes
from fitgauge.engine.serving.fit import fit_probability
from fitgauge.engine.training.profile import TrainingProfile


class Demand(NamedTuple):
    """What the fullest GPU takes [bytes]."""

    required: Bytes
    """The least memory it can run in."""
    shown: int
    """What the GPU shows, with all that the allocator reserves."""


def training_probability(demand: Demand, usable: Bytes, profile: TrainingProfile) -> float:
    """Return the chance that training runs, which every answer about training asks here.

    Where PyTorch's allocator would reserve all of the GPU, a run depends on cached blocks that are
    given back in time and on free memory between them that no large block fits. The profile
    holds the chance that the few published runs of that kind tell, of those that the sizes alone
    called certain (tools/accuracy/training_calibrate.py, filled): the fewer, the further from
    certain."""
    probability = fit_probability(demand.required, usable)
    if demand.shown < usable.expected:
        return probability
    return min(probability, profile.filled_probability.expected)
