"""What the allocator's rules leave reserved in vain, worked out once for the models and
workloads asked about lately."""

from functools import lru_cache

from msgspec.structs import replace

from fitgauge.engine.memo import ByIdentity
from fitgauge.engine.model.spec import ModelSpec
from fitgauge.engine.training.allocator.process import MICRO_BATCHES, whole_process
from fitgauge.engine.training.allocator.process_fsdp import sharded_process
from fitgauge.engine.training.workload import TrainingWorkload


def kept_in_vain(spec: ModelSpec, workload: TrainingWorkload, allocated: int) -> int | None:
    """Return the bytes that the allocator's own rules leave reserved beyond a peak of
    `allocated` bytes: two steps played on it. Of what keeps less of the layers than is played
    there (on the host, on other stages), the same share. None where steps are not played: under
    DeepSpeed, Megatron, and where ranks exchange the tokens of their experts."""
    if workload.framework not in ("transformers", "fsdp") or workload.expert_parallel > 1:
        return None
    relevant = replace(
        workload,
        activation_offload=False,
        pipeline_parallel=1,
        micro_batches=min(workload.micro_batches, MICRO_BATCHES),
    )
    most, vain = _played(ByIdentity(spec), relevant)
    return int(vain * min(1, allocated / most))


@lru_cache(maxsize=256)
def _played(same: ByIdentity, workload: TrainingWorkload) -> tuple[int, int]:
    """Return (the most bytes that two steps allocate at once, those that are reserved beyond
    them)."""
    process = (sharded_process if workload.framework == "fsdp" else whole_process)(
        same.spec, workload
    )
    return max(1, process.allocator.most_allocated), process.kept_in_vain
