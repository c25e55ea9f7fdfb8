"""What a run keeps outside its cards: host memory, NVMe, and the disk of a checkpoint."""

from fitgauge.engine.architecture import ModelSpec
from fitgauge.engine.training.parameters import units
from fitgauge.engine.training.states import master_bytes, optimizer_bytes
from fitgauge.engine.training.workload import TrainingWorkload, regime

PARAMETER_BUFFERS = 5
PARAMETER_BUFFER_ELEMENTS = 100_000_000
ELEMENTS_IN_HOST = 1_000_000_000
OPTIMIZER_BUFFERS = 4
"""DeepSpeed's offload_param buffer_count, buffer_size and max_in_cpu, and offload_optimizer buffer_count: master, gradient and two
moments of Adam. Source: deepspeed/runtime/zero/offload_config.py."""
SUB_GROUP_ELEMENTS = 1_000_000_000
"""DeepSpeed's sub_group_size: what one swap of the optimizer holds. Source: deepspeed/runtime/zero/config.py."""
_HALF, _FULL = 2, 4


def host_and_nvme(offloaded: int, trained: int, workload: TrainingWorkload) -> tuple[int, int]:
    """(host memory, NVMe) of one rank that keeps `offloaded` bytes off its card, `trained`: numbers of its shard.

    With offload nvme all of it lies in files, and the host holds buffers to swap through, in 16 bit for parameters and in fp32 for the
    optimizer (ZeRO-Infinity, arXiv 2104.07857, section 6). Leaves out what the operating system caches.
    """
    if workload.offload != "nvme":
        return offloaded, 0
    parameters = _HALF * (PARAMETER_BUFFERS * PARAMETER_BUFFER_ELEMENTS + ELEMENTS_IN_HOST)
    optimizer = _FULL * OPTIMIZER_BUFFERS * min(SUB_GROUP_ELEMENTS, trained)
    return min(offloaded, parameters + optimizer), offloaded


def checkpoint_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Disk of one checkpoint to resume from, of all ranks, replicas once: trained weights, their masters and optimizer states.

    Of adapters alone where the base is frozen (PEFT saves them alone). Leaves out padding, step counters and random states.
    """
    form, size = regime(workload), 0
    for unit in units(spec, workload):
        trained = [parameter for parameter in unit.parameters if parameter.trained]
        states = sum(optimizer_bytes(parameter, workload.optimizer, form) for parameter in trained)
        size += len(unit.layers) * (sum(parameter.bytes for parameter in trained) + master_bytes(trained, workload) + states)
    return size
