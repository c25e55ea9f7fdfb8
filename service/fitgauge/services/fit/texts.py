"""How fast an embedding or reranking model reads texts on the launch of an answer."""

from math import log

from fitgauge.catalog.speeds import TextRun, text_runs
from fitgauge.engine.performance.prefill import Seconds
from fitgauge.engine.performance.texts import TextLoad, TextRate, TextSpeed, text_speed
from fitgauge.services.common.speed_schemas import PublishedBatch, TextSpeedAnswer
from fitgauge.services.fit.query import FitEstimate

TEXT_SPREAD = (0.65, 1.91)
"""Texts a second over those modelled: 5th and 95th percentile of the published batches, in
catalog/data/text_speeds.jsonl; a test derives it from the rows."""

_SOURCE = "engine/performance/texts.py text_speed; errors: docs/ACCURACY.md, Speed at a load"


def text_answer(checked: FitEstimate) -> TextSpeedAnswer | None:
    """Return how fast the launch reads texts; None for a model that generates, and where the
    launch does not start or keeps weights in host memory."""
    workload, spec, prepared = checked.workload, checked.query.spec, checked.prepared
    if (
        spec.task != "encode"
        or checked.verdict == "does_not_fit"
        or workload.offloads
        or workload.free_bytes
    ):
        return None
    tokens = min(
        checked.query.request.prompt_tokens or workload.context_length, workload.context_length
    )
    load = TextLoad(texts=workload.concurrency, tokens=tokens)
    speed = text_speed(
        spec,
        prepared.scheme,
        checked.query.accelerator,
        TextLoad(texts=-(-load.texts // workload.data_parallel), tokens=tokens),
        weight_bytes=prepared.total_bytes,
        max_batched_tokens=workload.max_batched_tokens,
        tensor_parallel=workload.tensor_parallel,
    )
    if speed is None:
        return None
    rate, seconds = widened(speed)
    return TextSpeedAnswer(
        load=load,
        texts_per_second=_of_replicas(rate, workload.data_parallel),
        seconds_per_batch=seconds,
        basis="modelled",
        source=_SOURCE,
        runs=_nearest(checked, load),
    )


def widened(speed: TextSpeed) -> TextSpeed:
    """Return the speed with an interval as wide as published batches lie around it."""
    rate, seconds = speed.texts_per_second, speed.seconds_per_batch
    least, most = TEXT_SPREAD
    return TextSpeed(
        TextRate(
            low=min(rate.low, round(rate.expected * least, 2)),
            expected=rate.expected,
            high=max(rate.high, round(rate.expected * most, 2)),
        ),
        Seconds(
            low=min(seconds.low, round(seconds.expected / most, 5)),
            expected=seconds.expected,
            high=max(seconds.high, round(seconds.expected / least, 5)),
        ),
    )


def _of_replicas(rate: TextRate, replicas: int) -> TextRate:
    low, expected, high = (
        round(figure * replicas, 2) for figure in (rate.low, rate.expected, rate.high)
    )
    return TextRate(low=low, expected=expected, high=high)


def _nearest(checked: FitEstimate, load: TextLoad) -> list[PublishedBatch]:
    """Return the nearest published batch of a model of this shape, on this GPU before others."""
    parameters, gpu = checked.query.spec.parameters, checked.query.accelerator.id
    runs = [run for run in text_runs() if run.parameters == parameters]
    if not runs:
        return []

    def distance(run: TextRun) -> tuple[bool, float]:
        factors = log(run.texts / load.texts), log(run.tokens / load.tokens)
        return run.accelerator != gpu, max(map(abs, factors))

    run = min(runs, key=distance)
    return [
        PublishedBatch(
            model=run.model,
            engine=run.engine,
            gpu=run.accelerator,
            load=TextLoad(texts=run.texts, tokens=run.tokens),
            texts_per_second=round(run.texts / run.seconds, 2),
            source=run.source,
        )
    ]
