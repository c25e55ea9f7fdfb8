"""Pipeline schedules: how many micro-batches' activations a stage holds at once, and which layers
it has.

Stages are numbered from 0. The unit is a micro-batch's activations of the stage's own layers.
"""

from fractions import Fraction
from functools import lru_cache

import msgspec

from fitgauge.engine.training.workload import Framework, Schedule, TrainingWorkload
from fitgauge.engine.weights.rank_bytes import pipeline_stages

DEFAULT_CHUNKS = 2
"""Model chunks of a rank under the interleaved schedule where nothing is said: the least that
interleaves."""


def stage_layers(layers: int, workload: TrainingWorkload) -> tuple[range, ...]:
    """Return the layers of every stage. Raises ValueError where Megatron or torchtitan has no such
    split; see `split` and `even_split`.

    An interleaved stage's chunks lie apart in the model; they are counted as if they lay together.
    """
    return _stage_layers(
        layers,
        workload.pipeline_parallel,
        workload.framework,
        workload.pipeline_chunks if workload.pipeline_schedule == "interleaved" else 1,
        workload.last_stage_layers,
    )


@lru_cache(maxsize=512)  # a plan asks again for every layout on as many stages
def _stage_layers(
    layers: int, stages: int, framework: Framework, chunks: int, last: int | None
) -> tuple[range, ...]:
    if framework not in ("megatron", "fsdp") or stages == 1:
        return pipeline_stages(layers, stages)
    if framework == "fsdp":
        sizes = even_split(layers, stages, chunks)
    else:
        sizes = split(layers, stages, last)
    starts = [sum(sizes[:number]) for number in range(stages)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def even_split(layers: int, stages: int, chunks: int) -> tuple[int, ...]:
    """Return the layers of every rank under torchtitan, which has `chunks` stages: embedding and
    head count as a layer each, and what is left over goes to the first stages
    (torchtitan/distributed/pipeline_parallel.py, _generate_llm_fqn_per_model_part). Raises
    ValueError where a stage would have none, and for more chunks than two that no
    layers_per_stage gives (_get_pipeline_metadata)."""
    count = stages * chunks
    each, left = divmod(layers + 2, count)
    sizes = [each + (number < left) for number in range(count)]
    sizes[0], sizes[-1] = sizes[0] - 1, sizes[-1] - 1
    most = each + (left > 0)
    if min(sizes) < 1 or (chunks > DEFAULT_CHUNKS and -(-(layers + 2) // most) != count):
        raise ValueError("no such stages")
    return tuple(sum(sizes[rank::stages]) for rank in range(stages))


def split(layers: int, stages: int, last: int | None = None) -> tuple[int, ...]:
    """Return the layers of every stage under Megatron: all alike where that is possible and no
    `last` is asked for. Raises ValueError where it leaves the first stage none.

    Megatron takes a number of its own for the first stage and for the last, the others being
    alike (megatron/core/transformer/ transformer_block.py, get_num_layers_to_build). Where
    nothing is said those between have an even share rounded up, and what is left goes to the two
    that also have the embedding and the head, less of it to the last: 61 on 8 are 7, six times
    8, and 6."""
    if last is None and layers % stages == 0:
        return (layers // stages,) * stages
    between = -(-layers // stages) if last is None else -(-(layers - last) // (stages - 1))
    left = layers - between * (stages - 2)
    last = left // 2 if last is None else last
    if left - last < 1 or last < 1:
        raise ValueError
    return left - last, *[between] * (stages - 2), last


def imbalance(layers: int, workload: TrainingWorkload) -> float:
    """Return the layers of the longest stage over the mean: the others wait for it with every
    micro-batch. Raises ValueError where the framework has no such stages."""
    longest = max(len(stage) for stage in stage_layers(layers, workload))
    return longest * workload.pipeline_parallel / layers


def stage_counts(layers: int, most: int) -> tuple[int, ...]:
    """Return the numbers of stages worth trying under Megatron, `most` at most: those that
    divide the layers, and the powers of two that `split` spreads them over, since machines are
    counted in these: 126 layers divide by 2 alone of them."""
    alike = {count for count in range(1, min(layers, most) + 1) if layers % count == 0}
    halves = {1 << power for power in range(1, most.bit_length()) if 1 << power <= layers}
    return tuple(sorted(alike | {count for count in halves if splits(layers, count)}))


def splits(layers: int, stages: int) -> bool:
    """Return whether `split` spreads so many layers over so many stages."""
    try:
        split(layers, stages)
    except ValueError:
        return False
    return True


class Held(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a stage holds at its fullest moment, in micro-batches."""

    activations: Fraction
    """Those whose backward pass is still to come."""
    weight_inputs: int = 0
    """Those whose gradient went on and whose weight gradients are still to come (zero-bubble
    schedules alone): they retain the inputs of linear layers."""

    @property
    def most(self) -> Fraction:
        """Both, the second counted as whole micro-batches: an upper bound (32 of 34 sbh, arXiv
        2401.10241, table 2)."""
        return self.activations + self.weight_inputs


def held(
    schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int = DEFAULT_CHUNKS
) -> Held:
    """Return what `stage` of `stages` holds, of `micro_batches` in a step.

    gpipe: every micro-batch, since all forward passes come first (arXiv 1811.06965, section
    2.3). 1f1b: stages - stage, since that many forward passes come before the first backward
    pass (arXiv 2006.09503, section 3.1). interleaved: a rank has `chunks` pieces of its layers
    and runs 2 (stages - stage - 1) + (chunks - 1) stages pieces ahead, and one more (arXiv
    2104.04473, section 2.2; megatron/core/pipeline_parallel/schedules.py,
    get_pp_rank_microbatches): at most 1 + (stages - 1) / (stages chunks) of what 1f1b holds
    (arXiv 2205.05198, section 4.2.3). zero_bubble (ZB-H1): as 1f1b, and `stage` micro-batches
    whose weight gradients wait (arXiv 2401.10241, table 1)."""
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


def in_flight_in_words(micro_batches: float) -> str:
    """'1 micro-batch in flight', '2.5 micro-batches in flight'."""
    return f"{micro_batches:g} micro-batch{'' if micro_batches == 1 else 'es'} in flight"


def bubble_share(
    schedule: Schedule, stages: int, micro_batches: int, chunks: int = DEFAULT_CHUNKS
) -> float:
    """Idle over busy time of a pipeline: (p - 1) / m, a piece of it when interleaved, a third with
    ZB-H1.

    Source: arXiv 2104.04473, section 2.2; arXiv 2401.10241, table 1 (with forward, input and
    weight passes of equal length)."""
    share = (stages - 1) / micro_batches
    return share / {"interleaved": chunks, "zero_bubble": 3}.get(schedule, 1)
