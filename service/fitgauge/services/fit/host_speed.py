"""What of a launch lies in host memory, and how fast that is read in the machine of a question."""

from fitgauge.engine.accelerator import Accelerator
from fitgauge.engine.model.dtypes import BITS
from fitgauge.engine.performance.decode import DecodeSpeed
from fitgauge.engine.performance.host import HostPart, Machine, multiplied_by_cpu, read_over_link
from fitgauge.engine.performance.load import Load, held_tokens
from fitgauge.engine.quantity import rough
from fitgauge.engine.serving.kv_cache import cache_bytes
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import Workload
from fitgauge.services.common.display_memory import drives_screens
from fitgauge.services.fit.query import FitEstimate

_LARGEST_DESKTOP_GIB = 256
"""Memory of the largest desktops [GiB]: four modules of 64 GB in two channels."""


def machine_of(accelerator: Accelerator, host_memory_gib: float | None) -> Machine:
    """Return what holds a GPU: a desktop where it is of a kind that drives screens, unless its
    memory is more than desktops have. Assumed."""
    is_large = (host_memory_gib or 0) > _LARGEST_DESKTOP_GIB
    return "desktop" if drives_screens(accelerator) and not is_large else "server"


def is_partly_on_host(workload: Workload) -> bool:
    """Return whether part of the weights lies in host memory: some engines have no such setting."""
    row = ENGINES[workload.engine]
    takes = row.supports_cpu_offload or row.cpu_layers is not None
    return takes and workload.offloads


def is_told(checked: FitEstimate) -> bool:
    """Return whether published runs tell how fast it is: those of a CPU are of one request."""
    workload = checked.workload
    by_cpu = ENGINES[workload.engine].cpu_layers is not None and is_partly_on_host(workload)
    return not (by_cpu and workload.requests_per_replica > 1)


def host_part(checked: FitEstimate, load: Load) -> HostPart | None:
    """Return what of a replica's weights lies in host memory; None where nothing does."""
    workload, query = checked.workload, checked.query
    if not is_partly_on_host(workload):
        return None
    cpu_layers = ENGINES[workload.engine].cpu_layers
    sharded = checked.prepared.sharded
    if cpu_layers is None:
        return read_over_link(
            query.spec,
            sharded,
            workload.cpu_offload_bytes,
            query.accelerator,
            concurrency=workload.requests_per_replica,
            tensor_parallel=workload.tensor_parallel,
            chunk_tokens=workload.max_batched_tokens,
        )
    dtype = workload.kv_cache_dtype if workload.kv_cache_dtype in BITS else query.spec.dtype
    return multiplied_by_cpu(
        query.spec,
        sharded,
        cpu_layers(query.spec, sharded, workload),
        machine_of(query.accelerator, query.request.host_memory_gib),
        query.accelerator,
        cache_bytes=cache_bytes(query.spec, held_tokens(load), 1, dtype=dtype),
        chunk_tokens=workload.max_batched_tokens,
    )


def assumed_rate(checked: FitEstimate, part: HostPart) -> str:
    """Return what is assumed of how fast host memory is read, as a sentence."""
    low, expected, high = part.step
    rate = f"{expected:.0f} GB/s ({low:.0f} to {high:.0f})"
    if ENGINES[checked.workload.engine].cpu_layers is None:
        return f"The GPU is assumed to read weights in host memory over its link at {rate}."
    machine = machine_of(checked.query.accelerator, checked.query.request.host_memory_gib)
    return (
        f"The CPU is assumed to read weights in host memory at {rate}, as published runs in"
        f" {machine}s did."
    )


def rate_in_words(speed: DecodeSpeed, requests: int) -> str:
    """Return 'about 18 tokens/s (11 to 25)'."""
    each = " a request" if requests > 1 else ""
    low, expected, high = map(rough, (speed.low, speed.expected, speed.high))
    return f"about {expected} tokens/s{each} ({low} to {high})"
