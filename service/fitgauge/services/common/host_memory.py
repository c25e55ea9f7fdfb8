"""Whether the machine's memory holds what is offloaded from its GPUs."""

from fitgauge.engine.quantity import GIB, gib
from fitgauge.errors import InvalidRequestError
from fitgauge.services.common.host_schemas import HostMemory


def exceeds_host(host: HostMemory | None, host_memory_gib: float | None) -> bool:
    """Return whether what is offloaded is more than the machine's memory; False where that is not
    sent."""
    return (
        host is not None
        and host_memory_gib is not None
        and host.total_bytes > host_memory_gib * GIB
    )


def check_host(host: HostMemory | None, host_memory_gib: float | None) -> None:
    """Raise InvalidRequestError where the request itself offloads more than the machine holds."""
    if exceeds_host(host, host_memory_gib):
        assert host is not None
        raise InvalidRequestError(
            f"What is offloaded needs {gib(host.total_bytes)} of host memory; `host_memory_gib` is"
            f" {host_memory_gib:g}.",
            hint="Offload less, or leave the amount out: suggestions then stay within this memory.",
            field="host_memory_gib",
            code="conflicting-fields",
        )
