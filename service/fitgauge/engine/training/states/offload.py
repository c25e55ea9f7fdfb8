"""What a run keeps outside its GPUs: host memory, NVMe, and the disk of a checkpoint."""

from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.states.optimizer_states import (
    locked_bytes,
    master_bytes,
    optimizer_bytes,
)
from fitgauge.engine.training.states.parameters import units
from fitgauge.engine.training.states.sharding import RankStates
from fitgauge.engine.training.workload import TrainingWorkload, precision_policy

PARAMETER_BUFFERS = 5
PARAMETER_BUFFER_ELEMENTS = 100_000_000
ELEMENTS_IN_HOST = 1_000_000_000
OPTIMIZER_BUFFERS = 4
"""DeepSpeed's offload_param buffer_count, buffer_size and max_in_cpu, and offload_optimizer
buffer_count: master, gradient and two moments of Adam. Source:
deepspeed/runtime/zero/offload_config.py."""
SUB_GROUP_ELEMENTS = 1_000_000_000
"""DeepSpeed's sub_group_size: what one swap of the optimizer holds. Source:
deepspeed/runtime/zero/config.py."""
_HALF, _FULL = 2, 4


def host_and_nvme(rank: RankStates, workload: TrainingWorkload) -> tuple[int, int]:
    """Return (host memory, NVMe) of one rank [bytes].

    With offload nvme all of it lies in files, and the host holds buffers to swap through, in 16
    bit for parameters and in fp32 for the optimizer (ZeRO-Infinity, arXiv 2104.07857, section
    6), and the 16-bit gradients (stage3.py, grad_partitions_flat_buffer). Leaves out what the
    operating system caches."""
    if workload.offload != "nvme":
        return rank.host + rank.host_temporaries + _temporaries(rank, workload), 0
    parameters = _HALF * (PARAMETER_BUFFERS * PARAMETER_BUFFER_ELEMENTS + ELEMENTS_IN_HOST)
    optimizer = _FULL * OPTIMIZER_BUFFERS * min(SUB_GROUP_ELEMENTS, rank.stepped)
    gradients = _HALF * rank.stepped
    return min(rank.host, parameters + optimizer + gradients), rank.host - gradients


def _temporaries(rank: RankStates, workload: TrainingWorkload) -> int:
    """Return what DeepSpeed's offload takes of the host besides the states themselves.

    ZeRO-1 and 2: the largest parameter's gradient on its way, and with more than one micro-batch
    ZeRO-2's gradients so far (stage_1_and_2.py, temp_grad_buffer_for_cpu_offload,
    accumulated_grads_in_cpu). Flat buffers are page-locked, each in a block of its own: masters,
    fp32 gradients, 16-bit weights; of ZeRO-3 the gradients in both formats (a block for every
    sub-group) and parameters. ZeRO++'s second copy of parameters is where the first is.
    Measured: tools/accuracy/measure_offload.py."""
    if workload.framework != "deepspeed" or workload.offload == "none" or not rank.stepped:
        return 0
    numbers, buffers = rank.stepped, 0
    if workload.zero_stage == 3:
        groups, rest = divmod(numbers, SUB_GROUP_ELEMENTS)
        locked = [
            _HALF * numbers,
            *[_FULL * SUB_GROUP_ELEMENTS] * groups,
            _FULL * rest,
            rank.offloaded_weights,
        ]
        buffers = 0
        if workload.zero_hpz_partition_size > 1:
            buffers = (
                rank.offloaded_weights * workload.data_parallel // workload.zero_hpz_partition_size
            )
    else:
        travelling = _HALF * rank.largest
        accumulates = (
            workload.zero_stage == 2 and workload.micro_batches > 1
        )  # whole parameters, of which a rank may have a part
        buffers = travelling + (_HALF * max(numbers, rank.largest) if accumulates else 0)
        locked = [_FULL * numbers, _FULL * numbers, _HALF * numbers, travelling]
    return buffers + sum(locked_bytes(size) - size for size in locked)


def checkpoint_bytes(spec: ModelSpec, workload: TrainingWorkload) -> int:
    """Disk of one checkpoint to resume from, of all ranks, replicas once: trained weights, their
    masters and optimizer states.

    Of adapters alone where the base is frozen (PEFT saves them alone). Leaves out padding, step
    counters and random states."""
    form, size = precision_policy(workload), 0
    for unit in units(spec, workload):
        trained = [parameter for parameter in unit.parameters if parameter.trained]
        states = sum(optimizer_bytes(parameter, workload.optimizer, form) for parameter in trained)
        size += len(unit.layers) * (
            sum(parameter.bytes for parameter in trained) + master_bytes(trained, workload) + states
        )
    return size
