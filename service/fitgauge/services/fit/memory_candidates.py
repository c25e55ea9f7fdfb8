"""Candidates that change how much of the GPU an engine takes."""

from collections.abc import Iterator
from math import ceil, floor

from fitgauge.engine.quantity import GIB, gib
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.services.fit.candidates import Candidate, is_searched
from fitgauge.services.fit.query import FitEstimate, needed_pool_bytes


def other_pool(checked: FitEstimate) -> Iterator[Candidate]:
    """Yield the least pool that holds the requests, in tenths of a GiB, where one is given
    outright."""
    pool_bytes = checked.estimate.given_pool_bytes
    if pool_bytes is None:
        return
    size = ceil(10 * needed_pool_bytes(checked.workload, checked.estimate) / GIB) / 10
    if size and size != pool_bytes / GIB:
        yield (
            f"set the KV cache to {size:g} GiB instead of {pool_bytes / GIB:g}",
            {"kv_cache_memory_gib": size},
        )


def lower_share(checked: FitEstimate) -> Iterator[Candidate]:
    """Yield the largest share of the GPU that leaves room for memory of vLLM and others outside
    it, in hundredths."""
    workload, estimate = checked.workload, checked.estimate
    row = ENGINES[workload.engine]
    if (
        not row.budget_is_device_share
        or estimate.given_pool_bytes is not None
        or is_searched("gpu_memory_utilization", checked.query.request)
    ):
        return
    usable = estimate.accelerator.usable
    share = floor(100 * (usable.low - checked.outside.high) / usable.low) / 100
    if 0 < share < workload.gpu_memory_utilization:
        yield (
            f"lower gpu_memory_utilization to {share:g}: {gib(checked.outside.expected)} of the GPU"
            " are held outside that share",
            {"gpu_memory_utilization": share},
        )
