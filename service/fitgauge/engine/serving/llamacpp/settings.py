"""llama.cpp's and Ollama's settings that may be changed so that a workload runs."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.ladders import FORWARD_TOKENS, Ladder, Ladders, halved
from fitgauge.engine.serving.workload import Workload

_LEAST_UBATCH, _LEAST_NUM_BATCH = 128, 256


def slots(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return as many slots (-np) as there are requests, where that is fewer."""
    requests = workload.requests_per_replica
    return (requests,) if requests < workload.max_num_seqs else ()


def micro_batches(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return the halves of n_ubatch, at least 128."""
    return halved(workload.max_batched_tokens, _LEAST_UBATCH)


def batches(workload: Workload, spec: ModelSpec, accelerator: Accelerator) -> tuple[int, ...]:
    """Return the halves of Ollama's num_batch, at least 256."""
    return halved(workload.max_batched_tokens, _LEAST_NUM_BATCH)


_SLOTS = Ladder(
    "max_num_seqs", slots, "`concurrency`", "more requests than that wait for their turn"
)
_COSTS = "prompts are read in smaller passes, so first tokens come later"

LADDERS = Ladders(
    batch=(
        _SLOTS,
        FORWARD_TOKENS._replace(values=micro_batches, rule="halved, not below 128", costs=_COSTS),
    )
)

OLLAMA = Ladders(
    batch=(FORWARD_TOKENS._replace(values=batches, rule="halved, not below 256", costs=_COSTS),)
)
