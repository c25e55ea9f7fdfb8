"""TensorRT-LLM's settings that may be changed so that a workload runs."""

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.ladders import (
    FORWARD_TOKENS,
    RUNNING_REQUESTS,
    Degrees,
    Ladders,
    Share,
    without_replicas,
)


def layouts(spec: ModelSpec, gpus: int) -> tuple[Degrees, ...]:
    """Return tensor x pipeline, attention on every GPU with experts parallel, and pipeline alone.

    Attention data parallel copies attention on every rank (`enable_attention_dp`)."""
    return tuple(
        degrees for degrees in without_replicas(spec, gpus) if degrees.data_parallel in (1, gpus)
    )


LADDERS = Ladders(
    batch=(RUNNING_REQUESTS, FORWARD_TOKENS),
    share=Share(None, 0.95),
    layouts=layouts,
    layouts_rule="tensor x pipeline, attention on every GPU with experts parallel, pipeline alone",
    without_graphs=True,
)
"""The share is of what is free once weights are loaded."""
