"""Whether the machine's memory holds what is offloaded from its GPUs."""

from fitgauge.engine.accelerator import USUAL_NODE
from fitgauge.engine.quantity import GIB
from fitgauge.services.common.host_schemas import HostMemory

_LARGEST_HOST_GIB = 4096
"""Memory of the largest machine with GPUs that is rented out [GiB]. Source: memory_gib in
catalog/data/instances.jsonl."""

ROOM_GIB = 6
"""Memory of a machine that offloading leaves to its system, to the programs of the person at it
and to the engine's own process [GiB]. Assumed: a GPU's process of vLLM is given about as much in
Kubernetes (services/common/kubernetes.py)."""

_USUAL_HOST_GIB = 64
"""Memory that a machine with GPUs is taken to have for each [GiB]. Assumed of desktops; three of
four rented machines have it. Source of those: memory_gib in catalog/data/instances.jsonl."""


def usual_host_holds(host: HostMemory | None) -> bool:
    """Return whether a usual machine holds what is offloaded."""
    return host is None or host.per_gpu_bytes <= (_USUAL_HOST_GIB - ROOM_GIB) * GIB


def exceeds_host(host: HostMemory | None, host_memory_gib: float | None) -> bool:
    """Return whether what is offloaded is more than the machine's memory less ROOM_GIB, or, where
    that is not sent, more than the largest machine with GPUs has."""
    if host is None:
        return False
    if host_memory_gib is not None:
        return host.total_bytes > (host_memory_gib - ROOM_GIB) * GIB
    a_machine = min(host.total_bytes, host.per_gpu_bytes * USUAL_NODE)
    return a_machine > _LARGEST_HOST_GIB * GIB


def lacks_host(host: HostMemory | None, host_memory_gib: float | None) -> bool:
    """Return whether the request itself offloads more than the machine has."""
    if host is None or host_memory_gib is None:
        return False
    return host.total_bytes > host_memory_gib * GIB
