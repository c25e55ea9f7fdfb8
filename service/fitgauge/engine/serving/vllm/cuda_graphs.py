"""How many batch sizes vLLM captures as CUDA graphs, which follows from max_num_seqs.

Source: vllm/config/vllm.py, _set_cudagraph_sizes (0.19, 0.25, 0.33), config/__init__.py (0.11);
worker/model_runner.py (0.6), _BATCH_SIZES_TO_CAPTURE; v1/cudagraph_dispatcher.py,
initialize_cudagraph_keys."""

from functools import cache

from fitgauge.engine.serving.runtime import Captured
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.workload import Workload

_LARGEST, _LARGEST_FIRST = 512, 256
"""The largest captured batch, and that of the first engine [tokens]."""

_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, _LARGEST + 1, 16))
"""Batches of the runs that the profiles' graphs were measured in, which had 256 sequences and
more."""


def captured(workload: Workload) -> Captured | None:
    """Return the graphs that a launch captures, and those of the runs that were measured; None for
    the releases whose graphs do not depend on max_num_seqs.

    Batches are captured up to twice max_num_seqs, times the tokens that a request has of a step
    where some are drafted; by the first engine, which captures decode steps
    alone, up to the next multiple of 8. The graphs of whole decode steps that come with them since
    0.11, up to max_num_seqs, share their memory."""
    sequences, version = workload.max_num_seqs, workload.engine_version
    if version < releases.SECOND_ENGINE:
        up_to = min(-(-sequences // 8) * 8, _LARGEST_FIRST)
        return Captured(_count(up_to), _count(_LARGEST_FIRST))
    if version < releases.GRAPHS_BY_SEQUENCES:
        return None
    tokens = 2 * sequences * (1 + workload.speculative_tokens)
    return Captured(_count(min(tokens, workload.max_batched_tokens)), len(_SIZES))


@cache
def _count(largest: int) -> int:
    return sum(size <= largest for size in _SIZES)
