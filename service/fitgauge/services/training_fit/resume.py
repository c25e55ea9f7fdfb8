"""Resuming a training on another number of GPUs."""

from collections.abc import Callable

from msgspec import UNSET, UnsetType, structs

from fitgauge.engine.training.workload import TrainingWorkload
from fitgauge.engine.unsupported import UnsupportedError
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.training_fit.result import TrainingEstimate
from fitgauge.services.training_fit.run_schemas import CheckpointUse, Resume
from fitgauge.services.training_fit.schemas import TrainingRequest

_LOADS: dict[str, tuple[CheckpointUse, str]] = {
    "transformers": (
        "loads",
        "optimizer.pt holds whole states (transformers trainer.py, _load_optimizer_and_scheduler)",
    ),
    "fsdp": (
        "loads",
        "shards are divided again (accelerate utils/fsdp_utils.py, load_fsdp_optimizer;"
        " torch.distributed.checkpoint)",
    ),
    "deepspeed": (
        "converts",
        "ZeRO refuses another number of data-parallel ranks (deepspeed/runtime/engine.py,"
        " _load_zero_checkpoint): run ds_to_universal.py on the checkpoint and set"
        " load_universal_checkpoint",
    ),
    "megatron": (
        "loads",
        "tensor and pipeline ranks stay, and states are divided again over the others"
        " (megatron/core/optimizer/distrib_optimizer.py, dp_reshardable)",
    ),
    "torchtitan": (
        "loads_without_data",
        "weights and states are divided again (torch.distributed.checkpoint), but the data loader"
        " refuses another number of data-parallel ranks (torchtitan/components/data/loader.py): set"
        " --checkpoint.exclude_from_loading data_loader",
    ),
}


def resume(
    request: TrainingRequest,
    trained: TrainingEstimate,
    estimate: Callable[[TrainingRequest, int], TrainingEstimate],
) -> Resume | UnsetType:
    """Return the training on the GPUs that the request resumes on, with as many sequences a step.
    estimate: of a request on a number of GPUs."""
    count, workload = request.resume_gpu_count, trained.workload
    if count is None:
        return UNSET
    fields = {
        "gpu_count": count,
        "data_parallel": None,
        "micro_batches": _micro_batches(workload, trained.count, count),
        "framework": workload.framework,
        "method": workload.method,
    }
    use, why = _use(trained)
    try:
        resumed = estimate(structs.replace(request, **fields), count)
    except IMPOSSIBLE as error:
        reason = error.reason if isinstance(error, UnsupportedError) else error.detail
        return Resume(gpu_count=count, verdict="unsupported", checkpoint=use, why=reason)
    return Resume(
        gpu_count=count,
        verdict=resumed.verdict,
        required_bytes=resumed.need,
        micro_batches=resumed.workload.micro_batches,
        checkpoint=use,
        why=why,
    )


def _use(trained: TrainingEstimate) -> tuple[CheckpointUse, str]:
    """Return how the checkpoint loads, and why."""
    tool = trained.tool
    if tool is None or tool.writer in ("trainer", "megatron"):
        return _LOADS[trained.workload.framework]
    if tool.writer in _LOADS:
        return _LOADS[tool.writer]
    return "unverified", f"{tool.title}'s own loading was not read"


def _micro_batches(workload: TrainingWorkload, gpus: int, count: int) -> int:
    """Return the forward passes of a step that keep its sequences, at least."""
    return max(1, -(-workload.micro_batches * gpus // count))
