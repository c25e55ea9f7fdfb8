"""The number of GPUs where the text and the field name one each."""

from collections.abc import Iterator

from fitgauge.engine.note import Note


def sent_count(gpu_count: int | None, named: int) -> int | None:
    """Return the larger of `gpu_count` and the count in `gpu` ("2x4090"); None where neither is
    sent.

    Callers that fill in every field send a count of 1 as a filler."""
    if gpu_count is None:
        return named if named > 1 else None
    return max(gpu_count, named)


def count_conflict(gpu_count: int | None, named: int) -> Iterator[Note]:
    """Yield that the larger count is taken where two differ."""
    if gpu_count is not None and named not in (1, gpu_count):
        yield Note(
            "gpu-count-conflict",
            "gpu_count",
            f"`gpu` says {named}, `gpu_count` says {gpu_count}: using {max(named, gpu_count)}.",
        )
