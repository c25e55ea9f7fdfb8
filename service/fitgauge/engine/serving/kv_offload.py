"""KV cache in host memory, for prompts that begin like earlier ones.

Requests hold their cache on the GPU while they run: what is offloaded changes a verdict only by
what an engine takes of the GPU to move it."""

from collections.abc import Callable
from typing import NamedTuple

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.serving.estimate import Estimate
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.unsupported import UnsupportedError


def every_rank(spec: ModelSpec, workload: Workload) -> int:
    """Return 1: every rank offloads its own cache."""
    return 1


class KvOffload(NamedTuple):
    """How an engine keeps KV cache in host memory."""

    in_shared_memory: bool = False
    """Whether it lies in /dev/shm."""

    ranks_of_one_copy: Callable[[ModelSpec, Workload], int] = every_rank
    """Tensor ranks that hold the same cache and share one copy of it in host memory."""


def offloaded_tokens(
    offload: KvOffload, spec: ModelSpec, workload: Workload, estimate: Estimate
) -> int:
    """Return the tokens of one replica that its host memory holds: as many as a pool of that size
    does on the GPU, times the ranks that share a copy."""
    size = workload.kv_offload_bytes * offload.ranks_of_one_copy(spec, workload)
    layouts = (stage.layout for stage in estimate.stages if stage.layout.keeps)
    return min((layout.tokens(size) for layout in layouts), default=0)


def refusal(workload: Workload, accelerator: Accelerator) -> UnsupportedError | None:
    """Return why KV cache cannot leave this accelerator; None where it may."""
    if not workload.kv_offload_bytes or not accelerator.unified_memory:
        return None
    return UnsupportedError(
        "kv_offload_gib",
        f"{accelerator.name} shares its memory with the host: KV cache that is offloaded would"
        " take the same memory.",
        ({"kv_offload_gib": (None,)},),
    )
