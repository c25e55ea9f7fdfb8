"""How many batch sizes vLLM captures as CUDA graphs, which follows from max_num_seqs.

Source: vllm/config/vllm.py, _set_cudagraph_sizes (0.19, 0.25 to 0.29, 0.33), config/__init__.py
(0.11); worker/model_runner.py (0.6), _BATCH_SIZES_TO_CAPTURE; v1/cudagraph_dispatcher.py,
initialize_cudagraph_keys."""

from functools import cache, lru_cache

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.serving.runtime import Captured
from fitgauge.engine.serving.vllm import releases
from fitgauge.engine.serving.vllm.kv_cache.dtypes import cuda_major
from fitgauge.engine.serving.workload import Workload

_LARGEST, _LARGEST_FIRST, _LARGEST_BLACKWELL = 512, 256, 1024
"""The largest captured batch, that of the first engine, and that of compute capability 10.x since
`releases.WIDE_GRAPHS` [tokens]."""

_BLACKWELL = 10


def captured(workload: Workload, accelerator: Accelerator) -> Captured | None:
    """Return the graphs that a launch captures, and those of the runs that were measured, which had
    256 sequences and more; None for the releases whose graphs do not depend on max_num_seqs.

    Batches are captured up to twice max_num_seqs, times the tokens that a request has of a step
    where some are drafted; by the first engine, which captures decode steps alone, up to the next
    multiple of 8. The graphs of whole decode steps that come with them since 0.11, up to
    max_num_seqs, share their memory."""
    sequences, version = workload.max_num_seqs, workload.engine_version
    if version < releases.SECOND_ENGINE:
        up_to = min(-(-sequences // 8) * 8, _LARGEST_FIRST)
        return Captured(len(_grid(up_to)), len(_grid(_LARGEST_FIRST)))
    if version < releases.GRAPHS_BY_SEQUENCES:
        return None
    ceiling = _ceiling(accelerator, version)
    step = 1 + workload.speculative_tokens
    largest = min(_steps(workload), ceiling, workload.max_batched_tokens)
    requests = min(sequences, ceiling) if version >= releases.DECODE_STEPS_CAPTURED else 0
    return Captured(_sizes(largest, step, requests), len(_grid(_LARGEST)))


def captures_more(workload: Workload, accelerator: Accelerator) -> bool:
    """Return whether a launch may capture more batches here than on GPUs of another generation."""
    ceiling = _ceiling(accelerator, workload.engine_version)
    return not workload.enforce_eager and min(ceiling, _steps(workload)) > _LARGEST


def _steps(workload: Workload) -> int:
    """Return twice the tokens of a step of all requests."""
    return 2 * workload.max_num_seqs * (1 + workload.speculative_tokens)


def _ceiling(accelerator: Accelerator, version: tuple[int, ...]) -> int:
    """Return the largest batch that is captured by default [tokens]."""
    wide = cuda_major(accelerator.compute_capability) == _BLACKWELL
    return _LARGEST_BLACKWELL if wide and version >= releases.WIDE_GRAPHS else _LARGEST


@lru_cache(maxsize=1024)  # every question of a search over GPUs and formats asks again
def _sizes(largest: int, step: int, requests: int) -> int:
    """Return how many batches are captured up to `largest` [tokens]: the usual ones, and decode
    steps of `step` tokens a request of up to `requests`, where there are any."""
    decoded = {step * count for count in (*_grid(requests), requests) if requests}
    return sum(size <= largest for size in {*_grid(largest), *decoded})


@cache
def _grid(largest: int) -> tuple[int, ...]:
    """Return the usual batches up to `largest` [tokens]."""
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, _LARGEST_BLACKWELL + 1, 16))
    return tuple(size for size in sizes if size <= largest)
