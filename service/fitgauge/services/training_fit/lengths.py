"""A data set's lengths: what a micro-batch of its samples holds."""

from collections.abc import Mapping

from msgspec import structs

from fitgauge.engine.training.speed import Sequences
from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.services.training_fit.schemas import TrainingRequest


def with_lengths(request: TrainingRequest) -> TrainingRequest:
    """Return the request with the lengths of its data set as sequence_length and
    mean_sequence_length, where it sends neither; longer samples are cut to a sequence_length that
    it sends."""
    if request.lengths is None:
        return request
    longest = max(map(int, request.lengths))
    limit = min(longest, request.sequence_length or longest)
    mean = mean_length(histogram(request.lengths, limit))
    return structs.replace(
        request,
        sequence_length=limit,
        mean_sequence_length=request.mean_sequence_length or max(1, round(mean)),
    )


def histogram(lengths: Mapping[str, int], longest: int) -> dict[int, int]:
    """Return number of samples by length [tokens], longer ones cut."""
    result: dict[int, int] = {}
    for text, samples in lengths.items():
        length = min(int(text), longest)
        result[length] = result.get(length, 0) + samples
    return result


def mean_length(samples: Mapping[int, int]) -> float:
    """Return the mean length of a histogram [tokens]."""
    return sum(length * number for length, number in samples.items()) / sum(samples.values())


def lengths_of(request: TrainingRequest, workload: TrainingWorkload) -> dict[int, int]:
    """Return the histogram of the samples: as sent, else all of the mean length."""
    if request.lengths is not None:
        return histogram(request.lengths, workload.sequence_length)
    return {workload.mean_sequence_length or workload.sequence_length: 1}


def sequences_of(samples: Mapping[int, int], workload: TrainingWorkload) -> Sequences:
    """Return what a micro-batch computes of samples that are drawn at random.

    Padded: each sequence is as long as the longest of its micro-batch of B, whose distribution is
    F(l)^B; where only a mean is stated, as long as the longest of all."""
    if not workload.padded:
        rows: dict[int, float] = dict(samples)
    elif len(samples) == 1:
        rows = {workload.sequence_length: 1.0}
    else:
        rows, below, total = {}, 0, sum(samples.values())
        for length in sorted(samples):
            upto = below + samples[length]
            batch = workload.micro_batch_size
            rows[length] = (upto / total) ** batch - (below / total) ** batch
            below = upto
    tokens = sum(length * share for length, share in rows.items())
    squares = sum(length * length * share for length, share in rows.items())
    return Sequences(tokens / sum(rows.values()), squares / tokens)
