"""SGLang's settings that may be changed so that a workload runs.

A smaller batch or chunk also raises the share that SGLang takes by itself (mem_fraction.py)."""

from fitgauge.engine.serving.ladders import (
    FORWARD_TOKENS,
    RUNNING_REQUESTS,
    Ladders,
    Share,
    without_replicas,
)

LADDERS = Ladders(
    batch=(RUNNING_REQUESTS, FORWARD_TOKENS),
    share=Share(None, 0.90),
    layouts=without_replicas,
    layouts_rule="tensor x pipeline, attention replicas with experts parallel, pipeline alone",
    without_graphs=True,
)
"""The share leaves out activations and graphs, so that it stays below vLLM's."""
