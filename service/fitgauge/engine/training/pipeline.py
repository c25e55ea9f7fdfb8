"""Pipeline schedules: how many micro-batches' activations a stage holds at once, and which layers it has.

Stages are numbered from 0. The unit is a micro-batch's activations of the stage's own layers.
"""

from fractions import Fraction

import msgspec

from fitgauge.engine.training.workload import Schedule
from fitgauge.engine.weights import pipeline_stages

__all__ = ["Held", "bubble_share", "held", "pipeline_stages"]

DEFAULT_CHUNKS = 2
"""Model chunks of a rank under the interleaved schedule where nothing is said: the least that interleaves."""


class Held(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a stage holds at its fullest moment, in micro-batches.

    `activations`: of those whose backward pass is still to come. `weight_inputs`: of those whose gradient went on and whose weight
    gradients are still to come (zero-bubble schedules alone): they keep the inputs of linear layers.
    """

    activations: Fraction
    weight_inputs: int = 0

    @property
    def most(self) -> Fraction:
        """Both, the second counted as whole micro-batches: an upper bound (32 of 34 sbh, arXiv 2401.10241, table 2)."""
        return self.activations + self.weight_inputs


def held(schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int = DEFAULT_CHUNKS) -> Held:
    """What `stage` of `stages` holds, of `micro_batches` in a step.

    gpipe: every micro-batch, since all forward passes come first (arXiv 1811.06965, section 2.3).
    1f1b: stages - stage, since that many forward passes come before the first backward pass (arXiv 2006.09503, section 3.1).
    interleaved: a rank has `chunks` pieces of its layers and runs 2 (stages - stage - 1) + (chunks - 1) stages pieces ahead, and one more
    (arXiv 2104.04473, section 2.2; megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches): at most
    1 + (stages - 1) / (stages chunks) of what 1f1b holds (arXiv 2205.05198, section 4.2.3).
    zero_bubble (ZB-H1): as 1f1b, and `stage` micro-batches whose weight gradients wait (arXiv 2401.10241, table 1).
    """
    if stages == 1:
        return Held(activations=Fraction(1))
    if schedule == "gpipe":
        return Held(activations=Fraction(micro_batches))
    if schedule == "interleaved":
        ahead = 2 * (stages - stage - 1) + (chunks - 1) * stages
        return Held(activations=Fraction(min(ahead + 1, micro_batches * chunks), chunks))
    ahead = min(stages - stage, micro_batches)
    if schedule == "zero_bubble":
        return Held(activations=Fraction(ahead), weight_inputs=min(stage, micro_batches - ahead))
    return Held(activations=Fraction(ahead))


def bubble_share(schedule: Schedule, stages: int, micro_batches: int, chunks: int = DEFAULT_CHUNKS) -> float:
    """Idle over busy time of a pipeline: (p - 1) / m, a piece of it when interleaved, a third with ZB-H1.

    Source: arXiv 2104.04473, section 2.2; arXiv 2401.10241, table 1 (with forward, input and weight passes of equal length).
    """
    share = (stages - 1) / micro_batches
    return share / {"interleaved": chunks, "zero_bubble": 3}.get(schedule, 1)
